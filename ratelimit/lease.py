"""A lease: what one instance knows of one shared bucket, and may let through of it without asking.

That is the sum of two things:
- held: tokens already taken from the shared bucket, as many as the instance's demand of the next moment needs;
- credit: a part of what was left in the shared bucket at the last word from it, small enough for all instances to use
  theirs at once. What is let through on credit is owed, and charged with the next draw whatever the bucket holds.
A saturated bucket has nothing left, so there is no credit and what is admitted was always paid before. A refusal is
remembered until the instant that the store promised, or until the quota changes.

Windows and places are not leased; of them only refusals are remembered.
"""

from model.instant import MILLISECOND, SECOND, Duration, Instant
from model.quota import Algorithm, Charge, Outcome, Quota

WARM = SECOND
SOON = 10 * MILLISECOND


class Lease:
    """One bucket as this instance knows it."""

    __slots__ = (
        "at", "away", "blind", "calm", "charge", "contact", "credit", "dirty", "full", "held", "owed", "pending",
        "quota", "rate", "refused", "seen", "sent", "spare", "synced", "until", "used",
    )  # fmt: skip

    def __init__(self, charge: Charge) -> None:
        self.charge = charge
        self.quota = charge.quota
        self.held = 0
        self.credit = 0
        self.owed = 0
        self.sent = 0  # of what is owed, what a draw on its way reports
        self.spare = 0  # to be given back with the next draw
        self.full = 0  # when the shared bucket is full again, by the last word on it
        self.until = 0  # refusals of `refused` and more hold until then
        self.refused = 1
        self.contact = -WARM
        self.at = 0  # the store's clock at the last word from it
        self.seen = 0
        self.synced = 0
        self.used = 0
        self.rate = 0  # tokens asked for per second, smoothed
        self.dirty = False
        self.pending = False
        self.away = False
        self.calm = 0  # until when it stays with the share although the server is back
        self.blind = False  # the store has been asked for the first time and has not answered yet

    def take(self, cost: int) -> bool:
        """Take from what is held, then from the credit; all or nothing."""
        self.used += cost
        if cost <= self.held:
            self.held -= cost
            return True
        if cost <= self.held + self.credit:
            rest = cost - self.held
            self.held = 0
            self.credit -= rest
            self.owed += rest
            return True
        return False

    def estimate(self, now: Instant) -> tuple[int, int]:
        """Estimate what is left of the whole bucket, what is held included, and the time until it is full."""
        quota = self.quota
        reset = max(self.full - now, 0)
        missing = -(-reset * quota.count // quota.period) + self.owed - self.held if quota.count else quota.burst
        if missing <= 0:
            return quota.burst, 0
        return max(quota.burst - missing, 0), reset

    def wait(self, cost: int, now: Instant) -> int:
        """Time until the shared bucket will hold what `cost` needs; `SOON` where it should do so already."""
        quota = self.quota
        if quota.count <= 0 or cost > quota.burst:
            return max(self.full - now, quota.period)
        missing = quota.burst - cost + self.held - self.owed
        return max(self.full - missing * quota.period // quota.count - now, min(SOON, quota.period))

    def look(self, cost: int, now: Instant) -> Outcome:
        """Tell how a spend of `cost` would go from here, without asking."""
        left, reset = self.estimate(now)
        if cost <= self.held + self.credit:
            return Outcome(True, left, 0, reset)
        wait = self.until - now if self.until > now else self.wait(cost, now)
        return Outcome(False, 0 if cost == 1 else left, wait, max(reset, wait))

    def adopt(self, charge: Charge) -> None:
        """Take on changed numbers: nothing that was known under the old ones holds."""
        self.charge, self.quota = charge, charge.quota
        self.spare += self.held
        self.held = self.credit = self.until = 0
        self.contact = -WARM

    def learn(self, credit: int, full: Instant, now: Instant) -> None:
        """Take in the store's word: when the bucket is full, and what part of it may be let through on credit."""
        self.full = full
        self.credit = max(credit - self.owed, 0)
        self.contact = now
        self.until = 0
        self.blind = False

    def refuse(self, cost: int, until: Instant) -> None:
        """Remember that `cost` and more is refused until then."""
        self.refused, self.until = cost, until

    def cold(self, now: Instant) -> bool:
        """Tell whether too little is known to decide; a refusal just run out is known well enough while in use."""
        return now - self.contact > WARM and (now - self.seen > WARM or now - self.until > WARM)


def leased(quota: Quota) -> bool:
    """Tell whether a quota can be leased: a bucket, and not one of places."""
    return quota.algorithm is Algorithm.BUCKET and not quota.concurrent


def whole(quota: Quota) -> Duration:
    """Tell after how long without a spend a counter is the same as none."""
    if quota.algorithm is Algorithm.WINDOW or quota.count <= 0:
        return quota.period
    return quota.burst * quota.period // quota.count
