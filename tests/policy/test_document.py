"""A document is read as a whole: variables, defaults, files beside it, and all of its faults at once."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.document import load_document
from policy.fault import Faults
from policy.tree import read_tree
from tests.policy.build import EXAMPLE, MINIMAL, PLACEHOLDER, load_example, load_text


def faults_of(folder, text, environment=None):
    with pytest.raises(Faults) as refusal:
        load_text(folder, text, environment)
    return refusal.value.faults


def test_smallest_document_loads_with_defaults(tmp_path):
    document = load_text(tmp_path, MINIMAL)

    assert document.limits.body == 10 << 20
    assert document.sidecar.timeout == 250_000_000
    assert document.upstreams["web"].timeout == 2_500_000_000
    assert document.store.kind == "memory"
    assert document.warnings == ()


def test_variable_takes_the_environment_then_its_default(tmp_path):
    text = MINIMAL.replace("gateway: small", "gateway: ${NAME:-fallback}")

    assert load_text(tmp_path, text).gateway == "fallback"
    assert load_text(tmp_path, text, {"NAME": "chosen"}).gateway == "chosen"
    assert load_text(tmp_path, text, {"NAME": ""}).gateway == "fallback"


def test_variable_is_typed_as_if_its_value_stood_there(tmp_path):
    block = "  public:\n    proxy_protocol: ${PROXY:-false}\n    listen: 127.0.0.1:8080\n"
    lines = [line for line in MINIMAL.splitlines(keepends=True) if not line.startswith("  public:")]
    text = "".join(lines).replace("planes:\n", f"planes:\n{block}    credentials: [none]\n    anonymous_tier: guests\n")

    assert load_text(tmp_path, text).planes["public"].proxy_protocol is False
    assert load_text(tmp_path, text, {"PROXY": "true"}).planes["public"].proxy_protocol is True
    (fault,) = faults_of(tmp_path, text, {"PROXY": "yes"})
    assert (fault.line, fault.found, fault.expected) == (5, "'yes'", "true or false")


def test_variable_cannot_bring_structure_along(tmp_path):
    """A value from the environment is one scalar, whatever it holds."""
    text = MINIMAL.replace("gateway: small", "gateway: ${NAME}")
    (fault,) = faults_of(tmp_path, text, {"NAME": "a\nadmin: 0.0.0.0:1"})

    assert fault.where == "gateway"


def test_relative_files_stand_beside_the_document(tmp_path):
    document = load_text(tmp_path, MINIMAL.replace("unix:/tmp/small.sock", "unix:run/s.sock"))

    assert document.file("pki/../x.pem") == str(tmp_path / "x.pem")
    assert document.sockets()[0].path == str(tmp_path / "run" / "s.sock")


def test_all_faults_are_told_at_once_in_the_order_of_the_file(tmp_path):
    """Shape, references and contradictions together: nobody corrects a document one fault at a time."""
    text = (
        MINIMAL.replace("60/min", "60")
        .replace("gateway: small", "gateway: small\nsurprise: 1")
        .replace('"127.0.0.1:9000"', '"127.0.0.1:99999"')
        .replace("upstream: web", "upstream: wob, timeout: 0s")
    )
    faults = faults_of(tmp_path, text)

    assert [fault.where for fault in faults] == [
        "surprise",
        "tiers.guests.limits.guests.rate",
        "upstreams.web.endpoints[0]",
        "routes[0].upstream",
        "routes[0].timeout",
    ]
    assert [fault.line for fault in faults] == sorted(fault.line for fault in faults)


def test_fault_behind_a_refused_route_keeps_its_place(tmp_path):
    text = MINIMAL + "  - {id: a, plane: public}\n  - {id: b, plane: pablic, match: {path: /b}, upstream: web}\n"
    faults = faults_of(tmp_path, text)

    assert [(fault.line, fault.where) for fault in faults] == [(11, "routes[1].match"), (12, "routes[2].plane")]


def test_reference_to_something_refused_is_no_second_fault(tmp_path):
    faults = faults_of(tmp_path, MINIMAL.replace("endpoints: [", "endpoint: ["))

    assert {fault.where for fault in faults} == {"upstreams.web.endpoints", "upstreams.web.endpoint"}


def test_catch_all_beside_guarded_routes_is_a_warning(tmp_path):
    """H-05: a misspelled path must not fall through to an open door unnoticed."""
    text = (
        MINIMAL.replace("path: /,", "path: /admin,").replace(
            "upstream: web}\n", "upstream: web, require: {networks: [10.0.0.0/8]}}\n"
        )
        + "  - {id: rest, plane: public, match: {prefix: /}, upstream: web}\n"
    )
    (warning,) = load_text(tmp_path, text).warnings

    assert (warning.line, warning.where) == (11, "routes[1].match.prefix")
    assert "'home'" in warning.found


def test_prefix_is_no_prefix_of_a_longer_segment(tmp_path):
    """/api/admin does not shadow /api/administrator."""
    text = MINIMAL.replace("path: /,", "prefix: /api/admin,") + (
        "  - {id: other, plane: public, match: {prefix: /api/administrator, methods: [GET]}, upstream: web}\n"
    )

    assert [route.id for route in load_text(tmp_path, text).routes] == ["home", "other"]


def test_missing_document_is_a_fault(tmp_path):
    with pytest.raises(Faults, match="cannot be read"):
        load_document(tmp_path / "none.yaml", {})


def test_trust_store_without_a_certificate_is_a_fault():
    with pytest.raises(Faults, match="a file without a certificate"):
        load_document(EXAMPLE, {}, lambda path: b"" if path.suffix == ".pem" else path.read_bytes())


def test_descriptors_without_the_service_are_a_fault():
    def read(path):
        return PLACEHOLDER if path.suffix == ".pem" else b"" if path.suffix == ".pb" else path.read_bytes()

    with pytest.raises(Faults) as refusal:
        load_document(EXAMPLE, {}, read)
    assert "the unknown service 'openbanking.ledger.v1.AccountLedger'" in str(refusal.value)

    with pytest.raises(Faults, match="FileDescriptorSet"):
        load_document(EXAMPLE, {}, lambda path: b"\xff\xff" if path.suffix == ".pb" else read(path))


def test_open_banking_says_what_the_issue_asks():
    document = load_example()
    rates = {name: next(iter(tier.limits.values())).rate for name, tier in document.tiers.items()}

    assert (rates["partner"].count, rates["partner"].burst) == (600, 100)
    assert (rates["internal"].count, rates["internal"].burst) == (6000, 1000)
    assert (rates["anonymous"].count, rates["anonymous"].period) == (60, 60_000_000_000)
    assert document.planes["partner"].client_certificate.profile == "qwac-psd2"
    assert len(document.consumers) >= 4


BYTES = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200).map(str.encode),
    st.text(alphabet="{}[]:,&*!|>-#%'\"\n\t ab0$~?@`", max_size=120).map(str.encode),
)


@given(BYTES)
@settings(max_examples=300)
def test_whatever_the_file_holds_ends_in_a_tree_or_in_faults(data):
    try:
        tree = read_tree("f", data, {})
    except Faults as refusal:
        faults = refusal.faults
    else:
        faults = [tree.fault((), "a", "b")]
    assert faults
    assert all(fault.line >= 1 and fault.column >= 1 and fault.expected for fault in faults)


@given(st.data())
@settings(max_examples=100)
def test_damaged_document_ends_in_a_document_or_in_faults(tmp_path_factory, data):
    """One part of a good document is cut out or replaced: no traceback, whatever it was."""
    begin = data.draw(st.integers(0, len(MINIMAL)))
    end = data.draw(st.integers(begin, min(len(MINIMAL), begin + 40)))
    text = (
        MINIMAL[:begin]
        + data.draw(st.sampled_from(["", "x", ": ", "[", "}", "\n", "- ", "null", "7", "{a: 1}"]))
        + MINIMAL[end:]
    )
    try:
        outcome = load_text(tmp_path_factory.getbasetemp(), text).routes
    except Faults as refusal:
        outcome = refusal.faults
    assert outcome


def test_transcoded_route_without_a_rule_behind_it_is_a_fault(tmp_path):
    text = EXAMPLE.read_text().replace("path: /v3/payments,", "path: /v3/payment,")
    path = tmp_path / "gateway.yaml"
    path.write_text(text)

    def read(file):
        if file.suffix == ".pb":
            return (EXAMPLE.parent / "descriptors" / file.name).read_bytes()
        return PLACEHOLDER if file.suffix == ".pem" else file.read_bytes()

    with pytest.raises(Faults, match="http rule of 'payment-initiation'"):
        load_document(path, {}, read)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("gateway: small", 'gateway: "\\ud83d\\udcb6"', "gateway"),
        ("tiers:\n", 'consumers: {"\\ud83d\\udcb6": {tier: guests}}\ntiers:\n', "consumers"),
    ],
)
def test_half_a_character_is_a_fault_and_not_a_search_without_end(tmp_path, old, new, where):
    with pytest.raises(Faults) as caught:
        load_text(tmp_path, MINIMAL.replace(old, new))

    assert where in [fault.where for fault in caught.value.faults]
