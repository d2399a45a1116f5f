"""A short run of the request fuzzer on every test run; `make fuzz` runs it long."""

import pytest

from pb import ext_authz_pb2 as pb
from tests.authz.build import answered
from tests.fuzz.fuzz_request import Fuzzer, drive

FUZZER = Fuzzer(0)


@pytest.mark.parametrize("kind", FUZZER.good)
async def test_request_that_is_spoiled_elsewhere_is_a_good_one(kind):
    """What the fuzzer starts from passes, and its judge says so too."""
    FUZZER.reset()
    answer = await answered(FUZZER.service.check(FUZZER.good[kind]))

    assert pb.CheckResponse.FromString(answer).HasField("ok_response")
    assert FUZZER.may_pass(FUZZER.good[kind])


async def test_no_changed_request_escapes_or_passes_without_its_credential():
    figures = await drive(3000, None, 1)

    assert (figures["inputs"], figures["escaped"], figures["wrongly_allowed"]) == (3000, 0, 0)
    assert 0 < figures["allowed"] < 3000
