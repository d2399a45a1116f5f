"""The command line: what it prints, what it refuses, and that no user error ever ends in a traceback."""

import json
import subprocess
import sys

import pytest

from policy.codec import load_snapshot
from sidecar.__main__ import main
from sidecar.arguments import build_parser
from tests.sidecar.build import gateway

SECOND = 1_000_000_000


def run(capsys, *arguments):
    """Run the command line in this process; exit code, standard output, standard error."""
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as exit_:
        code = exit_.code
    out, err = capsys.readouterr()
    return code, out, err


def no_envoy(tmp_path):
    return "--envoy", tmp_path / "no-such-envoy"


def test_compile_writes_envoys_files_and_the_policy(capsys, tmp_path):
    code, _, err = run(capsys, "compile", gateway(tmp_path), "--out", tmp_path / "out")
    assert (code, err) == (0, "")
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"envoy.yaml", "cds.yaml", "lds.yaml", "policy.json"}
    snapshot = load_snapshot((tmp_path / "out" / "policy.json").read_bytes())
    assert list(snapshot.routes) == ["home"]
    assert "0 files changed" in run(capsys, "compile", gateway(tmp_path), "--out", tmp_path / "out")[1]


def test_the_policy_goes_where_it_is_asked_to(capsys, tmp_path):
    policy = tmp_path / "deep" / "er" / "p.json"
    assert run(capsys, "compile", gateway(tmp_path), "--out", tmp_path / "out", "--policy", policy)[0] == 0
    assert policy.exists()


def test_check_says_that_envoy_could_not_be_asked(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("sidecar.command.import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, _ = run(capsys, "check", gateway(tmp_path))
    assert code == 0
    assert "Envoy was not asked" in out


def test_a_binary_that_is_no_envoy_is_named(capsys, tmp_path):
    code, _, err = run(capsys, "check", gateway(tmp_path), *no_envoy(tmp_path))
    assert code == 2
    assert "no-such-envoy" in err


def test_check_ends_with_envoys_own_word(capsys, tmp_path):
    code, out, _ = run(capsys, "check", gateway(tmp_path))
    assert code == 0
    assert out.splitlines()[-1] == "Envoy accepts the configuration"


def test_every_fault_is_listed_with_its_place(capsys, tmp_path):
    path = gateway(tmp_path, tail="foo: 1\nbar: 2\n")
    for command in (["check"], ["compile", "--out", tmp_path / "out"], ["explain", "--route", "home"]):
        code, out, err = run(capsys, command[0], path, *command[1:])
        assert code == 2
        assert out == ""
        assert [line.split(":")[1] for line in err.splitlines()] == ["11", "12"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["check", "explain"])
@pytest.mark.parametrize("kind", ["missing", "folder", "binary", "empty", "forbidden folder"])
def test_a_file_that_is_no_document_is_refused_in_words(capsys, tmp_path, command, kind):
    path = tmp_path / "gateway.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind == "binary":
        path.write_bytes(bytes(range(256)))
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "forbidden folder":
        path = tmp_path / "file" / "gateway.yaml"
        (tmp_path / "file").write_text("")
    route = ["--route", "home"] if command == "explain" else []
    code, out, err = run(capsys, command, path, *route)
    assert code == 2
    assert out == ""
    assert str(path) in err
    assert "Traceback" not in err


def test_a_directory_that_cannot_be_written_is_refused_in_words(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = run(capsys, "compile", gateway(tmp_path), "--out", tmp_path / "file" / "out")
    assert code == 2
    assert str(tmp_path / "file") in err


def test_explain_lists_the_limits_of_a_caller_with_full_buckets(capsys, tmp_path):
    code, out, _ = run(capsys, "explain", gateway(tmp_path, rate="90/min"), "--route", "home")
    explained = json.loads(out)
    assert code == 0
    assert explained["tier"] == "guests"
    assert [(limit["name"], limit["count"], limit["period_seconds"]) for limit in explained["limits"]] == [
        ("guests", 90, 60.0)
    ]
    assert explained["limits"][0]["remaining"] == explained["limits"][0]["burst"]


@pytest.mark.parametrize(
    ("facts", "named"), [(["--route", "nowhere"], "home"), (["--route", "home", "--tier", "gold"], "guests")]
)
def test_explain_names_what_there_is_where_it_was_asked_for_something_else(capsys, tmp_path, facts, named):
    code, _, err = run(capsys, "explain", gateway(tmp_path), *facts)
    assert code == 2
    assert named in err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["unknown"],
        ["check"],
        ["compile", "x"],
        ["serve"],
        ["serve", "--document", "x", "--workers", "0"],
        ["serve", "--document", "x", "--workers", "many"],
        ["serve", "--document", "x", "--drain", "soon"],
        ["serve", "--document", "x", "--drain", "5"],
        ["serve", "--document", "x", "--socket-mode", "999"],
        ["serve", "--document", "x", "--server", "none"],
    ],
)
def test_a_command_line_that_is_none_says_so_in_one_line(capsys, arguments):
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1


def test_times_and_modes_are_read_with_their_units():
    options = build_parser().parse_args(
        ["serve", "--document", "x", "--drain", "250ms", "--grace", "2m", "--socket-mode", "0666"]
    )
    assert (options.drain, options.grace, options.socket_mode) == (SECOND // 4, 120 * SECOND, 0o666)


def test_the_version_is_that_of_the_package(capsys):
    import importlib.metadata

    assert run(capsys, "--version") == (0, f"wardgate {importlib.metadata.version('wardgate')}\n", "")


@pytest.mark.parametrize(
    ("module", "spared"),
    [
        pytest.param("sidecar.__main__", ["grpc", "aiohttp", "pydantic", "asyncio"], id="somebody who asks for help"),
        pytest.param("sidecar.serve", ["grpc", "redis", "policy.envoy", "authz.resident"], id="the parent of workers"),
        pytest.param("sidecar.worker", ["grpc", "policy.envoy", "envoy_data_plane"], id="a worker"),
    ],
)
def test_nobody_waits_for_libraries_that_they_do_not_need(module, spared):
    """What Envoy's types cost to import alone is half a second of every start."""
    code = f"import sys, {module}; print(*(name for name in {spared} if name in sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.split() == []


def test_a_reader_that_stops_reading_is_no_error(tmp_path):
    command = [sys.executable, "-m", "sidecar", "explain", str(gateway(tmp_path)), "--route", "home"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
