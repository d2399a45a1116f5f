"""Counters in the process: exact, and bounded.

A counter that is whole again is the same as none, so it may be forgotten; each new counter sweeps two old ones, which
keeps the store as large as what is in use. Above `capacity` the oldest go first, whatever they hold.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from model.instant import Duration, Instant
from model.quota import Algorithm, Charge, Outcome
from ratelimit import bucket, places, window
from ratelimit.store import Draw, Drawn, Identity, identify

CAPACITY = 1_000_000

State = bucket.Bucket | window.Window | places.Places


class ForwardClock:
    """Time that never goes back.

    One reading that lies behind stands still, so that a slow clock between two right ones refills nothing. Readings
    that keep to the earlier time (the clock was set back) run on from there, so that nobody waits for the old time to
    come again.
    """

    def __init__(self) -> None:
        self.latest: Instant = 0
        self._trial: int | None = None

    def read(self, now: Instant) -> Instant:
        """Turn a reading into the time: at least the latest one given out."""
        time = now
        if time >= self.latest:
            self._trial = None
        else:
            if self._trial is None or now + self._trial < self.latest:
                self._trial = self.latest - now
            time = now + self._trial
        self.latest = time
        return time


class MemoryStore:
    """Counters of this process. `capacity` is the number of them that are kept at most."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._states: OrderedDict[Identity, tuple[State, Instant]] = OrderedDict()
        self._clock = ForwardClock()
        self._capacity = capacity

    def __len__(self) -> int:
        return len(self._states)

    def take(self, charges: Sequence[Charge], now: Instant) -> list[Outcome]:
        """Spend all charges or none, without waiting."""
        now = self._clock.read(now)
        if len(charges) == 1:
            return [self._take_one(charges[0], now)]
        staged: dict[Identity, tuple[State | None, Instant]] = {}
        outcomes: list[Outcome] = []
        passes = True
        for charge in charges:
            identity = identify(charge)
            entry = staged.get(identity) or self._states.get(identity)
            after, outcome = _weigh(entry[0] if entry else None, charge, now)
            staged[identity] = after, now + _forgettable(after, charge, outcome, now)
            outcomes.append(outcome)
            if not outcome.allowed and charge.quota.enforced:
                passes = False
        if not passes:
            return [
                self.look(charge, now) if outcome.allowed else outcome
                for charge, outcome in zip(charges, outcomes, strict=True)
            ]
        for identity, (state, whole) in staged.items():
            self._keep(identity, state, whole, now)
        return outcomes

    def _take_one(self, charge: Charge, now: Instant) -> Outcome:
        """Take a charge that stands alone, as most do: there is nothing to wait for before it is kept."""
        identity = identify(charge)
        entry = self._states.get(identity)
        after, outcome = _weigh(entry[0] if entry else None, charge, now)
        if outcome.allowed or not charge.quota.enforced:
            self._keep(identity, after, now + _forgettable(after, charge, outcome, now), now)
        return outcome

    async def spend(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """See `take`."""
        return self.take(charges, now)

    async def draw(self, draws: Sequence[Draw], now: Instant) -> Sequence[Drawn]:
        """See `ratelimit.store.Store`."""
        now = self._clock.read(now)
        return [self._draw(wish, now) for wish in draws]

    async def refund(self, charges: Sequence[Charge], now: Instant) -> None:
        """See `put_back`."""
        self.put_back(charges, now)

    def put_back(self, charges: Sequence[Charge], now: Instant) -> None:
        """Give back what the charges took, without waiting."""
        now = self._clock.read(now)
        for charge in charges:
            entry = self._states.get(identify(charge))
            if entry is not None:
                state, whole = _refund(entry[0], charge, now)
                self._keep(identify(charge), state, now + whole, now)

    async def peek(self, charges: Sequence[Charge], now: Instant) -> Sequence[Outcome]:
        """See `ratelimit.store.Store`."""
        now = self._clock.read(now)
        return [self.look(charge, now) for charge in charges]

    def seed(self, charge: Charge, tokens: int, now: Instant) -> None:
        """Let the bucket of a charge hold `tokens`, whatever it held before."""
        now = self._clock.read(now)
        full = bucket.Bucket(now, tokens, charge.quota.burst, now)
        self._keep(identify(charge), full, now + bucket.whole_at(full, charge.quota, now), now)

    def _draw(self, wish: Draw, now: Instant) -> Drawn:
        identity, quota = identify(wish.charge), wish.charge.quota
        entry = self._states.get(identity)
        if quota.algorithm is Algorithm.WINDOW:
            rolled = window.record(cast("window.Window | None", entry[0] if entry else None), quota, wish.owed, now)
            reset = window.reset(rolled, quota, now)
            self._keep(identity, rolled, now + reset, now)
            return Drawn(0, quota.count - window.roll(rolled, quota, now)[1], reset, now)
        before = cast("bucket.Bucket | None", entry[0] if entry else None)
        after, granted, left = bucket.draw(before, quota, wish, wish.since, now)
        self._keep(identity, after, now + bucket.whole_at(after, quota, now), now)
        return Drawn(granted, left, bucket.until(after, quota, quota.burst, now), now)

    def look(self, charge: Charge, now: Instant) -> Outcome:
        """Tell what a spend of cost 0 would say; nothing is counted."""
        entry = self._states.get(identify(charge))
        state = entry[0] if entry else None
        if charge.quota.concurrent:
            return places.peek(cast("places.Places | None", state), charge.quota, now)
        return _weigh(state, replace(charge, cost=0), now)[1]

    def _keep(self, identity: Identity, state: State | None, whole: Instant, now: Instant) -> None:
        states = self._states
        if state is None or whole <= now:
            states.pop(identity, None)
            return
        before = len(states)
        states[identity] = state, whole
        if len(states) > before:
            self._sweep(now)

    def _sweep(self, now: Instant) -> None:
        """Forget up to two counters that are whole again, and the oldest ones where there are too many."""
        states = self._states
        for _ in range(min(2, len(states))):
            oldest = next(iter(states))
            if states[oldest][1] <= now:
                del states[oldest]
            else:
                states.move_to_end(oldest)
        while len(states) > self._capacity:
            states.popitem(last=False)


def _weigh(state: State | None, charge: Charge, now: Instant) -> tuple[State | None, Outcome]:
    quota = charge.quota
    if quota.concurrent:
        return places.spend(cast("places.Places | None", state), quota, charge.holder, now)
    if quota.algorithm is Algorithm.BUCKET:
        return bucket.spend(cast("bucket.Bucket | None", state), quota, charge.cost, now)
    return window.spend(cast("window.Window | None", state), quota, charge.cost, now)


def _refund(state: State, charge: Charge, now: Instant) -> tuple[State, Duration]:
    """Put back what a charge took: the state afterwards, and the time until it is the same as none."""
    quota = charge.quota
    if isinstance(state, bucket.Bucket):
        after = bucket.refund(state, quota, charge.cost, now)
        return after, bucket.whole_at(after, quota, now)
    if isinstance(state, window.Window):
        rolled = window.refund(state, quota, charge.cost, now)
        return rolled, window.reset(rolled, quota, now)
    left = places.refund(state, charge.holder)
    return left, places.reset(left, now)


def _forgettable(state: State | None, charge: Charge, outcome: Outcome, now: Instant) -> Duration:
    """Time until the counter is the same as none."""
    if isinstance(state, bucket.Bucket) and state.high > charge.quota.burst:
        return bucket.whole_at(state, charge.quota, now)
    return outcome.reset
