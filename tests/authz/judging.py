"""Certificates judged as a plane judges them: what comes of one, and where no root is of interest, under which."""

from authz.certificate import (
    judge_certificate,
    open_trust,
    read_peer,
)
from model.verdict import Deny
from tests.authz import pki


def judged(*presented, trust, now=pki.NOW, status=None):
    peer = read_peer(pki.encoded(*presented))
    return judge_certificate(peer, trust, now, status)


def outcome(leaf, *, root=None, now=pki.NOW, **options):
    """The identity, or the reason of the refusal, under a profile with one root."""
    root = root or pki.authority()
    verdict = judged(leaf, trust=open_trust(pki.profile_of(root, **options)), now=now)
    return verdict.reason if isinstance(verdict, Deny) else verdict


def qwac(**options):
    return pki.qwac(pki.authority(), **options)
