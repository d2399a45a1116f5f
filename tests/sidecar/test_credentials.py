"""Credentials as a running worker judges them: taken up, taken back, and held on to while something is away."""

import asyncio
import contextlib
import io
import json
import shutil

import pytest

from sidecar.__main__ import main
from tests.sidecar.build import until
from tests.sidecar.vault import Feed, assert_self, mint, opened


@pytest.fixture
async def vault():
    async with opened() as made:
        yield made


async def test_every_kind_of_credential_passes_where_the_document_accepts_it(vault):
    """A token, an API key, a partner's own assertion and an opaque token, through one worker."""
    caller = await vault.open()

    assert await caller.token(mint()) == (200, "")
    assert await caller.key("k1") == (200, "")
    assert await caller.token(assert_self()) == (200, "")
    assert await caller.token("opaque-token") == (200, "")


async def test_assertion_is_good_once_on_a_worker(vault):
    """Its `jti` is remembered for as long as it could be used."""
    caller, once = await vault.open(), assert_self()

    assert (await caller.token(once))[0] == 200
    assert await caller.token(once) == (401, "token-replayed")


async def test_webhook_is_known_by_its_address_and_the_plane_stays_closed(vault):
    """A route for callers of an address range needs no anonymous tier, and opens no other route of its plane."""
    caller = await vault.open()

    assert await caller.ask("webhook", address="203.0.113.9") == (200, "")
    assert await caller.ask("webhook", address="198.51.100.1") == (403, "address-refused")
    assert await caller.ask("accounts", address="203.0.113.9") == (401, "credential-missing")


async def test_deleted_api_key_is_refused_once_its_file_is_taken_up_and_others_stay(vault):
    """J-27: rotation ends the old key at once, in every worker, whatever was allowed before."""
    first, second = await vault.open(), await vault.open()
    assert [(await each.key("k1"))[0] for each in (first, second)] == [200, 200]
    vault.write_keys("k2", "k3")
    for caller in (first, second):
        async with asyncio.timeout(10):
            while (await caller.key("k3"))[0] != 200:  # noqa: ASYNC110 - the change comes from a file
                await asyncio.sleep(0.01)
        assert await caller.key("k1") == (401, "api-key-unknown")
        assert (await caller.key("k2"))[0] == 200


async def test_bad_key_file_is_refused_and_the_old_keys_stay(vault):
    """Half a file, or a wrong one, takes nobody's key away, and is told."""
    caller = await vault.open()
    (vault.folder / "keys.jsonl").write_text('{"id": "k9"\n')
    await until(
        lambda: caller.worker.metrics.registry.get_sample_value("wardgate_lists_refused_total", {"subject": ""})
    )

    assert (await caller.key("k1"))[0] == 200


async def test_policy_that_names_a_bad_key_file_is_refused(vault):
    """A worker does not begin with keys that it could not read."""
    (vault.folder / "keys.jsonl").write_text("no record\n")

    with pytest.raises(AssertionError, match=r"keys\.jsonl: line 1"):
        await vault.open()


async def test_reads_pass_on_what_was_said_while_the_endpoint_is_away_and_writes_do_not():
    """DESIGN section 7, identity provider away: cached verdicts serve reads; a write is told to come back."""
    async with opened() as vault:
        caller = await vault.open()
        assert await caller.token("opaque-token") == (200, "")
        vault.endpoint.away = True
        await asyncio.sleep(0.06)  # the cache's time in this document

        assert await caller.token("opaque-token") == (200, "")
        assert await caller.token("opaque-token", route="payments") == (503, "identity-unavailable")
        assert await caller.token("never-seen") == (503, "identity-unavailable")


async def test_denylisted_token_stays_refused_while_the_identity_side_is_away():
    """A verdict from before is no way round a revocation."""
    async with opened("{files: [FOLDER/denied.jsonl]}") as vault:
        (vault.folder / "denied.jsonl").write_text(
            json.dumps({"subject": "token", "scope": "vault", "name": "opaque-1"}) + "\n"
        )
        caller = await vault.open()
        vault.endpoint.away = True

        assert (await caller.token("opaque-token"))[0] == 503
        vault.endpoint.away = False
        assert await caller.token("opaque-token") == (401, "credential-revoked")
        vault.endpoint.away = True
        await asyncio.sleep(0.06)
        assert await caller.token("opaque-token") == (401, "credential-revoked")


async def test_denylist_file_is_taken_up_while_running_and_can_be_taken_back():
    """An air-gapped site revokes by file."""
    async with opened("{files: [FOLDER/denied.jsonl]}") as vault:
        path = vault.folder / "denied.jsonl"
        path.write_text("# nothing yet\n")
        caller, token = await vault.open(), mint(jti="stolen")
        assert (await caller.token(token))[0] == 200
        path.write_text('{"subject": "token", "scope": "https://id.example", "name": "stolen"}\n')
        await until(lambda: caller.gauge("denylist_entries") == 1)
        assert await caller.token(token) == (401, "credential-revoked")
        path.write_text("# forgiven\n")
        await until(lambda: caller.gauge("denylist_entries") == 0)
        assert (await caller.token(token))[0] == 200


@pytest.fixture
async def feed(tmp_path):
    """A Redis of the test's own."""
    server = Feed(tmp_path)
    await server.start()
    yield server
    server.stop()


def run(*arguments):
    """Run a command line in a thread of its own; the exit code and what it printed."""
    printed = io.StringIO()

    def work():
        with contextlib.redirect_stdout(printed):
            return main(arguments)

    return asyncio.to_thread(work), printed


async def revoke(feed, *arguments):
    running, printed = run("revoke", *arguments, "--redis", feed.url)
    return await running, printed.getvalue()


@pytest.mark.redis
@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server on this machine")
class TestFeed:
    """Revocations by the feed."""

    async def test_revocation_reaches_every_worker_and_the_command_says_so(self, feed):
        """J-04: token, client and key of three workers, covered before the command ends; and taken back."""
        async with opened(f"{{redis: '{feed.url}'}}") as vault:
            callers = [await vault.open(index=index) for index in range(3)]
            token = mint(jti="stolen")
            things = {
                "token": (("--token", "https://id.example", "stolen"), lambda caller: caller.token(token)),
                "key": (("--api-key", "k1"), lambda caller: caller.key("k1")),
                "client": (("--client", "client-1"), lambda caller: caller.token(mint())),
            }
            for arguments, ask in things.values():
                assert [(await ask(each))[0] for each in callers] == [200] * 3
                code, printed = await revoke(feed, *arguments, "--wait")
                assert code == 0, printed
                assert "held by all 3 live workers" in printed
                assert [await ask(each) for each in callers] == [(401, "credential-revoked")] * 3
                assert (await revoke(feed, *arguments, "--undo", "--wait"))[0] == 0
                assert [(await ask(each))[0] for each in callers] == [200] * 3

    async def test_command_says_propagating_while_a_live_worker_is_behind(self, feed):
        """Exit code 3 and who is behind: nobody takes a revocation for done that is not."""
        async with opened(f"{{redis: '{feed.url}'}}") as vault:
            await vault.open()
            await revoke(feed, "--client", "somebody")
            running, printed = run("coverage", "--redis", feed.url, "--version", "99999999999999-0")

            assert await running == 3
            assert "propagating: 0 of 1 workers" in printed.getvalue()

    async def test_nobody_alive_is_no_coverage(self, feed):
        """A revocation that no worker follows is not done."""
        assert (await revoke(feed, "--client", "somebody"))[0] == 3

    async def test_revoked_stays_revoked_without_redis_and_over_a_restart(self, feed, tmp_path):
        """J-24: what was known stays refused; what was never revoked goes on; the age of the feed's word is shown."""
        async with opened(f"{{redis: '{feed.url}'}}") as vault:
            state = tmp_path / "state"
            caller = await vault.open(state)
            assert (await revoke(feed, "--client", "client-1", "--before", "now", "--wait"))[0] == 0
            old = mint(iat=1, exp=2**31)
            assert await caller.key("k1") == (401, "credential-revoked")
            feed.stop()
            assert await caller.key("k1") == (401, "credential-revoked")
            assert await caller.token(old) == (401, "credential-revoked")
            await vault.close()
            again = await vault.open(state)

            assert await again.key("k1") == (401, "credential-revoked")
            assert again.gauge("revocation_entries") == 1
            assert again.gauge("revocation_age_seconds") == -1

    async def test_age_of_the_feeds_word_closes_writes_only_where_the_document_says_so(self, feed):
        """J-24, the explicit mode: writes 503 past `max_age`, reads go on, and without one nothing closes."""
        async with opened(f"{{redis: '{feed.url}', max_age: 100ms}}") as vault:
            caller = await vault.open()
            assert (await caller.key("k1", route="payments"))[0] == 200
            feed.stop()
            async with asyncio.timeout(10):
                while (await caller.key("k1", route="payments"))[0] == 200:  # noqa: ASYNC110 - it grows with the clock
                    await asyncio.sleep(0.02)

            assert await caller.key("k1", route="payments") == (503, "revocation-unavailable")
            assert (await caller.key("k1"))[0] == 200
            assert (await caller.ask("webhook", address="203.0.113.9"))[0] == 200
            await feed.start()
            async with asyncio.timeout(10):
                while (await caller.key("k1", route="payments"))[0] != 200:  # noqa: ASYNC110 - likewise
                    await asyncio.sleep(0.02)

    async def test_metrics_show_age_and_coverage(self, feed):
        """Coverage is a figure."""
        async with opened(f"{{redis: '{feed.url}'}}") as vault:
            caller = await vault.open()
            await until(lambda: caller.gauge("revocation_coverage", state="live") == 1)

            assert caller.gauge("revocation_coverage", state="covered") == 1
            assert 0 <= caller.gauge("revocation_age_seconds") < 60


def test_made_key_is_shown_once_and_its_record_holds_no_secret(capsys):
    """The record goes into the key file; the key goes to the partner."""
    assert main(["key", "--client", "client-1", "--scope", "accounts", "--expires", "2030-01-01T00:00:00Z"]) == 0
    captured = capsys.readouterr()
    record, key = json.loads(captured.out), captured.err.rpartition(" ")[2].strip()

    assert key.startswith(record["id"] + ".")
    assert key.partition(".")[2] not in captured.out
    assert (record["client_id"], record["scopes"], record["not_after"]) == ("client-1", ["accounts"], 1893456000)


@pytest.mark.parametrize(
    "arguments",
    [
        ["revoke", "--redis", "redis://127.0.0.1:1"],
        ["revoke", "--client", "a", "--api-key", "b", "--redis", "redis://127.0.0.1:1"],
        ["revoke", "--client", "a"],
        ["revoke", "--client", "a", "--before", "yesterday", "--redis", "redis://127.0.0.1:1"],
    ],
)
def test_unclear_revocation_is_refused_by_the_grammar(arguments):
    """One thing, one feed, an instant that is one."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2


def test_feed_that_does_not_answer_is_said_in_one_line(capsys):
    """The command fails; it never says that something was revoked."""
    assert main(["revoke", "--client", "a", "--redis", "redis://127.0.0.1:1"]) == 2
    captured = capsys.readouterr()

    assert captured.out == ""
    assert captured.err.startswith("the revocation feed does not answer: ")
