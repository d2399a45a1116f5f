"""Background sources of revocation status: what is fetched, from where, how often, and what is never fetched."""

from datetime import timedelta

import pytest
from cryptography.x509 import ocsp

from authz.certificate import open_trust
from authz.fetch import FetchFailed
from model.instant import HOUR, MINUTE, SECOND
from model.reason import Reason
from tests.authz import pki
from tests.authz.fetching import Net, Notes, access, fetcher_of, points, reason_of
from tests.authz.revoking import HOURS, crl_of, parsed, response_of


async def test_a_file_is_taken_up_when_it_changes(root, clock, tmp_path):
    """Both as a path and as a file: URL, within a second of the clock; unchanged, it is not parsed again."""
    leaf, path, notes = pki.qwac(root), tmp_path / "root.crl", Notes()
    path.write_bytes(crl_of(root))
    for source in (str(path), path.as_uri()):
        fetcher = fetcher_of(clock, notes=notes)
        fetcher.apply([source], [], [parsed(root)])
        await fetcher.refresh()
        assert reason_of(fetcher, leaf, root, clock) is None
        clock.now += SECOND
        await fetcher.refresh()
        assert notes.loaded == [(source, notes.loaded[0][1])]
        path.write_bytes(crl_of(root, [leaf.certificate.serial_number], number=2))
        clock.now += SECOND
        await fetcher.refresh()
        assert reason_of(fetcher, leaf, root, clock) is Reason.CERTIFICATE_REVOKED
        notes.loaded.clear()
        path.write_bytes(crl_of(root))


async def test_a_bad_file_is_refused_and_the_old_list_kept(root, clock, tmp_path):
    """C-08 (c), (d): said once, not at every look; and once more when it is mended and broken again."""
    leaf, path, notes = pki.qwac(root), tmp_path / "root.crl", Notes()
    path.write_bytes(crl_of(root, [leaf.certificate.serial_number]))
    fetcher = fetcher_of(clock, notes=notes)
    fetcher.apply([str(path)], [], [parsed(root)])
    await fetcher.refresh()
    for data in (crl_of(pki.authority(keyed="p256/stranger")), b""):
        path.write_bytes(data)
        for _ in range(3):
            clock.now += SECOND
            await fetcher.refresh()
        assert reason_of(fetcher, leaf, root, clock) is Reason.CERTIFICATE_REVOKED
    path.unlink()
    clock.now += SECOND
    await fetcher.refresh()
    assert reason_of(fetcher, leaf, root, clock) is Reason.CERTIFICATE_REVOKED
    assert [why for _, why in notes.failed] == [
        "no listed issuer signed the list",
        "the list is empty",
        "No such file or directory",
    ]


async def test_a_source_with_a_fault_that_nobody_expected_leaves_the_others_fresh(root, clock):
    """Its text may quote anything: the kind is told, and it is tried again."""
    notes, net = Notes(), Net(**{"http://a.example/": ZeroDivisionError("secret")})
    net.documents["http://b.example/"] = crl_of(root)
    fetcher = fetcher_of(clock, net, notes)
    fetcher.apply(["http://a.example/", "http://b.example/"], [], [parsed(root)])
    await fetcher.refresh()

    assert notes.failed == [("http://a.example/", "unexpected ZeroDivisionError")]
    assert [source for source, _ in notes.loaded] == ["http://b.example/"]

    net.documents["http://a.example/"] = crl_of(root)
    clock.now += HOUR
    await fetcher.refresh()
    assert "http://a.example/" in [source for source, _ in notes.loaded]


async def test_a_file_may_come_later(root, clock, tmp_path):
    """A source that is away keeps nobody from starting."""
    path = tmp_path / "root.crl"
    fetcher = fetcher_of(clock)
    fetcher.apply([str(path)], [], [parsed(root)])
    await fetcher.refresh()
    path.write_bytes(crl_of(root))
    clock.now += SECOND
    await fetcher.refresh()
    assert reason_of(fetcher, pki.qwac(root), root, clock) is None


async def test_a_list_is_fetched_again_in_the_middle_of_what_is_left(root, clock):
    """Half of the window, at least a minute, at most an hour; a failure after a minute."""
    url, notes = "http://crl.example/root", Notes()
    net = Net(**{url: crl_of(root)})
    fetcher = fetcher_of(clock, net, notes)
    fetcher.apply([url], [], [parsed(root)])
    await fetcher.refresh()
    assert notes.loaded == [(url, 3600)]
    clock.now += 29 * MINUTE
    await fetcher.refresh()
    assert len(net.asked) == 1
    net.documents[url] = FetchFailed("status 500")
    clock.now += MINUTE
    await fetcher.refresh()
    await fetcher.refresh()
    assert len(net.asked) == 2
    assert notes.failed == [(url, "status 500")]
    net.documents[url] = crl_of(root, number=2, end=100 * HOURS)
    clock.now += MINUTE
    await fetcher.refresh()
    clock.now += HOUR - 1
    await fetcher.refresh()
    assert len(net.asked) == 3
    clock.now += 1
    await fetcher.refresh()
    assert len(net.asked) == 4


async def test_a_responder_of_a_listed_host_is_asked_off_the_request_path(root, clock):
    """The first request meets an unknown status and waits for nothing; the answer is there for the next one."""
    url = "http://ocsp.example/"
    leaf = pki.qwac(root, extra=[access(url)])
    net = Net(**{url: response_of(leaf, root)})
    fetcher = fetcher_of(clock, net)
    fetcher.apply([], ["ocsp.example"], [parsed(root)])
    assert reason_of(fetcher, leaf, root, clock) is Reason.CERTIFICATE_STATUS_UNKNOWN
    assert net.asked == []
    await fetcher.refresh()
    assert reason_of(fetcher, leaf, root, clock) is None
    await fetcher.refresh()
    assert net.asked == [url]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://ocsp.example.evil.org/",
        "http://ocsp.example:6379/",
        "http://ocsp.example@127.0.0.1/",
        "http://user@ocsp.example/",
        "file:///etc/passwd",
        "ftp://ocsp.example/",
        "gopher://ocsp.example/",
        "ldap://ocsp.example/",
        "//ocsp.example/",
        "http://[::1",
        "http://ocsp.example:99999999/",
    ],
)
async def test_a_url_of_a_certificate_is_fetched_only_from_listed_hosts(root, clock, url):
    """Pitfall 35: the certificate is a stranger's, so are its URLs."""
    leaf = pki.qwac(root, extra=[access(url), points(url)])
    net = Net()
    fetcher = fetcher_of(clock, net)
    fetcher.apply([], ["ocsp.example"], [parsed(root)])
    reason_of(fetcher, leaf, root, clock)
    await fetcher.refresh()
    await fetcher.refresh()
    assert net.asked == []


async def test_a_port_counts_where_it_is_listed(root, clock):
    """A listed "host:port" is that port alone."""
    leaf = pki.qwac(root, extra=[access("http://ocsp.example:8080/", "http://ocsp.example/")])
    net = Net()
    fetcher = fetcher_of(clock, net)
    fetcher.apply([], ["ocsp.example:8080"], [parsed(root)])
    reason_of(fetcher, leaf, root, clock)
    await fetcher.refresh()
    assert net.asked == ["http://ocsp.example:8080/"]


@pytest.mark.parametrize(
    ("listed", "url", "asked"),
    [
        ("ocsp.example", "http://ocsp.example:80/", True),
        ("ocsp.example", "https://ocsp.example:443/", True),
        ("ocsp.example:80", "http://ocsp.example/", True),
        ("ocsp.example", "https://ocsp.example:80/", False),
        ("ocsp.example:80", "https://ocsp.example/", False),
        ("ocsp.example", "http://ocsp.example:0/", False),
    ],
)
async def test_the_schemes_own_port_counts_as_none(root, clock, listed, url, asked):
    """RFC 3986 section 6.2.3: certificates that spell `:80` out name the same responder."""
    net = Net()
    fetcher = fetcher_of(clock, net)
    fetcher.apply([], [listed], [parsed(root)])
    reason_of(fetcher, pki.qwac(root, extra=[access(url)]), root, clock)
    await fetcher.refresh()
    assert net.asked == ([url] if asked else [])


async def test_a_certificate_that_cannot_be_looked_up_is_left_alone_for_a_minute(root, clock):
    """A flood of requests with it makes no flood of look-ups."""
    url = "http://ocsp.example/"
    leaf = pki.qwac(root, extra=[access(url)])
    net = Net(**{url: response_of(leaf, root, start=-2 * HOURS, end=-HOURS)})
    fetcher = fetcher_of(clock, net)
    fetcher.apply([], ["ocsp.example"], [parsed(root)])
    for _ in range(20):
        reason_of(fetcher, leaf, root, clock)
        await fetcher.refresh()
    assert len(net.asked) == 1
    clock.now += MINUTE
    reason_of(fetcher, leaf, root, clock)
    await fetcher.refresh()
    assert len(net.asked) == 2


@pytest.mark.parametrize("status", [ocsp.OCSPCertStatus.GOOD, ocsp.OCSPCertStatus.REVOKED])
async def test_a_responder_that_has_nothing_newer_is_asked_once_a_minute(root, clock, status):
    """Responses made in advance are the same until the last hours of their window: asking on would be a flood."""
    url = "http://ocsp.example/"
    leaf = pki.qwac(root, extra=[access(url)])
    net = Net(**{url: response_of(leaf, root, status=status, start=-3 * HOURS)})
    fetcher = fetcher_of(clock, net)
    fetcher.apply([], ["ocsp.example"], [parsed(root)])
    for _ in range(20):
        reason_of(fetcher, leaf, root, clock)
        await fetcher.refresh()
    assert len(net.asked) == 1
    clock.now += MINUTE
    reason_of(fetcher, leaf, root, clock)
    await fetcher.refresh()
    assert len(net.asked) == 2


async def test_a_response_that_holds_for_seconds_is_asked_for_again_in_time(root, clock):
    """The pause is shorter than what is left, or a hard policy would meet a gap."""
    url = "http://ocsp.example/"
    leaf = pki.qwac(root, extra=[access(url)])
    net = Net(**{url: response_of(leaf, root, start=-HOURS, end=timedelta(seconds=20))})
    fetcher = fetcher_of(clock, net)
    fetcher.apply([], ["ocsp.example"], [parsed(root)])
    for _ in range(2):
        reason_of(fetcher, leaf, root, clock)
        await fetcher.refresh()
        clock.now += 11 * SECOND
    assert len(net.asked) == 2


async def test_a_distribution_point_of_a_listed_host_becomes_a_source(root, clock):
    """Where no responder answers, the lists that the issuer names are read, and kept across documents."""
    url = "http://crl.example/a"
    leaf = pki.qwac(root, extra=[points(url)])
    net = Net(**{url: crl_of(root)})
    fetcher = fetcher_of(clock, net)
    fetcher.apply([], ["crl.example"], [parsed(root)])
    assert reason_of(fetcher, leaf, root, clock) is Reason.CERTIFICATE_STATUS_UNKNOWN
    await fetcher.refresh()
    await fetcher.refresh()
    assert reason_of(fetcher, leaf, root, clock) is None
    fetcher.apply([], ["crl.example"], [parsed(root)])
    assert reason_of(fetcher, leaf, root, clock) is None
    fetcher.apply([], [], [parsed(root)])
    await fetcher.refresh()
    assert reason_of(fetcher, leaf, root, clock) is Reason.CERTIFICATE_STATUS_UNKNOWN


async def test_a_source_that_the_document_drops_is_forgotten(root, clock, tmp_path):
    """Its list goes with it, but not before the new sources were read."""
    path = tmp_path / "root.crl"
    path.write_bytes(crl_of(root))
    fetcher = fetcher_of(clock)
    fetcher.apply([str(path)], [], [parsed(root)])
    await fetcher.refresh()
    fetcher.apply([], [], [parsed(root)])
    assert fetcher.book.lists != {}
    await fetcher.refresh()
    assert fetcher.book.lists == {}


async def test_an_edit_elsewhere_in_the_document_fetches_nothing_again(root, clock):
    """The same sources under the same anchors stay as they are; other anchors have everything read anew."""
    url = "http://crl.example/root"
    net = Net(**{url: crl_of(root)})
    fetcher = fetcher_of(clock, net)
    for _ in range(3):
        fetcher.apply([url], [], [parsed(root)])
        await fetcher.refresh()
    assert net.asked == [url]
    fetcher.apply([url], [], [parsed(root), parsed(pki.authority("Other"))])
    await fetcher.refresh()
    assert net.asked == [url, url]


async def test_planes_are_followed_where_revocation_counts(root, clock, tmp_path):
    """Sources, hosts and anchors come from the profiles; a plane whose revocation is off brings none."""
    other = pki.authority("Other")
    for issuer in (root, other):
        (tmp_path / issuer.certificate.subject.rfc4514_string()).write_bytes(crl_of(issuer))
    profiles = [
        pki.profile_of(root, revocation="hard", crls=(str(tmp_path / "CN=Test Root"),)),
        pki.profile_of(other, crls=(str(tmp_path / "CN=Other"),)),
    ]
    fetcher = fetcher_of(clock)
    fetcher.follow(open_trust(profile) for profile in profiles)
    await fetcher.refresh()
    assert list(fetcher.book.lists) == [str(tmp_path / "CN=Test Root")]


async def test_the_list_of_a_presented_ca_counts_once_its_path_held(root, clock, tmp_path):
    """The document lists the root alone; the intermediate comes with the client, its list from a file."""
    middle = pki.authority("Middle", root)
    leaf, path = pki.qwac(middle), tmp_path / "middle.crl"
    path.write_bytes(crl_of(middle, [leaf.certificate.serial_number]))
    fetcher = fetcher_of(clock)
    fetcher.apply([str(path)], [], [parsed(root)])
    await fetcher.refresh()
    assert fetcher.book.lists == {}
    fetcher.book.judge(tuple(parsed(each) for each in (leaf, middle, root)), clock.now, hard=True)
    await fetcher.refresh()
    await fetcher.refresh()
    assert reason_of(fetcher, leaf, middle, clock) is Reason.CERTIFICATE_REVOKED
