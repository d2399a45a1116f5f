"""`wardgate serve --ratelimit-config DIR` as a process, without a gateway document: a fleet switches over as it is."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from authz.service import METHOD as CHECK
from pb.ratelimit_pb2 import RateLimitResponse
from ratelimit.rules import Rules
from tests.e2e.limited import METHOD, PATIENCE, proxy, stage
from tests.e2e.limits import example_config
from tests.ratelimit.asking import request
from tests.ratelimit.servers import BINARY, MISSING, Server, free_port
from tests.sidecar.build import check_bytes, gateway, short_folder, status_of
from tests.vectors.figures import need

pytestmark = pytest.mark.e2e

AT_ONCE = [(f"grpc.{which}_reconnect_backoff_ms", 50) for which in ("initial", "min", "max")]

RULES = """
domain: reload
descriptors:
  - key: key1
    rate_limit: {{unit: hour, requests_per_unit: {count}}}
"""


@contextmanager
def serving(folder: Path, listen: str, *options: object) -> Iterator[grpc.Channel]:
    """Run `wardgate serve`; a channel to it. What it wrote is in the file `log` of the folder."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*(sys.executable, "-m", "sidecar", "serve", "--listen", listen, "--drain", "0s"), *map(str, options)],
            stdout=log,
            stderr=log,
        )
    try:
        with grpc.insecure_channel(listen, AT_ONCE) as channel:
            try:
                await_serving(channel)
            except grpc.RpcError:
                pytest.fail((folder / "log").read_text())
            yield channel
    finally:
        process.terminate()
        process.wait(PATIENCE)


def await_serving(channel: grpc.Channel) -> None:
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", wait_for_ready=True, timeout=PATIENCE)
    for data in watch:
        if HealthCheckResponse.FromString(data).status == HealthCheckResponse.SERVING:
            watch.cancel()
            return


@pytest.fixture
def folder():
    with short_folder() as made:
        (made / "rules").mkdir()
        yield made


@pytest.fixture(params=["alone", "beside a document"])
def limit(folder: Path, request: pytest.FixtureRequest):
    """The limit that the running service tells for a fresh key; None where there is none."""
    write_rules(folder, RULES.format(count=50))
    beside = ("--document", gateway(folder)) if request.param != "alone" else ()
    options = ("--ratelimit-config", folder / "rules", "--poll", "20ms", *beside)
    with serving(folder, f"unix:{folder / 'rls.sock'}", *options) as channel:
        yield make_asker(channel)


def make_asker(channel: grpc.Channel) -> Callable[[], int | None]:
    call = channel.unary_unary(METHOD)
    asked = iter(range(1_000_000))

    def ask() -> int | None:
        data = call(request("reload", [("key1", str(next(asked)))]).SerializeToString(), timeout=PATIENCE)
        status = RateLimitResponse.FromString(data).statuses[0]
        return status.current_limit.requests_per_unit if status.HasField("current_limit") else None

    return ask


def write_rules(folder: Path, text: str) -> None:
    fresh = folder / ".fresh.yaml"
    fresh.write_text(text)
    fresh.replace(folder / "rules" / "reload.yaml")


def await_limit(ask: Callable[[], int | None], expected: int | None) -> None:
    """Ask until the answer is the expected one; every answer on the way is that of whole rules."""
    for _ in range(20_000):
        if ask() == expected:
            return
    pytest.fail(f"the limit never became {expected}")


def test_rules_of_a_folder_are_served_and_an_edit_is_taken_up(folder, limit):
    assert limit() == 50
    write_rules(folder, RULES.format(count=7))
    await_limit(limit, 7)


def test_a_bad_file_is_refused_with_its_place_and_the_old_rules_stay(folder, limit):
    write_rules(folder, RULES.format(count="many"))
    log = folder / "log"
    for _ in range(20_000):
        assert limit() == 50
        if "found 'many', expected a whole number" in log.read_text():
            break
    else:
        pytest.fail(log.read_text())
    assert "reload.yaml:5:" in log.read_text()
    write_rules(folder, RULES.format(count=9))
    await_limit(limit, 9)


# The reference's own example: its files, its Envoy configuration, and a Redis; only the address is another.


class Fleet:
    """A sidecar with the reference's rules and a Redis, and an Envoy with the reference's configuration."""

    def __init__(self, folder: Path, examples: Path, store: Server) -> None:
        self.folder, self.examples, self.store = folder, examples, store
        self.port, self.admin_port = free_port(), free_port()

    def serve(self):
        rules = ("--ratelimit-config", self.examples / "ratelimit" / "config", "--store", self.store.url)
        admin = ("--admin", f"127.0.0.1:{self.admin_port}")
        return serving(self.folder, f"127.0.0.1:{self.port}", *rules, *admin)

    def admin(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=PATIENCE) as answer:
            return answer.read().decode()


@pytest.fixture(scope="module")
def fleet():
    examples = need("envoy-ratelimit", "examples")
    if BINARY is None:
        pytest.skip(MISSING)
    with short_folder() as made:
        store = Server(made / "redis").start()
        try:
            yield Fleet(made, examples, store)
        finally:
            store.stop()


@pytest.fixture(scope="module")
def switched(fleet: Fleet, tmp_path_factory):
    """The Envoy of the reference's example, in front of a sidecar that serves nothing but rules."""
    with stage(Rules()) as upstreams, fleet.serve() as channel:
        config = example_config(fleet.examples, upstreams.ports | {"limits": fleet.port})
        node = ("--service-node", "proxy", "--service-cluster", "proxy")
        with proxy(config, tmp_path_factory.mktemp("switched"), *node) as envoy:
            yield envoy, channel


def series(page: str, rule: str) -> dict[str, float]:
    """What is counted of a rule: result -> hits."""
    found = {}
    for line in page.splitlines():
        if line.startswith("wardgate_ratelimit_rule_hits_total") and f'rule="{rule}"' in line:
            found[line.partition('result="')[2].partition('"')[0]] = float(line.rpartition(" ")[2])
    return found


def test_the_references_own_files_and_envoy_configuration_work_unchanged(fleet, switched):
    envoy, _ = switched
    assert [envoy.get("/test").status for _ in range(2)] == [200, 429]
    assert [envoy.get("/twoheader", foo="pelle", baz="not-so-shady").status for _ in range(5)] == [200] * 3 + [429] * 2
    assert [envoy.get("/quota").status for _ in range(4)] == [200, 200, 429, 429]
    refused = envoy.get("/header", foo="a"), envoy.get("/header", foo="a"), envoy.get("/header", foo="a")
    assert [reply.status for reply in refused] == [200, 200, 429]
    assert json.loads(refused[2].body)["scope"] == ["foo"]
    assert 1 <= int(refused[2].headers["retry-after"]) <= 60


def test_hits_are_counted_for_each_rule_and_stay_counted(fleet, switched):
    envoy, _ = switched
    for _ in range(3):
        envoy.get("/unspec", unspec="counted")
    assert series(fleet.admin("/metrics"), "rl.unspec_counted") == {
        "total": 3,
        "within": 2,
        "near": 1,
        "over": 1,
        "shadow": 0,
    }
    assert "wardgate_ratelimit_errors_total" in fleet.admin("/metrics")


def test_an_explanation_tells_what_is_left_and_counts_nothing(fleet, switched):
    envoy, _ = switched
    assert envoy.get("/header", foo="explained").status == 200
    for _ in range(3):
        explained = json.loads(fleet.admin("/explain/ratelimit?domain=rl&descriptor=foo%3Dexplained"))
        (line,) = explained["descriptors"]
        assert (explained["would"], line["rule"], line["remaining"]) == ("pass", "rl.foo", 1)
    with pytest.raises(urllib.error.HTTPError) as refused:
        fleet.admin("/explain/ratelimit?domain=rl&descriptor=foo")
    assert refused.value.code == 400
    assert "expected key=value" in refused.value.read().decode()


def test_without_a_document_only_the_rate_limit_service_is_healthy_and_checks_are_refused(switched):
    _, channel = switched

    def health(service: str) -> int:
        asked = HealthCheckRequest(service=service).SerializeToString()
        return HealthCheckResponse.FromString(channel.unary_unary("/grpc.health.v1.Health/Check")(asked)).status

    assert health("") == health(METHOD.split("/")[1]) == HealthCheckResponse.SERVING
    assert health(CHECK.split("/")[1]) == HealthCheckResponse.NOT_SERVING
    assert status_of(channel.unary_unary(CHECK)(check_bytes())) == 503


def test_counts_are_in_the_store_and_outlive_the_sidecar(fleet, switched):
    """The second sidecar is another process: what it knows of the first one's hits stands in Redis."""
    envoy, _ = switched
    assert [envoy.get("/fourheader", foo="x", bar="bkthomps").status for _ in range(2)] == [200, 429]
    other = Fleet(fleet.folder, fleet.examples, fleet.store)
    with other.serve() as channel:
        asked = request("rl", [("foo", "x"), ("bar", "bkthomps")]).SerializeToString()
        answer = RateLimitResponse.FromString(channel.unary_unary(METHOD)(asked))
        assert answer.overall_code == RateLimitResponse.OVER_LIMIT
