"""What a clean clone is built from names no machine: the lock, the image, the compose project."""

import json
import subprocess
import sys

import pytest
from ruamel.yaml import YAML

from demo.settings import EXAMPLE, ROOT

COMPOSE = YAML(typ="safe", pure=True).load((ROOT / "compose.yaml").read_text())
REPORT = """<testsuites><testsuite>
<testcase classname="a" name="passes"/>
<testcase classname="a" name="skips"><skipped message="no engine"/></testcase>
<testcase classname="a" name="{name}">{child}</testcase>
</testsuite></testsuites>"""


def test_the_lock_pins_every_package_and_names_no_path_and_no_index():
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if line.strip()]
    pinned = [line for line in lines if not line.lstrip().startswith("#")]
    assert [line for line in pinned if "==" not in line] == []
    assert [line for line in lines if "://" in line or "/work" in line or line.startswith("-")] == []


def test_containers_listen_where_the_launcher_does_not_need_to():
    place = COMPOSE["services"]["sidecar"]["environment"]
    assert place["PARTNER_BIND"] == place["PUBLIC_BIND"] == "0.0.0.0"


def test_every_long_running_service_has_a_health_check_and_comes_back_by_itself():
    services = {name: one for name, one in COMPOSE["services"].items() if "profiles" not in one}
    assert {name for name, one in services.items() if "healthcheck" not in one} == set()
    assert {one["restart"] for one in services.values()} == {"unless-stopped"}


def test_images_are_pinned_by_tag_and_never_pulled_on_start():
    for name, service in COMPOSE["services"].items():
        assert ":" in service["image"], name
        assert not service["image"].endswith(":latest"), name
        assert "pull_policy" not in service, name


def test_nothing_is_published_beyond_loopback():
    published = [port for service in COMPOSE["services"].values() for port in service.get("ports", ())]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_every_variable_that_the_document_reads_has_a_default_or_a_place_in_the_launcher():
    text = (EXAMPLE / "gateway.yaml").read_text()
    assert [part for part in text.split("${")[1:] if ":-" not in part.partition("}")[0]] == []


@pytest.mark.parametrize(("child", "status"), [("", 0), ("<failure/>", 1), ("<error/>", 1)])
def test_figures_of_a_test_run_are_summed_up_with_what_was_skipped(tmp_path, child, status):
    (tmp_path / "report.xml").write_text(REPORT.format(name="last", child=child))
    (tmp_path / "coverage.json").write_text('{"totals": {"percent_covered": 97.531}}')
    command = [sys.executable, str(ROOT / "deploy" / "figures.py"), "coverage.json", "report.xml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert "skipped 1: no engine" in done.stdout
    figures = json.loads((tmp_path / "build" / "figures" / "tests.json").read_text())
    assert figures == {"tests": 3, "skipped": 1, "failed": status, "second_try": 0, "coverage": 97.53}


@pytest.mark.parametrize(("child", "status", "word"), [("", 0, "passed"), ("<failure/>", 1, "failed again")])
def test_what_passes_at_its_second_try_counts_as_passed_and_is_named(tmp_path, child, status, word):
    (tmp_path / "report.xml").write_text(REPORT.format(name="last", child="<failure/>"))
    (tmp_path / "again.xml").write_text(
        f'<testsuite><testcase classname="a" name="last">{child}</testcase></testsuite>'
    )
    (tmp_path / "coverage.json").write_text('{"totals": {"percent_covered": 97.531}}')
    command = [sys.executable, str(ROOT / "deploy" / "figures.py"), "coverage.json", "report.xml", "again.xml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert f"last: {word}" in done.stdout


def test_failure_without_a_second_try_stays_a_failure(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT.format(name="last", child="<failure/>"))
    (tmp_path / "again.xml").write_text("<testsuite></testsuite>")
    (tmp_path / "coverage.json").write_text('{"totals": {"percent_covered": 97.531}}')
    command = [sys.executable, str(ROOT / "deploy" / "figures.py"), "coverage.json", "report.xml", "again.xml"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 1
