"""The collector stops a worker for as long as it looks: not at what was loaded for good, and seldom at everything."""

import gc

from sidecar.garbage import settle_garbage


def test_what_is_loaded_is_never_looked_at_again_and_cycles_that_come_later_still_go():
    before = gc.get_threshold()
    loaded = [[] for _ in range(10)]
    try:
        settle_garbage()
        assert not any(each is loaded for each in gc.get_objects())
        loop = []
        loop.append(loop)
        del loop
        assert gc.collect() >= 1
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
