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


WEB = 'endpoints: ["127.0.0.1:9000"]'


@pytest.mark.parametrize(
    ("section", "where"),
    [
        ("limits: {body: 0B}", "limits.body"),
        ("limits: {body: 4GiB}", "limits.body"),
        ("limits: {body: 999999999999GiB}", "limits.body"),
        ("limits: {header_size: 0B}", "limits.header_size"),
        ("limits: {header_size: 9MiB}", "limits.header_size"),
        ("limits: {url: 0B}", "limits.url"),
        ("limits: {idle_timeout: 999999999999d}", "limits.idle_timeout"),
        ("admin: localhost:9901", "admin"),
    ],
)
def test_value_beyond_what_envoy_takes_is_refused(tmp_path, section, where):
    fault = refusal(tmp_path, ("routes:\n", f"{section}\nroutes:\n"))

    assert (fault.line, fault.where) == (9, where)


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("connect_timeout: 0.000001ms", "connect_timeout"),
        ("health: {path: /, interval: 0s}", "health.interval"),
        ("health: {path: /, timeout: 0s}", "health.timeout"),
        ("outliers: {interval: 0s}", "outliers.interval"),
        ("outliers: {eject: 0.9ms}", "outliers.eject"),
        ("response: 0B", "response"),
    ],
)
def test_wait_of_nothing_and_answer_of_nothing_are_refused(tmp_path, more, key):
    fault = refusal(tmp_path, (WEB, f"{WEB}, {more}"))

    assert (fault.line, fault.where) == (8, f"upstreams.web.{key}")


def test_body_of_a_route_is_bounded_too(tmp_path):
    assert refusal(tmp_path, (ROUTE, f"{ROUTE}, body: 0B")).where == "routes[0].body"


def test_socket_with_a_path_longer_than_the_kernel_takes_is_refused(tmp_path):
    path = f"/{'x' * 107}"

    assert refusal(tmp_path, ("unix:/tmp/small.sock", f"unix:{path}")).where == "sidecar.address"
    assert refusal(tmp_path, ("127.0.0.1:9000", f"unix:{path}")).where == "upstreams.web.endpoints[0]"


@pytest.mark.parametrize("address", ["[::1]:8081", "[0:0:0:0:0:0:0:1]:8081", "[::0:1]:8081"])
@pytest.mark.parametrize("other", ["admin", "sidecar"])
def test_listener_on_the_address_of_another_is_refused_however_that_is_written(tmp_path, address, other):
    taken = ("gateway: small", 'gateway: small\nadmin: "[::1]:8081"')
    if other == "sidecar":
        taken = ("unix:/tmp/small.sock", "[::1]:8081")
    fault = refusal(tmp_path, ("127.0.0.1:8080", address), taken)

    assert (fault.where, fault.found) == ("planes.public.listen", f"[::1]:8081, which is taken by {other}")


def test_address_with_a_zone_is_refused(tmp_path):
    assert refusal(tmp_path, ("127.0.0.1:8080", "[fe80::1%eth0]:8080")).where == "planes.public.listen"


@pytest.mark.parametrize(
    "host", ["api.example:8443", "a.*.example", "*api.example", "a b", "https://a.example", "bücher.example", "a..b"]
)
def test_host_that_no_request_can_have_is_refused(tmp_path, host):
    fault = refusal(tmp_path, ("credentials: [none]", f"credentials: [none], hosts: ['{host}']"))
    assert (fault.line, fault.where) == (4, "planes.public.hosts[0]")

    assert (
        refusal(tmp_path, ("methods: [GET]", f"methods: [GET], hosts: ['{host}']")).where == "routes[0].match.hosts[0]"
    )


def test_host_with_a_star_is_refused_on_a_route(tmp_path):
    """Routes compare hosts as a whole; a plane serves families of them."""
    assert refusal(tmp_path, ("methods: [GET]", "methods: [GET], hosts: ['*.example']")).found == "'*.example'"


def test_host_that_stands_twice_is_refused_in_whatever_spelling(tmp_path):
    fault = refusal(tmp_path, ("credentials: [none]", "credentials: [none], hosts: [api.example, API.example.]"))

    assert (fault.where, fault.found) == ("planes.public.hosts[1]", "the host 'api.example' again")


@pytest.mark.parametrize("origin", ["https://a.example/", "a.example", "https://", "https://a example", "https://a:x"])
def test_origin_that_no_browser_sends_is_refused(tmp_path, origin):
    fault = refusal(tmp_path, ("credentials: [none]", f"credentials: [none], cors: {{origins: ['{origin}']}}"))

    assert (fault.line, fault.where) == (4, "planes.public.cors.origins[0]")


@pytest.mark.parametrize(
    "origin", ["*", "null", "https://*", "https://*:8443", "https://*example", "https://app.*", "https://a-*-b.example"]
)
@pytest.mark.parametrize("place", ["plane", "route"])
def test_credentials_for_an_origin_that_anybody_can_have_are_refused(tmp_path, origin, place):
    cors = f"cors: {{origins: ['{origin}'], credentials: true}}"
    beside = "credentials: [none]" if place == "plane" else ROUTE
    fault = refusal(tmp_path, (beside, f"{beside}, {cors}"))

    assert fault.where == ("planes.public.cors.origins" if place == "plane" else "routes[0].cors.origins")


def test_method_in_small_letters_is_refused_in_cross_origin_rules(tmp_path):
    cors = "cors: {origins: ['https://*.example'], methods: [get]}"

    assert refusal(tmp_path, (ROUTE, f"{ROUTE}, {cors}")).where == "routes[0].cors.methods"
