"""The background of a worker."""

import asyncio

from sidecar.worker import _repeat


async def test_work_that_is_due_again_and_again_survives_its_own_faults(caplog):
    done, faults = asyncio.Event(), [ZeroDivisionError()]

    def job():
        if faults:
            raise faults.pop()
        done.set()

    task = asyncio.create_task(_repeat(1, job))
    async with asyncio.timeout(10):
        await done.wait()
    task.cancel()
    assert "background work failed" in caplog.text
