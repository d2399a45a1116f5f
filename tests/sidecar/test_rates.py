"""The rate limit service's own rules on the command line: how they are read, checked and explained."""

import json
from pathlib import Path

import pytest

from model.quota import Algorithm
from ratelimit.service import Options
from sidecar.arguments import build_parser
from sidecar.failure import CommandFailed
from sidecar.merge import CAPACITY, Family, Merged
from sidecar.rates import read_rates
from tests.sidecar.build import gateway
from tests.sidecar.test_command import run

RULES = """\
domain: shop
descriptors:
  - key: client
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: path
    shadow_mode: true
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "shop.yaml").write_text(RULES)
    return tmp_path / "rules"


def read(*arguments, **environment):
    options = build_parser().parse_args(["serve", "--ratelimit-config", "rules", *arguments])
    return read_rates(options, environment)


def refusal(*arguments, **environment):
    with pytest.raises(CommandFailed) as refused:
        read(*arguments, **environment)
    return str(refused.value)


def test_without_a_word_the_rules_are_enforced_as_windows_in_memory_and_told_in_the_draft_fields():
    rates = read()
    assert (rates.folder, rates.merge, rates.algorithm) == (Path("rules"), False, Algorithm.WINDOW)
    assert (rates.options, rates.store.kind) == (Options(), "memory")


def test_each_switch_is_set_by_the_command_line():
    rates = read(
        *("--ratelimit-shadow", "--ratelimit-soft", "--ratelimit-describe", "--ratelimit-drain"),
        *("--ratelimit-merge-domains", "--ratelimit-algorithm", "bucket", "--ratelimit-headers", "x-ratelimit,draft"),
    )
    assert rates.options == Options(("x-ratelimit", "draft"), True, True, True, True, True)
    assert (rates.merge, rates.algorithm) == (True, Algorithm.BUCKET)


@pytest.mark.parametrize("word", ["true", "1", "T"])
def test_the_references_own_variables_set_them_too(word):
    rates = read(SHADOW_MODE=word, QUOTA_MODE=word, MERGE_DOMAIN_CONFIG=word, RESPONSE_DYNAMIC_METADATA=word)
    options = rates.options
    assert (options.all_shadow, options.all_soft, options.describe, rates.merge) == (True, True, True, True)
    assert read(SHADOW_MODE="false").options.all_shadow is False


def test_no_fields_at_all_can_be_asked_for():
    assert read("--ratelimit-headers", "none").options.families == ()


def test_a_store_is_read_with_its_secrets_where_they_are():
    store = read(
        *("--store", "rediss://a:6379", "--store", "rediss://b:6379", "--store-topology", "sentinel"),
        *(
            "--store-service",
            "limits",
            "--store-user",
            "w",
            "--store-password",
            "env:REDIS_AUTH",
            "--store-ca",
            "ca.pem",
        ),
        *("--store-cert", "c.pem", "--store-key", "k.pem"),
    ).store
    assert (store.kind, store.topology, store.urls) == ("redis", "sentinel", ("rediss://a:6379", "rediss://b:6379"))
    assert (store.service, store.username, store.password) == ("limits", "w", "env:REDIS_AUTH")
    assert (store.ca, store.certificate, store.key) == ("ca.pem", "c.pem", "k.pem")


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["--store", "http://a"], "expected redis://, rediss:// or unix://"),
        (["--store", "redis://a", "--store", "redis://b"], "sentinel or cluster"),
        (["--store", "redis://a", "--store-topology", "sentinel"], "--store-service"),
        (["--store", "redis://a", "--store-service", "limits"], "need each other"),
        (["--store", "redis://a", "--store-password", "plain"], "env:NAME or file:PATH"),
        (["--store-password", "env:REDIS_AUTH"], "--store-password needs --store"),
        (["--ratelimit-headers", "draft,retry"], "unknown 'retry'"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(arguments, fact):
    assert fact in refusal(*arguments)


def test_a_password_in_an_address_is_refused_and_never_repeated():
    assert "hunter2" not in refusal("--store", "redis://:hunter2@a:6379")


def test_a_variable_that_is_no_switch_is_refused_by_its_name():
    assert refusal(SHADOW_MODE="yes") == "SHADOW_MODE='yes': expected true or false"


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        ([], "nothing to go by"),
        (["--store", "redis://a", "--document", "x"], "--store needs --ratelimit-config"),
        (["--ratelimit-shadow", "--document", "x"], "--ratelimit-shadow needs --ratelimit-config"),
        (["--ratelimit-config", "r", "--document", "x", "--store", "redis://a"], "--store goes without --document"),
    ],
)
def test_serving_needs_something_to_go_by_and_one_place_to_count_in(capsys, arguments, fact):
    code, out, err = run(capsys, "serve", *arguments)
    assert (code, out) == (2, "")
    assert fact in err


def test_check_tells_every_fault_of_all_rule_files(capsys, folder):
    (folder / "a.yaml").write_text("domain: a\ndescriptors: [{key: k, rate_limit: {unit: foo, requests_per_unit: 1}}]")
    (folder / "b.yaml").write_text("domain: shop\n")
    code, out, err = run(capsys, "check", "--ratelimit-config", folder)
    assert (code, out) == (2, "")
    assert [line.split(":")[0] for line in err.splitlines()] == ["a.yaml", "shop.yaml"]
    (folder / "a.yaml").unlink()
    assert run(capsys, "check", "--ratelimit-config", folder, "--ratelimit-merge-domains")[0] == 0


def test_check_prints_what_has_no_effect(capsys, folder):
    code, out, _ = run(capsys, "check", "--ratelimit-config", folder)
    assert code == 0
    assert out.splitlines() == [
        "shop.yaml:6:18: 'shadow_mode' has no effect without a rate_limit",
        f"{folder}: 1 domains, no faults",
    ]


def test_check_takes_a_document_and_rules_at_once(capsys, tmp_path, folder):
    code, out, _ = run(capsys, "check", gateway(tmp_path), "--ratelimit-config", folder, "--envoy", "/bin/true")
    assert code == 0
    assert "1 domains, no faults" in out
    assert "1 routes on 1 planes, no faults" in out


def test_explain_says_which_rule_a_descriptor_meets(capsys, folder):
    rules = ("--ratelimit-config", folder, "--domain", "shop")
    code, out, _ = run(capsys, "explain", *rules, "--descriptor", "client=a%2Cb", "--descriptor", "path=/")
    met, none = json.loads(out)["descriptors"]
    assert code == 0
    assert (met["entries"], met["rule"], met["remaining"]) == ([{"key": "client", "value": "a,b"}], "shop.client", 5)
    assert (none["state"], none["because"]) == ("none", "there is no limit at shop.path")


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ([], "needs --domain and --descriptor"),
        (["--domain", "shop", "--descriptor", "client"], "expected key=value"),
        (["--domain", "shop", "--descriptor", "=a"], "expected key=value"),
    ],
)
def test_a_question_that_is_none_is_refused_in_words(capsys, folder, question, fact):
    code, out, err = run(capsys, "explain", "--ratelimit-config", folder, *question)
    assert (code, out) == (2, "")
    assert fact in err


def hits(*rules):
    name = "wardgate_ratelimit_rule_hits"
    samples = {(f"{name}_total", (("result", "total"), ("rule", rule))): 1.0 for rule in rules}
    return Family(name, "counter", "Hits.", samples)


def test_the_rules_of_workers_that_died_are_no_more_than_one_worker_may_have():
    """Names may come from clients: what is beyond is counted under the name of all others, and the sum stays true."""
    merged = Merged()
    for death in range(3):
        merged.reports[0] = [hits(*(f"d{death}.{number}" for number in range(CAPACITY)))]
        merged.retire(0)
    (family,) = merged.collect()
    assert len(family.samples) == CAPACITY + 1
    assert sum(sample.value for sample in family.samples) == 3 * CAPACITY
