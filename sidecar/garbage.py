"""When the garbage collector looks, and at what: for as long as it looks, nothing else of the process runs.

What a request leaves behind goes by reference counts; cycles come from connections and errors, and are few.
"""

import gc

YOUNG = 5_000
"""Objects more than went away, from which the young ones are looked at: under a millisecond."""
MIDDLE = 5
"""Looks at the young ones for one at those that survived them: at most 25,000 objects, a few milliseconds."""
OLD = 1_000
"""Looks of that kind for one at everything: with a million remembered tokens a tenth of a second, so seldom."""


def settle_garbage() -> None:
    """Take all that is here now for good, so that it is never looked at again. To be called when all is loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
