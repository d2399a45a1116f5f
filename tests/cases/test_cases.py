"""Every case in the YAML files, from Envoy's bytes to Envoy's bytes."""

import base64
import json
from collections import Counter

import pytest

from authz.service import AuthorizationService
from pb import ext_authz_pb2 as pb
from tests.authz.build import NOW, CountingLimiter, drive
from tests.cases.case import SCHEMA, load_cases, open_house, write_request, write_schema

CASES = load_cases()


def play(case):
    """Send the request as often as the case says; the last verdict and the last answer."""
    seen = []
    service = AuthorizationService(
        open_house(case.policy), CountingLimiter(), lambda: NOW, lambda _, verdict, __: seen.append(verdict)
    )
    data = write_request(case.request)
    answers = [drive(service.check(data)) for _ in range(case.request.times)]
    return seen[-1], pb.CheckResponse.FromString(answers[-1])


def fields(options):
    return {option.header.key: option.header.value for option in options}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.case)
def test_decision_is_as_written(case):
    """The sentence of the case holds."""
    verdict, response = play(case)
    want = case.want
    for name, value in want.caller.items():
        assert getattr(verdict.caller, name) == value
    if want.deny is not None:
        assert getattr(verdict, "reason", "allowed") == want.deny
        check_denial(response.denied_response, want)
    else:
        assert response.WhichOneof("http_response") == "ok_response", verdict
        check_allowance(response.ok_response, want)


def check_denial(denied, want):
    document = json.loads(denied.body)
    challenges = [option.header.value for option in denied.headers if option.header.key == "www-authenticate"]
    assert want.status in (None, denied.status.code)
    assert want.challenge is None or any(want.challenge in challenge for challenge in challenges)
    assert want.retry_after is None or fields(denied.headers)["retry-after"] == str(want.retry_after)
    assert {name: document.get(name) for name in want.document} == want.document


def check_allowance(allowed, want):
    context = fields(allowed.headers).get("x-verified-caller-context", "..")
    payload = context.split(".")[1]
    members = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)) or b"{}")
    assert {name: members.get(name) for name in want.context} == want.context
    assert set(want.removed) <= set(allowed.headers_to_remove)
    assert set(want.removed_query) == set(allowed.query_parameters_to_remove)


def test_each_case_has_a_sentence_of_its_own():
    """A case that stands twice hides one of the two."""
    assert [sentence for sentence, count in Counter(case.case for case in CASES).items() if count > 1] == []
    assert len(CASES) >= 30


def test_schema_beside_the_cases_is_in_step():
    """Editors complete and check what the tests read."""
    assert SCHEMA.read_text(encoding="utf-8") == write_schema()
