"""Random changes to certificates, CRLs and OCSP responses: nothing escapes, nothing changed is allowed or believed.

`python -m tests.fuzz.fuzz_certificate [COUNT] [SEED]` runs it alone.
"""

import base64
import json
import random
import sys
import time
import traceback
from urllib.parse import quote

from cryptography.x509 import ocsp

from authz.certificate import Certificates, Identity, judge_certificate, open_trust, read_peer
from authz.crl import StatusInvalid, read_crl
from authz.ocsp import read_response
from authz.parsed import parse_certificate
from authz.statements import write_statements
from tests.authz import pki
from tests.authz.revoking import crl_of, response_of

HEAD, TAIL = "-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n"
ODD_OCTETS = (0x00, 0x01, 0x02, 0x05, 0x0C, 0x13, 0x1E, 0x30, 0x31, 0x7F, 0x80, 0x81, 0x82, 0x84, 0xA0, 0xA3, 0xFF)
LETTERS = "%-=+/ \n\t\x00AZaz09\u00e9"


class Fuzzer:
    """One authority with one partner, and the ways in which what they issue is spoiled."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.root = pki.authority()
        self.leaf = pki.qwac(self.root, serial=4711)
        self.text = pki.encoded(self.leaf)
        self.statements = write_statements(["PSP_AI", "PSP_PI"], "BaFin", "DE-BAFIN")
        self.trust = open_trust(pki.profile_of(self.root))
        self.crl = crl_of(self.root, [4711, 4712])
        self.response = response_of(self.leaf, self.root, status=ocsp.OCSPCertStatus.REVOKED)
        self.issuer, self.partner = parse_certificate(self.root.der), parse_certificate(self.leaf.der)
        self.ways = [*[self.spoil_leaf] * 6, *[self.spoil_text] * 3, self.sign_odd, self.spoil_crl, self.spoil_response]

    def spoil(self, good):
        """Change some octets: replaced, cut out, put in, or a stretch of it repeated."""
        octets = bytearray(good)
        for _ in range(self.random.choice((1, 1, 1, 2, 5))):
            place = self.random.randrange(len(octets) + 1)
            stop = place + self.random.choice((0, 1, 1, 1, 1, 2, 40))
            fresh = self.random.choices(ODD_OCTETS, k=self.random.choice((0, 1, 1, 1, 1, 2)))
            octets[place:stop] = bytes(fresh) or (octets[place : place + 20] if self.random.random() < 0.2 else b"")
        return bytes(octets)

    def judge(self, peer):
        return isinstance(peer, Certificates) and isinstance(judge_certificate(peer, self.trust, pki.NOW), Identity)

    def spoil_leaf(self):
        der = self.spoil(self.leaf.der)
        text = quote(HEAD + base64.encodebytes(der).decode() + TAIL, safe="")
        return self.judge(read_peer(text)) and der != self.leaf.der

    def spoil_text(self):
        letters = list(self.text)
        for _ in range(self.random.choice((1, 1, 2, 8))):
            place = self.random.randrange(len(letters))
            letters[place : place + self.random.choice((0, 1, 3, 200))] = self.random.choices(LETTERS, k=1)
        peer = read_peer("".join(letters))
        return self.judge(peer) and peer.leaf != self.leaf.der

    def sign_odd(self):
        """Sign odd statements by the issuer's own key: whatever passes must name a known role and the right holder."""
        odd = pki.qwac(self.root, statements=self.spoil(self.statements))
        verdict = judge_certificate(read_peer(pki.encoded(odd)), self.trust, pki.NOW)
        return isinstance(verdict, Identity) and not (verdict.psd2_roles and verdict.authority == "DE-BAFIN")

    def spoil_crl(self):
        try:
            return not read_crl(self.spoil(self.crl), [self.issuer]).entries.get(4711)
        except StatusInvalid:
            return False

    def spoil_response(self):
        try:
            return not read_response(self.spoil(self.response), self.partner, self.issuer, pki.NOW).revoked
        except StatusInvalid:
            return False


def run(count=None, seconds=None, seed=0):
    """Spoil `count` inputs, or as many as fit into `seconds`; give {inputs, escaped, wrongly_allowed}."""
    fuzzer = Fuzzer(seed)
    figures = {"inputs": 0, "escaped": 0, "wrongly_allowed": 0}
    stop = time.monotonic() + seconds if seconds is not None else None
    while (count is None or figures["inputs"] < count) and (stop is None or time.monotonic() < stop):
        figures["inputs"] += 1
        try:
            figures["wrongly_allowed"] += fuzzer.random.choice(fuzzer.ways)()
        except Exception:  # noqa: BLE001 - any exception at all is what is looked for
            traceback.print_exc()
            figures["escaped"] += 1
    return figures


if __name__ == "__main__":
    amount, first = (int(text) for text in (*sys.argv[1:], "100000", "0")[:2])
    sys.stdout.write(json.dumps(run(count=amount, seed=first)) + "\n")
