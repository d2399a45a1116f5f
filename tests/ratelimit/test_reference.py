"""envoyproxy/ratelimit's own files load, or fail with the fact that its own message states."""

import os
from pathlib import Path

import pytest

from model.instant import DAY, HOUR, MINUTE, SECOND
from ratelimit.imported import RulesInvalid, load_rules, read_rules

VECTORS = Path(os.environ.get("WARDGATE_VECTORS", "../shared/vectors")) / "envoy-ratelimit"
CONFIG = VECTORS / "test" / "config"

GOOD = {
    "basic_config.yaml": "test-domain",
    "duplicate_domain.yaml": "test-domain",
    "merge_domain_key1.yaml": "test-domain",
    "merge_domain_key2.yaml": "test-domain",
    "metadata.yaml": "test-domain",
    "share_threshold.yaml": "test-domain",
    "shadowmode_config.yaml": "test-domain",
    "wildcard.yaml": "test-domain",
}
BAD = {
    "bad_limit_unit.yaml": (6, "invalid rate limit unit 'foo'"),
    "bad_yaml.yaml": (2, "error loading config file: "),
    "duplicate_key.yaml": (6, "duplicate descriptor composite key 'test-domain.key1_value1'"),
    "empty_domain.yaml": (1, "config file cannot have empty domain"),
    "empty_key.yaml": (3, "descriptor has empty key"),
    "misspelled_key.yaml": (5, "config error, unknown key 'ratelimit'"),
    "misspelled_key2.yaml": (7, "config error, unknown key 'requestsperunit'"),
    "non_map_list.yaml": (3, "config error, yaml file contains list of type other than map: a"),
    "non_string_key.yaml": (1, "config error, key is not of type string: 0.25"),
    "replaces_empty.yaml": (10, "should not have an empty replaces entry"),
    "replaces_self.yaml": (10, "replaces should not contain name of same descriptor"),
    "unlimited_with_unit.yaml": (6, "should not specify rate limit unit when unlimited"),
}


@pytest.fixture
def vectors() -> Path:
    if not CONFIG.is_dir():
        pytest.skip("envoy-ratelimit left out: WARDGATE_VECTORS has no such folder")
    return VECTORS


@pytest.mark.vectors
@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_good_file_of_the_reference_loads_without_a_notice(vectors, name):
    loaded = read_rules([(name, (CONFIG / name).read_text())])
    assert list(loaded.domains) == [GOOD[name]]
    assert loaded.notices == ()


@pytest.mark.vectors
@pytest.mark.parametrize("name", sorted(BAD))
def test_a_bad_file_of_the_reference_fails_with_its_fact_and_its_place(vectors, name):
    with pytest.raises(RulesInvalid) as raised:
        read_rules([(name, (CONFIG / name).read_text())])
    line, fact = BAD[name]
    fault = raised.value.faults[0]
    assert fact in fault.text
    assert (fault.file, fault.line) == (name, line)
    assert fault.column > 0
    assert str(raised.value).startswith(f"{name}:{line}:")


@pytest.mark.vectors
def test_every_config_file_of_the_vectors_is_expected_to_load_or_to_fail(vectors):
    assert {path.name for path in CONFIG.glob("*.yaml")} == set(GOOD) | set(BAD)


@pytest.mark.vectors
@pytest.mark.parametrize(
    ("folder", "domains"),
    [
        ("examples/ratelimit/config", {"mongo_cps", "rl"}),
        ("test/integration/runtime/current", {"basic", "another", "share-threshold-test", "reload"}),
    ],
)
def test_a_runtime_folder_of_the_reference_loads_as_it_is(vectors, folder, domains):
    loaded = load_rules(vectors / folder)
    assert set(loaded.domains) == domains
    assert loaded.notices == ()


@pytest.mark.vectors
def test_two_files_of_one_domain_are_refused_and_merged_where_that_is_asked_for(vectors):
    texts = [(name, (CONFIG / name).read_text()) for name in ("merge_domain_key1.yaml", "merge_domain_key2.yaml")]
    with pytest.raises(RulesInvalid, match=r"merge_domain_key2\.yaml:2:9: duplicate domain 'test-domain'"):
        read_rules(texts)
    merged = read_rules(texts, merge_domains=True)
    assert merged.find_match("test-domain", [("key1", "value1")]).rule.quota.count == 10
    assert merged.find_match("test-domain", [("key2", "value2")]).rule.quota.count == 20
    with pytest.raises(RulesInvalid, match=r"duplicate descriptor composite key 'test-domain\.key1_value1'"):
        read_rules([texts[0], texts[0]], merge_domains=True)


@pytest.mark.vectors
def test_the_basic_file_of_the_reference_gives_the_limits_that_its_tests_name(vectors):
    loaded = read_rules([("basic", (CONFIG / "basic_config.yaml").read_text())])

    def limit(*entries):
        match = loaded.find_match("test-domain", entries)
        return match and (match.rule.quota.count, match.rule.quota.period)

    assert limit(("key1", "value1"), ("subkey1", "something")) == (5, SECOND)
    assert limit(("key1", "value1"), ("subkey1", "subvalue1")) == (10, SECOND)
    assert limit(("key1", "value1")) is None
    assert limit(("key1", "other"), ("subkey1", "subvalue1")) is None
    assert limit(("key2", "something")) == (20, MINUTE)
    assert limit(("key2", "value2")) == (30, MINUTE)
    assert limit(("key2", "value3")) is None
    assert limit(("key3", "foo")) == (1, HOUR)
    assert limit(("key4", "foo")) == (1, DAY)
    assert limit(("key5", "value5")) == (15, DAY)
    assert limit(("key5", "value5"), ("subkey5", "subvalue5")) == (25, DAY)
    assert loaded.find_match("test-domain", [("key6", "foo")]).rule.unlimited
    assert loaded.find_match("test-domain", [("key7", "unspecified")]).metric == "test-domain.key7_unspecified"
    assert loaded.find_match("test-domain", [("key4", "foo")]).rule.name == "key4_rate_limit"


@pytest.mark.vectors
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([("files", "files/a")], [("files", "files/b")]),
        ([("nested", "parent"), ("files", "nested/a")], [("nested", "parent"), ("files", "nested/b")]),
        ([("files", "top/a"), ("files", "nested/b")], [("files", "top/c"), ("files", "nested/d")]),
        ([("route", "api/a"), ("method", "GET")], [("route", "api/b"), ("method", "GET")]),
        ([("service", "svc/a"), ("endpoint", "x")], [("service", "svc/b"), ("endpoint", "x")]),
        ([("user", "user/a"), ("resource", "res/b"), ("action", "r")],) * 1
        + ([("user", "user/c"), ("resource", "res/d"), ("action", "r")],),
        ([("file", "test2")], [("file", "test3")]),
        ([("midpath", "/api/a/v1")], [("midpath", "/api/b/v1")]),
        ([("multiroute", "svc1ep2rpc")], [("multiroute", "svc3ep4rpc")]),
        ([("tenant", "t1prod"), ("resource", "res1v2")], [("tenant", "t2prod"), ("resource", "res2v2")]),
    ],
)
def test_the_share_threshold_file_of_the_reference_shares_what_its_comments_say(vectors, one, other):
    loaded = read_rules([("share", (CONFIG / "share_threshold.yaml").read_text())])
    assert loaded.find_match("test-domain", one).key == loaded.find_match("test-domain", other).key


@pytest.mark.vectors
def test_the_share_threshold_file_keeps_apart_what_it_does_not_share(vectors):
    loaded = read_rules([("share", (CONFIG / "share_threshold.yaml").read_text())])

    def key(*entries):
        return loaded.find_match("test-domain", entries).key

    mixed = key(("path", "path/a"), ("file", "file/a"), ("type", "t"))
    assert mixed == key(("path", "path/b"), ("file", "file/a"), ("type", "t"))
    assert mixed != key(("path", "path/a"), ("file", "file/b"), ("type", "t"))
    assert key(("file", "test1")) != key(("file", "test2"))
    assert loaded.find_match("test-domain", [("file", "test1")]).rule.quota.count == 50
