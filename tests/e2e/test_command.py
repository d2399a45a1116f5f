"""The two commands a newcomer types: what they print can be repeated by hand, and nothing is left behind."""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path

import pytest

from demo.cases import CASES
from demo.settings import PORTS, ROOT
from demo.tour import write_curl, write_shell
from tests.demo.build import free_ports, until
from tests.e2e.build import Demo

BY_HAND = [case for case in CASES if not (case.ask.token and case.ask.token.forgery)]


@pytest.fixture(scope="module")
def demo():
    """A demo without a PROXY protocol header, of which curl knows only the version that is refused."""
    running = Demo()
    try:
        yield running.start()
    finally:
        running.stop()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: case.title)
async def test_the_printed_curl_line_gives_what_the_tour_got(demo, case):
    script = f"{write_shell(demo.settings)}\n{write_curl(demo.settings, case)} -s -o /dev/null -w '%{{http_code}}'"
    shell = await asyncio.create_subprocess_exec(
        "bash", "-c", script.replace("curl -i ", "curl "), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await shell.communicate()
    assert output.decode()[-3:] == str(case.expect.status)


@pytest.fixture
def place(tmp_path):
    """An environment in which a whole demo finds its own ports and folder."""
    ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
    return {**os.environ, **ports, "WARDGATE_RUN": str(tmp_path / "r")}


async def start(place, *words):
    command = [sys.executable, "-m", "demo", *words]
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=place, stdout=pipe, stderr=pipe)


def left_behind(place):
    """Name the processes that run in a demo's folder."""
    needle, found = f"WARDGATE_RUN={place['WARDGATE_RUN']}".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if needle in (folder / "environ").read_bytes().split(b"\0"):
                found.append((folder / "cmdline").read_bytes())
        except OSError:
            continue
    return found


async def read_until(stream, words):
    lines = []
    async with asyncio.timeout(90):
        while line := (await stream.readline()).decode():
            lines.append(line)
            if words in line:
                return lines
    raise AssertionError(f"{words!r} never came:\n{''.join(lines)}")


async def test_run_prints_the_tour_stays_up_and_leaves_nothing_behind(place):
    process = await start(place, "run")
    lines = await read_until(process.stdout, "Ctrl-C ends it")
    assert any("account, token signed with EdDSA" in line for line in lines)
    assert any(line.startswith("curl ") for line in lines)
    assert left_behind(place)
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 20) == 0
    assert left_behind(place) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
async def test_nothing_is_left_behind_when_run_is_ended_at_any_time(place, number):
    process = await start({**place, "WARDGATE_WORKERS": "2"}, "run")
    await until(lambda: any(b"envoy.yaml" in command for command in left_behind(place)), 60)
    process.send_signal(number)
    await process.wait()
    await until(lambda: left_behind(place) == [])


async def test_a_taken_port_is_told_with_what_to_set(place):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", int(place["PARTNER_PORT"])))
        holder.listen()
        process = await start(place, "tour")
        _, errors = await process.communicate()
    assert process.returncode == 2
    assert f"port {place['PARTNER_PORT']} is taken" in errors.decode()
    assert "PARTNER_PORT" in errors.decode()
    assert "Traceback" not in errors.decode()


async def test_tour_as_json_can_be_read_by_a_program(place, tmp_path):
    process = await start(place, "tour", "--json")
    output, errors = await process.communicate()
    rows = json.loads(output)
    assert [(row["title"], row["got"]) for row in rows if not row["ok"]] == [], errors.decode()
    assert process.returncode == 0
    assert left_behind(place) == []
