"""Random changes to tokens and key sets: nothing may escape as an exception, and nothing changed may be allowed.

`python -m tests.fuzz.fuzz_token [COUNT] [SEED]` runs it alone.
"""

import json
import random
import sys
import time
import traceback
from base64 import urlsafe_b64decode, urlsafe_b64encode

from authz.keyset import KeySetInvalid, read_keys
from authz.token import Claims, verify_token
from tests.authz.tokens import CLAIMS, NOW, jwk, key_set, sign, token, trust

LETTERS = b'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=+/ \n\x00\xff{}[]":,'
MEMBERS = ["alg", "kid", "typ", "crit", "b64", "jwk", "jku", "x5c", *CLAIMS, "nbf", "cnf", "roles", "nonce", "events"]
ODD = [
    None,
    True,
    0,
    -1,
    2**63,
    10**309,
    1.5,
    1e308,
    "",
    "none",
    "HS256",
    "\x00",
    "\ud800",
    "k" * 300,
    [],
    {},
    [None],
    [[[[]]]],
    {"jkt": 1},
]


class Fuzzer:
    """Good tokens of every kind, and the ways in which they are spoiled."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        names = ("rsa", "ed", "p256", "p384", "p521")
        self.good = [token(name) for name in names] + [token("rsa", "PS256"), token("ed", header={"kid": ...})]
        self.trust = trust()
        self.keys = key_set(*(jwk(name) for name in names))
        self.ways = [self.splice_octets, self.splice_tokens, self.change_json, self.sign_odd, self.repeat_part]

    def splice_octets(self):
        text = bytearray(self.random.choice(self.good).encode())
        for _ in range(self.random.randint(1, 3)):
            place = self.random.randrange(len(text) + 1)
            stop = place + self.random.choice((0, 1, 1, 1, 4, 100))
            text[place:stop] = bytes(self.random.choices(LETTERS, k=self.random.choice((0, 1, 1, 1, 5))))
        return bytes(text).decode("latin-1"), False

    def splice_tokens(self):
        one, other = (self.random.choice(self.good).split(".") for _ in range(2))
        return ".".join(self.random.choice(pair) for pair in zip(one, other, strict=True)), False

    def repeat_part(self):
        parts = self.random.choice(self.good).split(".")
        parts.insert(self.random.randrange(4), self.random.choice(["", *parts]))
        return ".".join(parts), False

    def change_json(self):
        """Change a header or a payload as JSON and leave the signature as it was."""
        parts = self.random.choice(self.good).split(".")
        which = self.random.randrange(2)
        document = json.loads(urlsafe_b64decode(parts[which] + "=="))
        document[self.random.choice(MEMBERS)] = self.random.choice(ODD)
        raw = json.dumps(document).encode()
        if self.random.random() < 0.1:
            raw = self.random.choice((b"[" * 3000, raw + raw, raw[:-1], b"\xef\xbb\xbf" + raw, raw.replace(b'"', b"'")))
        parts[which] = urlsafe_b64encode(raw).rstrip(b"=").decode()
        return ".".join(parts), False

    def sign_odd(self):
        """Sign odd content, by the issuer's own key (nothing may escape) or by a stranger's (nothing may pass)."""
        own = self.random.random() < 0.5
        head = {"alg": "EdDSA", "kid": "ed", "typ": self.random.choice(["at+jwt", "JWT"])}
        body = {**CLAIMS, self.random.choice(MEMBERS): self.random.choice(ODD)}
        if self.random.random() < 0.5:
            head[self.random.choice(MEMBERS)] = self.random.choice(ODD)
        return sign(head, body, "ed" if own else "ed-2"), own

    def spoil_keys(self):
        raw = bytearray(self.keys)
        for _ in range(self.random.randint(1, 5)):
            place = self.random.randrange(len(raw))
            raw[place : place + self.random.choice((0, 1, 1, 20))] = bytes(self.random.choices(LETTERS, k=1))
        return bytes(raw)


def run(count=None, seconds=None, seed=0):
    """Spoil `count` inputs, or as many as fit into `seconds`; give {inputs, escaped, wrongly_allowed}."""
    fuzzer = Fuzzer(seed)
    figures = {"inputs": 0, "escaped": 0, "wrongly_allowed": 0}
    stop = time.monotonic() + seconds if seconds is not None else None
    while (count is None or figures["inputs"] < count) and (stop is None or time.monotonic() < stop):
        figures["inputs"] += 1
        try:
            if figures["inputs"] % 20 == 0:
                try_keys(fuzzer.spoil_keys())
                continue
            text, own = fuzzer.random.choice(fuzzer.ways)()
            answer = verify_token(text, fuzzer.trust, NOW)
            figures["wrongly_allowed"] += isinstance(answer, Claims) and not own and text not in fuzzer.good
        except Exception:  # noqa: BLE001 - any exception at all is what is looked for
            traceback.print_exc()
            figures["escaped"] += 1
    return figures


def try_keys(document):
    """A spoiled key set is read or refused, and never anything else."""
    try:
        read_keys(document)
    except KeySetInvalid:
        return


if __name__ == "__main__":
    amount, first = (int(text) for text in (*sys.argv[1:], "100000", "0")[:2])
    sys.stdout.write(json.dumps(run(count=amount, seed=first)) + "\n")
