"""Hot keys decided without asking, from leases on the shared buckets.

Pure: the ledger decides, says what it wants of the store (`due`) and is told what came of it (`settle`); the limiter
carries the words, and the simulation does so on a fake clock.

A key that this instance has not had word of for a second is cold: the store is asked, once, and the answer makes it
warm; what is in use is drawn for in the background and stays so. Where a key's server is away, its lease goes over to
the instance's share until the server has been told what was spent of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from model.instant import MILLISECOND, SECOND, Duration, Instant
from model.quota import Charge, Outcome
from ratelimit.lease import WARM, Lease, leased, whole
from ratelimit.share import Share
from ratelimit.store import NEVER, Draw, Drawn, Identity, identify, permits

FRESH = 100 * MILLISECOND
HORIZON = 50 * MILLISECOND
CALM = SECOND
"""How long an instance keeps to its share after its server is back: longer than the others take to find it."""
FORGET = 10 * SECOND
SWEEP = 1_000
"""Keys looked at in one sweep: decisions wait for it, so a flood of new keys has to wait for its turn."""


@dataclass(slots=True)
class Asking:
    """A decision under way: what was taken here (by index), and what the store is asked."""

    charges: Sequence[Charge]
    taken: dict[int, Lease] = field(default_factory=dict)
    rest: list[int] = field(default_factory=list)

    @property
    def questions(self) -> list[Charge]:
        """List the charges that the store is asked."""
        return [self.charges[index] for index in self.rest]


class Ledger:
    """All keys that this instance knows. `away` tells whether the server of a charge's counter cannot be asked.

    `wake` is called when there is something new to draw. `lost` tells for how long a server has been without the data
    that it held, 0 else: it takes reports and decides nothing. `instances` is how many share the store.
    """

    def __init__(
        self,
        away: Callable[[Charge], bool],
        wake: Callable[[], None] = lambda: None,
        lost: Callable[[Charge], Duration] = lambda _charge: 0,
    ) -> None:
        self.instances = 1
        self.share = Share()
        self._leases: dict[Identity, Lease] = {}
        self._dirty: list[Lease] = []
        self._round: list[tuple[Identity, Lease]] = []  # those of this round that no sweep has looked at yet
        self._swept = 0
        self._unreachable = away
        self._lost = lost
        self._wake = wake

    def __len__(self) -> int:
        return len(self._leases)

    def admit(self, charges: Sequence[Charge], now: Instant) -> list[Outcome] | None:
        """Decide from what is known here; None where the store must be asked. See `model.quota.Limiter`."""
        leases: list[Lease] = []
        known = self._leases
        for charge in charges:
            lease = known.get(identify(charge))
            if lease is None or lease.away or lease.quota is not charge.quota or now - lease.contact > WARM:
                return self._admit_slowly(charges, now)
            leases.append(lease)
        return self._take_all(charges, leases, now)

    def begin(self, charges: Sequence[Charge], now: Instant) -> Asking:
        """Take here what can be taken, and name what the store must be asked."""
        asking = Asking(charges)
        for index, charge in enumerate(charges):
            lease = self._leases.get(identify(charge))
            known = lease is not None and lease.quota is charge.quota and leased(charge.quota) and not lease.blind
            if lease is not None and known and lease.take(charge.cost):
                asking.taken[index] = lease
                self._touch(lease, now)
            else:
                asking.rest.append(index)
        return asking

    def finish(self, asking: Asking, outcomes: Sequence[Outcome], now: Instant) -> list[Outcome]:
        """Learn from the store's answer, and put both halves together."""
        for charge, outcome in zip(asking.questions, outcomes, strict=True):
            lease = self._lease(charge)
            lease.seen = now
            if leased(charge.quota):
                lease.learn(self._credit(outcome.remaining), now + outcome.reset, now)
                if not outcome.remaining:
                    lease.refuse(1, now + lease.wait(1, now))
            if not outcome.allowed:
                lease.refuse(charge.cost, now + outcome.retry_after)
        return self._join(asking, outcomes, now)

    def abandon(self, asking: Asking, now: Instant) -> list[Outcome]:
        """Decide from the share what the store was asked in vain."""
        questions = asking.questions
        for charge in questions:
            self._turn_away(self._lease(charge), now)
        outcomes = self.share.take(questions, now)
        if permits(questions, outcomes):
            for charge, outcome in zip(questions, outcomes, strict=True):
                if outcome.allowed and not charge.quota.concurrent:
                    lease = self._lease(charge)
                    lease.owed += charge.cost
                    self._touch(lease, now)
        return self._join(asking, outcomes, now)

    def due(self, now: Instant) -> list[tuple[Lease, Draw]]:
        """List the draws to make now, each with the lease to which what comes of it belongs."""
        candidates, self._dirty = self._dirty, []
        for lease in candidates:
            lease.dirty = False
        if now - self._swept >= FRESH:
            self._swept = now
            candidates += self._sweep(now)
        wishes = []
        for lease in candidates:
            wish = self._wish(lease, now)
            if wish is not None:
                lease.pending = True
                wishes.append((lease, wish))
        return wishes

    def settle(self, wishes: Sequence[tuple[Lease, Draw]], drawn: Sequence[Drawn | None], now: Instant) -> None:
        """Take in what came of the draws. One that failed is reported again: rather twice than never."""
        for (lease, wish), got in zip(wishes, drawn, strict=True):
            lease.pending = False
            if got is None:
                self._mark(lease)
                continue
            lease.owed -= lease.sent
            lease.at = got.at
            lease.held += max(got.granted, 0)
            if not leased(lease.quota) or (lease.away and self._stay(lease, now)):
                continue
            left = min(got.left, lease.estimate(now)[0])  # more than was to be expected is believed at the second word
            lease.learn(self._credit(left), now + got.reset, now)
            if got.left <= 0 and got.granted < max(wish.want, 1):
                lease.refuse(1, now + lease.wait(1, now))

    def _stay(self, lease: Lease, now: Instant) -> bool:
        """Tell whether to stay with the share: what is left means little before all instances have reported theirs."""
        lease.calm = lease.calm or now + CALM
        lease.away = now < lease.calm or self._lost(lease.charge) > 0
        return lease.away

    def _away(self, charge: Charge) -> bool:
        return self._unreachable(charge) or self._lost(charge) > 0

    def drain(self) -> list[Draw]:
        """List what is to be reported and given back at the end of this instance's life."""
        return [
            Draw(lease.charge, lease.owed, -lease.held - lease.spare)
            for lease in self._leases.values()
            if lease.held or lease.owed or lease.spare
        ]

    def _take_all(self, charges: Sequence[Charge], leases: Sequence[Lease], now: Instant) -> list[Outcome] | None:
        """Take every charge from its lease, or none of them."""
        short = False
        taken: list[bool] = []
        for charge, lease in zip(charges, leases, strict=True):
            took = lease.take(charge.cost)
            taken.append(took)
            if not took and charge.quota.enforced:
                short = True
            lease.seen = now
            if not lease.dirty:
                self._mark(lease)
        if not short:
            return [
                Outcome(True, *_spread(lease.estimate(now))) if took else lease.look(charge.cost, now)
                for charge, lease, took in zip(charges, leases, taken, strict=True)
            ]
        for charge, lease, took in zip(charges, leases, taken, strict=True):
            if took:
                lease.held += charge.cost
        if self._must_ask(charges, leases, now):
            away = any(map(self._away, charges))
            return self._share_out(charges, leases, now) if away else None
        return [lease.look(charge.cost, now) for charge, lease in zip(charges, leases, strict=True)]

    def _must_ask(self, charges: Sequence[Charge], leases: Sequence[Lease], now: Instant) -> bool:
        """Tell whether a charge that falls short may yet pass: it is larger than a lease, or its server is away."""
        for charge, lease in zip(charges, leases, strict=True):
            if charge.cost > lease.held + lease.credit and not (lease.until > now and charge.cost >= lease.refused):
                larger = charge.cost > 1 and charge.cost <= lease.estimate(now)[0]
                if larger or self._away(charge):
                    return True
        return False

    def _admit_slowly(self, charges: Sequence[Charge], now: Instant) -> list[Outcome] | None:
        """Decide where at least one key is cold, changed, away, or never leased."""
        leases = [self._lease(charge) for charge in charges]
        if any(lease.away or self._away(charge) for charge, lease in zip(charges, leases, strict=True)):
            return self._share_out(charges, leases, now)
        refused = [
            lease.until > now and charge.cost >= lease.refused and charge.quota.enforced
            for charge, lease in zip(charges, leases, strict=True)
        ]
        if any(refused):
            for lease in leases:
                lease.seen = now
            return [
                _refusal(lease, now) if no else Outcome(True, *_spread(lease.estimate(now)))
                for lease, no in zip(leases, refused, strict=True)
            ]
        cold = [lease for lease in leases if not leased(lease.quota) or lease.cold(now)]
        if not cold:
            return self._take_all(charges, leases, now)
        for lease in cold:
            if leased(lease.quota):
                self._extend(lease, now)
        return None

    def _share_out(self, charges: Sequence[Charge], leases: Sequence[Lease], now: Instant) -> list[Outcome]:
        """Decide from what is held and from the share, without asking anybody."""
        for charge, lease in zip(charges, leases, strict=True):
            if self._away(charge):
                self._turn_away(lease, now)
        return self.abandon(self.begin(charges, now), now)

    def _extend(self, lease: Lease, now: Instant) -> None:
        """Let a little through on trust while the first question of a cold key is on its way."""
        lease.learn(self._credit(lease.quota.burst) // 4, now, now)
        lease.blind = True

    def _join(self, asking: Asking, outcomes: Sequence[Outcome], now: Instant) -> list[Outcome]:
        passes = permits(asking.questions, outcomes)
        joined: list[Outcome | None] = [None] * len(asking.charges)
        for index, outcome in zip(asking.rest, outcomes, strict=True):
            joined[index] = outcome
        for index, lease in asking.taken.items():
            if not passes:
                lease.held += asking.charges[index].cost
            joined[index] = Outcome(True, *_spread(lease.estimate(now)))
        return [outcome for outcome in joined if outcome is not None]

    def _lease(self, charge: Charge) -> Lease:
        identity = identify(charge)
        lease = self._leases.get(identity)
        if lease is None:
            lease = self._leases[identity] = Lease(charge)
        elif lease.quota is not charge.quota:
            if lease.quota == charge.quota:
                lease.quota = charge.quota
            else:
                lease.adopt(charge)
        return lease

    def _turn_away(self, lease: Lease, now: Instant) -> None:
        """Go over to the share: it begins with this instance's part of what was left."""
        if not lease.away and leased(lease.quota):
            lease.away = True
            lease.calm = 0
            known = lease.contact > 0 and not lease.blind
            left = lease.estimate(now)[0] + lease.owed - lease.held if known else lease.quota.burst
            self.share.seed(lease.charge, left, lease.owed, now)
            lease.credit = 0

    def _credit(self, left: int) -> int:
        """Tell what part of what is left one instance may let through unasked."""
        return left if self.instances == 1 else max(left, 0) // (2 * self.instances)

    def _touch(self, lease: Lease, now: Instant) -> None:
        lease.seen = now
        self._mark(lease)

    def _mark(self, lease: Lease) -> None:
        if not lease.dirty:
            lease.dirty = True
            if not self._dirty:
                self._wake()
            self._dirty.append(lease)

    def _sweep(self, now: Instant) -> list[Lease]:
        """Find what needs a word from the store although nothing was spent, and forget what is long idle."""
        found, gone = [], []
        self._round = self._round or list(self._leases.items())
        turn = self._round[-SWEEP:]
        del self._round[-SWEEP:]
        for identity, lease in turn:
            idle = now - lease.seen
            if idle > FORGET and not lease.pending and idle > whole(lease.quota):
                gone.append(identity)  # whatever was spent then counts no more: an outage must not fill the memory
            elif lease.held or lease.owed or lease.spare or lease.away or idle <= WARM or self._lost(lease.charge):
                found.append(lease)
            elif idle > FORGET and not lease.pending and lease.until <= now:
                gone.append(identity)
        for identity in gone:
            del self._leases[identity]
        return found

    def _wish(self, lease: Lease, now: Instant) -> Draw | None:
        if lease.pending or self._unreachable(lease.charge) or not (leased(lease.quota) or lease.owed):
            return None
        if lost := self._lost(lease.charge):
            self._turn_away(lease, now)
        lease.sent = lease.owed
        if lease.away or not leased(lease.quota):
            deficit = self.share.deficit(lease.charge, now)
            # a bucket that another instance began anew has gained since what this one spent of its own part meanwhile
            gained = min(lease.owed, self.share.gain(lease.charge, lost)) if lost else 0
            return Draw(lease.charge, min(lease.owed, deficit), 0, deficit + gained, lease.at or NEVER)
        want = self._want(lease, now)
        if not want and not lease.owed and (now - lease.contact < FRESH or lease.until > now):
            if now < lease.until < now + WARM and now - lease.seen <= WARM:
                self._mark(lease)  # to be drawn for as soon as the promised instant has come
            return None
        lease.held += min(want + lease.spare, 0)
        lease.spare = 0
        missing = lease.quota.burst - lease.estimate(now)[0]
        return Draw(lease.charge, lease.owed, want, max(missing, 0) // self.instances, lease.at or NEVER)

    def _want(self, lease: Lease, now: Instant) -> int:
        """How many tokens to take ahead of need; negative: to give back."""
        span = max(now - lease.synced, MILLISECOND)
        lease.rate = (3 * lease.rate + lease.used * SECOND // span) // 4
        lease.used, lease.synced = 0, now
        if self.instances == 1 or now - lease.seen > WARM:
            return -lease.held - lease.spare
        target = lease.rate * HORIZON // SECOND + 1
        if lease.until > now or 2 * lease.held >= target:
            return -lease.spare
        return target - lease.held - lease.spare


def _spread(estimate: tuple[int, int]) -> tuple[int, int, int]:
    left, reset = estimate
    return left, 0, reset


def _refusal(lease: Lease, now: Instant) -> Outcome:
    wait = lease.until - now
    return Outcome(False, 0, wait, wait)
