"""Each document under broken/ has one fault, which its name tells: line, value and expectation, and no more."""

from pathlib import Path

import pytest

from policy.document import load_document
from policy.fault import Faults

BROKEN = Path(__file__).parent / "broken"

# name: line, place, what was found, how the expectation begins
EXPECTED = {
    "a-list": (1, "document", "a list of 2", "a mapping of sections such as planes and routes"),
    "alias-bomb": (46, "e[3][3][8][2]", "too many values", "at most 50000, aliases included"),
    "anonymous-limit-by-client": (
        20,
        "tiers.guests.limits.guests",
        "a limit of anonymous callers by what they do not have",
        "per: [address, ...]",
    ),
    "anonymous-without-tier": (
        10,
        "planes.public.credentials",
        "none without an anonymous tier",
        "anonymous_tier beside it",
    ),
    "bad-address": (
        9,
        "planes.public.listen",
        "'127.0.0.1:84444'",
        "an address such as 127.0.0.1:8443, [::1]:8443, name:50051 or",
    ),
    "bad-utf8": (1, "document", "byte 0xf6", "UTF-8 text"),
    "bottomless": (1, "document", "values nested too deep", "at most 32 levels"),
    "broken-template": (
        39,
        "routes[1].match.path",
        "'/orders/{id'",
        "segments that are literal or one {name}, each name once, and",
    ),
    "burst-below-one": (
        23,
        "tiers.members.limits.members.rate",
        "'3/min burst 2x for 10s'",
        "a burst that holds at least 1 request (this one holds 0)",
    ),
    "connect-slower-than-request": (
        29,
        "upstreams.orders.connect_timeout",
        "3000ms for a connection",
        "at most the 2500ms of a whole request",
    ),
    "context-in-a-header-of-http": (
        3,
        "context.plain.content-length",
        "the header content-length",
        "a header that HTTP and Envoy have no use for",
    ),
    "control-character": (1, "document", "the control character 7", "printable text"),
    "credential-beyond-plane": (36, "routes[0].credentials", "api-key, which the plane does not accept", "one of jwt"),
    "credential-unrecognisable": (
        7,
        "planes.partner.credentials",
        "opaque without an introspection endpoint",
        "an introspection endpoint to recognise it by",
    ),
    "duplicate-key": (31, "upstreams.orders.timeout", "the key 'timeout' again", "each key once (first on line 30)"),
    "duplicate-route-id": (37, "routes[1].id", "the id 'orders' again", "each id once (first in routes[0])"),
    "empty": (1, "document", "nothing", "a mapping of sections such as planes and routes"),
    "forgeable-algorithm": (
        17,
        "issuers.idp.algorithms",
        "'HS256'",
        "one of ES256, ES384, ES512, Ed25519, EdDSA, PS256, PS384, PS",
    ),
    "framing-of-an-answer": (
        8,
        "planes.partner.responses.set",
        "content-length, by which HTTP finds the end of an answer or of a connection",
        "another header",
    ),
    "header-twice": (
        8,
        "planes.partner.responses.set",
        "a mapping",
        "header fields whose names differ in more than upper and lower case",
    ),
    "host-bits-in-network": (
        36,
        "routes[0].require.networks[0]",
        "'10.0.0.1/8'",
        "a CIDR range such as 10.0.0.0/8, without host bits",
    ),
    "keys-over-plain-http": (
        15,
        "issuers.idp.jwks",
        "'http://idp.example/jwks.json'",
        "an https: or file: address, or an http: address of this mach",
    ),
    "listen-twice": (
        9,
        "planes.public.listen",
        "127.0.0.1:8443, which is taken by planes.partner",
        "an address of its own",
    ),
    "match-on-identity-header": (
        34,
        "routes[0].match.headers.x-tenant-id",
        "the identity header x-tenant-id",
        "a header that clients may send: this one is removed before r",
    ),
    "missing-file": (
        7,
        "planes.partner.client_certificate.trust",
        "a file that cannot be read (No such file or directory)",
        "a readable file",
    ),
    "missing-key": (13, "issuers.idp.jwks", "nothing", "the key jwks"),
    "negative-duration": (41, "routes[1].timeout", "'-2s'", "a duration with a unit, such as 2500ms, 10s, 5min or 24h"),
    "number-without-unit": (41, "routes[1].timeout", "2", "a duration with a unit, such as 2500ms, 10s, 5min or 24h"),
    "old-tls": (6, "planes.partner.tls.minimum", "'1.2'", "'1.3'"),
    "only-a-comment": (1, "document", "nothing", "a mapping of sections such as planes and routes"),
    "overlapping-methods": (
        39,
        "routes[1].match",
        "a match of which the earlier route 'orders' takes GET",
        "a match of its own, or a place before that route",
    ),
    "override-of-nothing": (25, "consumers.shop.overrides[0].limit", "the unknown limit 'member'", "one of members"),
    "override-that-ends-first": (
        31,
        "consumers.shop.overrides[0].until",
        "an end that is not after the beginning",
        "an instant after since",
    ),
    "password-in-address": (3, "store.urls[0]", "an address with a password", "password: env:NAME or file:PATH"),
    "path-and-prefix": (44, "routes[2].match", "both path and prefix", "exactly one of them"),
    "path-with-query": (
        34,
        "routes[0].match.path",
        "'/orders?all'",
        "a path that begins with / and has no query and nothing that ",
    ),
    "per-try-above-total": (
        42,
        "routes[1].retry.per_try",
        "3000ms per try",
        "more than 0 and at most the route's 2000ms",
    ),
    "psd2-role-without-certificate": (
        36,
        "routes[0].require.psd2_roles",
        "PSD2 roles on the plane 'partner', whose clients show no PSD2 certificate",
        "a plane with the profile qwac-psd2 or obwac",
    ),
    "rate-of-nothing": (20, "tiers.guests.limits.guests.rate", "'0/min'", "a rate of at least 1 request"),
    "rate-without-period": (
        20,
        "tiers.guests.limits.guests.rate",
        "60",
        "a rate such as 600/min, 600/min burst 2x for 10s, 100/s burs",
    ),
    "reserved-name": (
        27,
        "upstreams.wardgate",
        "an upstream named wardgate",
        "another name: this one is the sidecar's",
    ),
    "retry-of-a-post": (
        41,
        "routes[1].retry.on",
        "retries on gateway-error of a request that may have been carried out",
        "connect-failure or refused-stream only, or idempotent: true ",
    ),
    "section-is-a-list": (24, "consumers", "a list of 1", "a mapping"),
    "shadowed-route": (
        39,
        "routes[1].match",
        "a match of which the earlier route 'orders' takes all requests",
        "a match of its own, or a place before that route",
    ),
    "sidecar-slower-than-route": (
        41,
        "routes[1].timeout",
        "100ms for the route",
        "at least sidecar.timeout, which is 250ms",
    ),
    "tab": (9, "document", "a tab", "spaces for indentation"),
    "tag": (1, "gateway", "the tag 'tag:yaml.org,2002:python/name:os.system'", "a value without a tag"),
    "too-deep": (
        46,
        "x[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]",
        "values nested too deep",
        "at most 32 levels",
    ),
    "transcode-without-descriptors": (
        41,
        "routes[1].transcode",
        "transcode towards 'orders', which is no gRPC upstream with descriptors and services",
        "an upstream with protocol grpc, descriptors and services",
    ),
    "tries-above-total": (
        42,
        "routes[1].retry.per_try",
        "3 tries of 900ms, which take 2700ms",
        "at most the route's 2000ms in all",
    ),
    "two-documents": (46, "document", "YAML that cannot be read (but found another document)", "well-formed YAML 1.2"),
    "unclosed-bracket": (
        11,
        "document",
        "YAML that cannot be read (expected ',' or ']', but got ':')",
        "well-formed YAML 1.2",
    ),
    "unknown-dimension": (
        20,
        "tiers.guests.limits.guests.per[0]",
        "'adress'",
        "'credential', 'client', 'tenant', 'subject', 'route', 'addre",
    ),
    "unknown-key": (
        41,
        "routes[1].timeuot",
        "the unknown key 'timeuot'",
        "one of access, answer_fields, application, body, context, con",
    ),
    "unknown-plane": (43, "routes[2].plane", "the unknown plane 'pubic'", "one of partner, public"),
    "unknown-tier": (25, "consumers.shop.tier", "the unknown tier 'member'", "one of guests, members"),
    "unknown-upstream": (35, "routes[0].upstream", "the unknown upstream 'order'", "one of orders"),
    "unlimited-timeout": (
        41,
        "routes[1].timeout",
        "0s (no limit)",
        "a timeout, or stream: true on a route that never ends",
    ),
    "unset-variable": (
        9,
        "planes.public.listen",
        "${NOWHERE} unset",
        "the environment variable NOWHERE to be set, or a default: ${",
    ),
    "websocket-without-stream": (
        37,
        "routes[0].websocket",
        "a WebSocket with the limits of a request",
        "stream: true beside it",
    ),
    "workers-on-one-port": (
        2,
        "sidecar.workers",
        "2 workers on one address",
        "a unix: address, of which each worker gets its own",
    ),
    "wrong-type": (7, "planes.partner.credentials", "'jwt'", "a list"),
}


@pytest.mark.parametrize("name", sorted(path.stem for path in BROKEN.glob("*.yaml")))
def test_broken_document_names_its_one_fault(name):
    path = BROKEN / f"{name}.yaml"
    line, where, found, expected = EXPECTED[name]

    with pytest.raises(Faults) as refusal:
        load_document(path, {})

    (fault,) = refusal.value.faults
    assert (fault.line, fault.where, fault.found) == (line, where, found)
    assert fault.expected.startswith(expected)
    assert str(fault).startswith(f"{path}:{line}:{fault.column}: {where}: found {found}, expected {expected}")


def test_every_expectation_has_its_document():
    assert {path.stem for path in BROKEN.glob("*.yaml")} == EXPECTED.keys()
