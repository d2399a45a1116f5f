"""Random changes to whole CheckRequests, through the whole service: nothing escapes, no 5xx, nobody passes as another.

Each route takes one kind of credential, so that an allowance can be held against what the request really carried, read
from the changed bytes by other code than that under test.

`python -m tests.fuzz.fuzz_request [COUNT] [SEED]` runs it alone.
"""

import asyncio
import json
import random
import re
import sys
import time
import traceback
from base64 import b64decode
from urllib.parse import parse_qs, unquote_to_bytes

from google.protobuf.message import DecodeError

from authz.apikey import hash_key
from authz.introspection import read_answer
from authz.keytable import index_keys
from authz.proof import Replays
from authz.resident import FixedKeys
from authz.service import AuthorizationService
from model.reason import Reason
from model.snapshot import Assertion, Introspection, Kind, Requirement
from model.verdict import Deny
from pb import ext_authz_pb2 as pb
from tests.authz import pki
from tests.authz.build import (
    NOW,
    ORGANISATION,
    CountingLimiter,
    answered,
    certificate,
    check_bytes,
    consumer,
    plane,
    request,
    resident,
    root,
    route,
    snapshot,
    token,
)
from tests.authz.proofs import ORIGIN, bound_token, prove
from tests.authz.test_assertion import assertion, trusted
from tests.authz.test_decide import bound_to

OPAQUE = "opaque-token-1"
KEY = "k1.secret"
SETTINGS = Introspection("vault", "https://vault.example/introspect", "gate", "env:X", audiences=("api",))
SAID = {"active": True, "client_id": "client-1", "scope": "accounts", "aud": "api", "exp": NOW // 10**9 + 300}
ODD = b'\x00\x01\x08\x0a\x12\x1a\x22\x2a\x7f\x80\xc0\xff,; \t\r\n"%&=.:/AZaz09'
NAMES = (
    "authorization",
    "x-api-key",
    "dpop",
    "host",
    ":path",
    "x-forwarded-for",
    "client-cert",
    "x-user-roles",
    "cookie",
)
CREDENTIALS = ("authorization", "x-api-key", "dpop")


class Vault:
    """An endpoint that knows one token."""

    def recall(self, endpoint_id, text, now):
        del endpoint_id
        if text != OPAQUE:
            return Deny(Reason.TOKEN_INACTIVE)
        return read_answer(json.dumps(SAID).encode(), SETTINGS, now)

    async def ask(self, endpoint_id, text, *, lenient):
        raise AssertionError("everything is known")


class Endless(CountingLimiter):
    """A limiter that has room for everybody."""

    def admit(self, charges, now):
        self.used.clear()
        return super().admit(charges, now)


def gateway():
    """A house in which every kind of credential has a route of its own."""
    accepted = tuple(kind for kind in Kind if kind is not Kind.NONE)
    planes = (
        plane(credentials=accepted, origin=ORIGIN, introspection="vault"),
        plane(id="peers", credentials=(Kind.CERTIFICATE, Kind.JWT), certificate=pki.profile_of(root())),
    )
    scoped = Requirement(scopes=("accounts",))
    routes = (
        route(id="jwt", credentials=(Kind.JWT,), requirement=scoped),
        route(id="api-key", credentials=(Kind.API_KEY,), requirement=scoped, stream=True),
        route(id="assertion", credentials=(Kind.ASSERTION,), requirement=scoped),
        route(id="opaque", credentials=(Kind.OPAQUE,), requirement=scoped),
        route(id="proof", credentials=(Kind.JWT,), requirement=Requirement(scopes=("accounts",), bound=True)),
        route(id="certificate", plane="peers", credentials=(Kind.CERTIFICATE,), requirement=Requirement()),
        route(id="bound", plane="peers", credentials=(Kind.JWT,), requirement=Requirement(bound=True)),
        route(id="webhook", credentials=(Kind.NONE,), requirement=Requirement(networks=("192.0.2.0/24",))),
    )
    partner = consumer(
        organisations=(), assertion=Assertion("file:///keys.json", ("EdDSA", "ES256"), scopes=("accounts",))
    )
    policy = snapshot(
        planes=planes,
        routes=routes,
        consumers=(partner, consumer(client_id="partner-2", organisations=(ORGANISATION,))),
        introspections={"vault": SETTINGS},
    )
    line = {"id": "k1", "sha256": hash_key(KEY), "client_id": "client-1", "scopes": ["accounts"]}
    keys = index_keys([json.dumps(line).encode()])
    return resident(policy, api_keys=keys, partners=FixedKeys(trusted("ed")), endpoints=Vault())


class Fuzzer:
    """Good requests of every kind, the ways in which they are spoiled, and the judge of what passed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.house = gateway()
        self.service = AuthorizationService(self.house, Endless(), lambda: NOW, lambda *_: None)
        self.peer = certificate()
        self.bearer, self.bound = token(), bound_to(certificate())
        self.proven = bound_token()
        self.proof = prove(self.proven)
        self.own = assertion()
        self.good = {name: check_bytes(asked) for name, asked in self.requests().items()}
        self.ways = [self.splice_octets, self.splice_octets, self.change_value, self.add_line, self.move, self.lose]

    def requests(self):
        def asked(name, bearer=None, **changes):
            return request(bearer=bearer, route=name, **changes)

        return {
            "jwt": asked("jwt", self.bearer),
            "api-key": asked("api-key", headers={"x-api-key": KEY}),
            "assertion": asked("assertion", self.own),
            "opaque": asked("opaque", OPAQUE),
            "proof": asked("proof", headers={"authorization": f"DPoP {self.proven}", "dpop": self.proof}),
            "certificate": asked("certificate", certificate=self.peer),
            "bound": asked("bound", self.bound, certificate=self.peer),
            "webhook": asked("webhook"),
        }

    def pick(self):
        message = pb.CheckRequest()
        message.ParseFromString(self.good[self.random.choice(list(self.good))])
        return message

    def splice_octets(self):
        data = bytearray(self.good[self.random.choice(list(self.good))])
        for _ in range(self.random.randint(1, 3)):
            place = self.random.randrange(len(data) + 1)
            stop = place + self.random.choice((0, 1, 1, 1, 4, 60))
            data[place:stop] = bytes(self.random.choices(ODD, k=self.random.choice((0, 1, 1, 1, 6))))
        return bytes(data)

    def change_value(self):
        """Change one header value, the path, the certificate or the address, and leave the message well-formed."""
        message = self.pick()
        attributes = message.attributes
        lines = attributes.request.http.header_map.headers
        which = self.random.randrange(len(lines) + 3)
        if which < len(lines):
            lines[which].raw_value = self.spoil(lines[which].raw_value)
        elif which == len(lines):
            attributes.source.certificate = self.spoil_text(attributes.source.certificate)
        elif which == len(lines) + 1:
            attributes.request.http.path = self.spoil_text(attributes.request.http.path)
        else:
            attributes.source.address.socket_address.address = self.spoil_text("192.0.2.7")
        return message.SerializeToString()

    def add_line(self):
        """Add a header line: a second credential, an identity, or anything."""
        message = self.pick()
        values = [self.bearer, f"Bearer {self.bearer}", f"DPoP {self.proven}", self.proof, KEY, self.own, "", "x"]
        added = message.attributes.request.http.header_map.headers.add(
            key=self.random.choice(NAMES), raw_value=self.random.choice(values).encode()
        )
        if self.random.random() < 0.3:
            added.key = added.key.upper()
        if self.random.random() < 0.3:
            message.attributes.request.http.path += self.random.choice(("?access_token=x", f"?api_key={KEY}", "?a=b&&"))
        return message.SerializeToString()

    def move(self):
        """Take a good request to the route of another."""
        message = self.pick()
        message.attributes.context_extensions["wardgate.route"] = self.random.choice([*self.good, "", "nowhere"])
        if self.random.random() < 0.3:
            del message.attributes.context_extensions["wardgate.route"]
        if self.random.random() < 0.3:
            message.attributes.request.http.method = self.random.choice(("POST", "get", "", "CONNECT"))
        return message.SerializeToString()

    def lose(self):
        """Leave something out, or send the headers in the other encoding."""
        message = self.pick()
        http = message.attributes.request.http
        if self.random.random() < 0.4 and http.header_map.headers:
            del http.header_map.headers[self.random.randrange(len(http.header_map.headers))]
        elif self.random.random() < 0.5:
            message.attributes.source.certificate = ""
        else:
            for line in http.header_map.headers:
                http.headers[line.key] = line.raw_value.decode("latin-1")
            http.ClearField("header_map")
        return message.SerializeToString()

    def spoil(self, value):
        data = bytearray(value)
        place = self.random.randrange(len(data) + 1)
        data[place : place + self.random.choice((0, 1, 1, 8))] = bytes(
            self.random.choices(ODD, k=self.random.randint(0, 3))
        )
        return bytes(data)

    def spoil_text(self, value):
        return self.spoil(value.encode()).decode("latin-1")

    def reset(self):
        """Let what is good once be good again, so that each input is judged by itself."""
        self.house.live.proofs, self.house.live.assertions = Replays(), Replays()

    def may_pass(self, data):
        """Whether these bytes carry the credential of the route that they name, read without the code under test."""
        try:
            attributes = pb.CheckRequest.FromString(data).attributes
        except DecodeError:
            return False
        http = attributes.request.http
        lines = [(line.key.lower(), line.raw_value.decode("latin-1") or line.value) for line in http.header_map.headers]
        lines = lines or [(name.lower(), value) for name, value in http.headers.items()]
        held = {name: value for name, value in lines if name in CREDENTIALS}
        peer = _same_certificate(attributes.source.certificate, self.peer)
        scheme, _, bearer = held.get("authorization", "").partition(" ")
        bearer, scheme = bearer.strip(" "), scheme.lower()
        match attributes.context_extensions.get("wardgate.route"):
            case "jwt":
                return (scheme, bearer) == ("bearer", self.bearer) or self.is_proven(scheme, bearer, held, http, peer)
            case "proof":
                return self.is_proven(scheme, bearer, held, http, peer)
            case "bound":
                return peer and (scheme, bearer) == ("bearer", self.bound)
            case "api-key":
                queried = parse_qs(http.path.partition("?")[2]).get("api_key", [])
                return held.get("x-api-key") == KEY or queried == [KEY]
            case "assertion":
                return (scheme, bearer) == ("bearer", self.own)
            case "opaque":
                return (scheme, bearer) == ("bearer", OPAQUE)
            case "certificate":
                return peer
            case "webhook":
                return attributes.source.address.socket_address.address.startswith("192.0.2.")
        return False

    def is_proven(self, scheme, bearer, held, http, peer):
        if peer and (scheme, bearer) == ("bearer", self.bound):
            return True
        proven = (scheme, bearer, held.get("dpop")) == ("dpop", self.proven, self.proof)
        return proven and http.method == "GET" and http.path.partition("?")[0].startswith("/v1/")


def _same_certificate(text, good):
    """Compare what two texts hold: escapes, line ends and spare bits are spelling, the octets behind them are not."""
    return _armoured(text) == _armoured(good)


def _armoured(text):
    blocks = re.findall(rb"-----BEGIN CERTIFICATE-----([^-]*)", unquote_to_bytes(text.encode("utf-8", "replace")))
    try:
        return b64decode(blocks[0]) if blocks else None
    except ValueError:
        return None


async def drive(count, seconds, seed):
    fuzzer = Fuzzer(seed)
    figures = {"inputs": 0, "escaped": 0, "wrongly_allowed": 0, "allowed": 0}
    stop = time.monotonic() + seconds if seconds is not None else None
    while (count is None or figures["inputs"] < count) and (stop is None or time.monotonic() < stop):
        figures["inputs"] += 1
        data = fuzzer.random.choice(fuzzer.ways)()
        fuzzer.reset()
        try:
            answer = pb.CheckResponse.FromString(await answered(fuzzer.service.check(data)))
        except Exception:  # noqa: BLE001 - any exception at all is what is looked for
            traceback.print_exc()
            figures["escaped"] += 1
            continue
        figures["escaped"] += answer.denied_response.status.code >= 500
        if answer.HasField("ok_response"):
            figures["allowed"] += 1
            figures["wrongly_allowed"] += not fuzzer.may_pass(data)
    return figures


def run(count=None, seconds=None, seed=0):
    """Spoil `count` requests, or as many as fit into `seconds`; give {inputs, escaped, wrongly_allowed, allowed}."""
    return asyncio.run(drive(count, seconds, seed))


if __name__ == "__main__":
    amount, first = (int(text) for text in (*sys.argv[1:], "100000", "0")[:2])
    sys.stdout.write(json.dumps(run(count=amount, seed=first)) + "\n")
