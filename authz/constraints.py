"""Name constraints (RFC 5280 section 4.2.1.10) over the names of the certificates below a CA."""

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from cryptography import x509

from authz.parsed import Parsed, fold_name

EMAIL = x509.NameOID.EMAIL_ADDRESS


def names_permitted(constraints: x509.NameConstraints, path: Sequence[Parsed]) -> bool:
    """Whether every name of every certificate in the path (leaf first) keeps to the constraints.

    Self-issued certificates that are not the leaf are exempt. A kind of constraint that is not understood refuses.
    """
    for index, certificate in enumerate(path):
        if index and certificate.self_issued:
            continue
        if not all(_permitted(constraints, name) for name in _names(certificate)):
            return False
    return True


def _names(certificate: Parsed) -> Iterator[x509.GeneralName]:
    yield from certificate.names
    subject = certificate.certificate.subject
    if len(subject.rdns):
        yield x509.DirectoryName(subject)
    if not any(isinstance(name, x509.RFC822Name) for name in certificate.names):
        for attribute in subject.get_attributes_for_oid(EMAIL):
            yield x509.RFC822Name(str(attribute.value))


def _permitted(constraints: x509.NameConstraints, name: x509.GeneralName) -> bool:
    if any(_within(name, excluded, exact=False) for excluded in _of_kind(constraints.excluded_subtrees, name)):
        return False
    permitted = list(_of_kind(constraints.permitted_subtrees, name))
    return not permitted or any(_within(name, each, exact=True) for each in permitted)


def _of_kind(subtrees: Iterable[x509.GeneralName] | None, name: x509.GeneralName) -> Iterator[x509.GeneralName]:
    return (each for each in subtrees or () if type(each) is type(name))


def _within(name: x509.GeneralName, subtree: x509.GeneralName, *, exact: bool) -> bool:
    """Whether the name lies in the subtree; `exact` False also counts a name that covers part of the subtree."""
    if isinstance(name, x509.DNSName) and isinstance(subtree, x509.DNSName):
        return _host_within(name.value.lower(), subtree.value.lower(), exact=exact)
    if isinstance(name, x509.RFC822Name) and isinstance(subtree, x509.RFC822Name):
        return _mailbox_within(name.value, subtree.value)
    if isinstance(name, x509.UniformResourceIdentifier) and isinstance(subtree, x509.UniformResourceIdentifier):
        return _address_within(name.value, subtree.value, unknown=not exact)
    if isinstance(name, x509.IPAddress) and isinstance(subtree, x509.IPAddress):
        return _network_within(name.value, subtree.value)
    if isinstance(name, x509.DirectoryName) and isinstance(subtree, x509.DirectoryName):
        return fold_name(name.value)[: len(subtree.value.rdns)] == fold_name(subtree.value)
    return not exact


def _host_within(host: str, base: str, *, exact: bool) -> bool:
    base = base.removeprefix(".")
    if base in (host, "") or host.endswith("." + base):
        return True
    # A wildcard stands for every host of its domain: an excluded one lies among them (CVE-2026-34073).
    return not exact and host.startswith("*.") and (base == host[2:] or base.endswith(host[1:]))


def _mailbox_within(mailbox: str, base: str) -> bool:
    local, _, host = mailbox.rpartition("@")
    base_local, at, base_host = base.rpartition("@")
    if at:
        return local == base_local and host.lower() == base_host.lower()
    if base.startswith("."):
        return host.lower().endswith(base.lower())
    return host.lower() == base.lower()


def _address_within(address: str, base: str, *, unknown: bool) -> bool:
    authority = address.partition("://")[2].partition("/")[0].rpartition("@")[2]
    host = authority.partition(":")[0].lower()
    if not host or host.replace(".", "").isdigit() or host.startswith("["):
        return unknown
    if base.startswith("."):
        return host.endswith(base.lower())
    return host == base.lower()


def _network_within(
    address: IPv4Address | IPv6Address | IPv4Network | IPv6Network,
    network: IPv4Address | IPv6Address | IPv4Network | IPv6Network,
) -> bool:
    if isinstance(network, IPv4Network) and isinstance(address, IPv4Address):
        return address in network
    return isinstance(network, IPv6Network) and isinstance(address, IPv6Address) and address in network
