"""A clock, a network and an observer for what fetches revocation lists and responses."""

from cryptography import x509
from cryptography.x509.oid import AuthorityInformationAccessOID

from authz.fetch import FetchFailed, StatusFetcher
from authz.status import Revocations
from tests.authz import pki
from tests.authz.revoking import parsed


class Clock:
    def __init__(self):
        self.now = pki.NOW

    def __call__(self):
        return self.now


class Notes:
    """An observer that writes down what it hears."""

    def __init__(self):
        self.loaded, self.failed = [], []

    def status_loaded(self, source, seconds_left):
        self.loaded.append((source, seconds_left))

    def status_failed(self, source, why):
        self.failed.append((source, why))


class Net:
    """A network of documents by URL; an exception among them is raised. `asked` are the URLs in order."""

    def __init__(self, **documents):
        self.documents, self.asked = documents, []

    async def __call__(self, url, body, limit):
        self.asked.append(url)
        found = self.documents.get(url, FetchFailed("status 404"))
        if isinstance(found, Exception):
            raise found
        return found


def fetcher_of(clock, net=None, notes=None):
    return StatusFetcher(Revocations(), clock=clock, random=lambda: 0.5, observer=notes, transfer=net)


def reason_of(fetcher, leaf, root, clock):
    refusal = fetcher.book.judge((parsed(leaf), parsed(root)), clock.now, hard=True)
    return refusal and refusal.reason


def access(*urls):
    return (
        x509.AuthorityInformationAccess(
            [
                x509.AccessDescription(AuthorityInformationAccessOID.OCSP, x509.UniformResourceIdentifier(url))
                for url in urls
            ]
        ),
        False,
    )


def points(*urls):
    names = [x509.UniformResourceIdentifier(url) for url in urls]
    return (x509.CRLDistributionPoints([x509.DistributionPoint(names, None, None, None)]), False)
