"""What Envoy would refuse, or could never match, is a fault of the document: with its place, and before any edit."""

import pytest

from policy.fault import Faults
from tests.policy.build import MINIMAL, load_text

ROUTE = "match: {path: /, methods: [GET]}"


def refusal(folder, *replacements):
    """Give the one fault of the smallest document after some replacements."""
    text = MINIMAL
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(Faults) as caught:
        load_text(folder, text)
    (fault,) = caught.value.faults
    return fault


def test_rewrite_of_a_path_with_names_is_refused(tmp_path):
    fault = refusal(tmp_path, (ROUTE, 'match: {path: "/a/{id}"}, rewrite: /b'))

    assert (fault.line, fault.where, fault.found) == (10, "routes[0].rewrite", "'/b' in place of a path with {name}")


@pytest.mark.parametrize(
    "match",
    [
        "path: /a/{id}:watch",
        "path: /a/{id}/b/{id}",
        "path: /{a}/{b}/{c}/{d}/{e}/{f}",
        "path: /*/{a}",
        "path: /a[b]/{a}",
        "path: /a/{}",
        "path: /a}",
        "path: /a//b",
        "path: /a/../b",
        "path: /a/.",
        "path: /ü",
        "path: /a|b",
        'path: /a"b',
        "prefix: //",
        "prefix: /a//",
        "prefix: /./a",
        "prefix: /a/{id}",
    ],
)
def test_path_that_envoy_refuses_or_never_meets_is_refused(tmp_path, match):
    key, _, path = match.partition(": ")
    fault = refusal(tmp_path, (ROUTE, f"match: {{{key}: '{path}'}}"))

    assert (fault.line, fault.where) == (10, f"routes[0].match.{key}")
    assert fault.found.startswith(repr(path))
