"""How a descriptor finds its rule, held against the examples of envoyproxy/ratelimit's own documentation."""

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.instant import DAY
from model.quota import Algorithm
from ratelimit.rules import PERIODS, Node, Rule, Rules, Unit, fits_wildcard, make_quota
from tests.ratelimit.asking import rules

EDGE = rules("""
    domain: edge
    descriptors:
      - key: remote_address
        rate_limit: {unit: second, requests_per_unit: 10}
      - key: remote_address
        value: 50.0.0.5
        rate_limit: {unit: second, requests_per_unit: 0}
      - key: remote_address
        value: 50.0.0.6
      - key: message_type
        value: marketing
        descriptors:
          - key: to_number
            rate_limit: {unit: day, requests_per_unit: 5}
""")


def found(tree, *entries: tuple[str, str], domain: str = "edge"):
    match = tree.find_match(domain, entries)
    return match and (match.rule.path, match.rule.quota.count)


def test_a_value_that_is_listed_goes_before_the_key_alone():
    assert found(EDGE, ("remote_address", "50.0.0.1")) == ("edge.remote_address", 10)
    assert found(EDGE, ("remote_address", "50.0.0.5")) == ("edge.remote_address_50.0.0.5", 0)


def test_a_listed_value_without_a_limit_is_let_through():
    assert found(EDGE, ("remote_address", "50.0.0.6")) is None


def test_the_depth_of_the_descriptor_must_be_that_of_the_rule():
    number = ("to_number", "2061111111")
    assert found(EDGE, ("message_type", "marketing"), number) == ("edge.message_type_marketing.to_number", 5)
    assert found(EDGE, ("message_type", "marketing")) is None
    assert found(EDGE, ("message_type", "marketing"), number, ("more", "")) is None
    assert found(EDGE, ("remote_address", "50.0.0.1"), ("more", "x")) is None
    assert found(EDGE, number) is None


def test_keys_and_values_are_compared_with_their_case():
    assert found(EDGE, ("Remote_Address", "50.0.0.1")) is None
    assert found(EDGE, ("message_type", "Marketing"), ("to_number", "1")) is None


def test_unknown_domains_and_empty_descriptors_have_no_rule():
    assert found(EDGE, ("remote_address", "50.0.0.1"), domain="other") is None
    assert found(EDGE) is None
    assert found(EDGE, ("", "")) is None


def test_each_value_of_an_open_key_has_a_counter_of_its_own():
    one = EDGE.find_match("edge", [("remote_address", "1.1.1.1")])
    two = EDGE.find_match("edge", [("remote_address", "2.2.2.2")])
    assert one.rule is two.rule
    assert one.key != two.key
    assert one.metric == two.metric == "edge.remote_address"


def test_wildcards_are_tried_in_the_order_of_the_file_after_exact_values_and_before_the_key_alone():
    tree = rules("""
        domain: edge
        descriptors:
          - {key: path, rate_limit: {unit: minute, requests_per_unit: 1}}
          - {key: path, value: /api/*, rate_limit: {unit: minute, requests_per_unit: 2}}
          - {key: path, value: /api/*/action, rate_limit: {unit: minute, requests_per_unit: 3}}
          - {key: path, value: /api/v1, rate_limit: {unit: minute, requests_per_unit: 4}}
    """)
    assert found(tree, ("path", "/api/v1"))[1] == 4
    assert found(tree, ("path", "/api/v2"))[1] == 2
    assert found(tree, ("path", "/api/1/action"))[1] == 2
    assert found(tree, ("path", "/other"))[1] == 1
    assert found(tree, ("path", ""))[1] == 1


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        ("foo*", "foo", True),
        ("foo*", "foobar", True),
        ("foo*", "fo", False),
        ("bar*b", "bar-b", True),
        ("bar*b", "barb", True),
        ("bar*b", "bab", False),
        ("bar*b", "bar-c", False),
        ("*suffix", "suffix", True),
        ("*", "", True),
        ("*", "anything", True),
        ("foo*bar*baz", "foo1bar2baz", True),
        ("foo*bar*baz", "foobarbaz", True),
        ("foo*bar*baz", "foobaz", False),
        ("/api/*/resource/*/action", "/api/v1/resource/123/action", True),
        ("/api/*/resource/*/action", "/api/v1/123/action", False),
        ("a*a", "a", False),
        ("a**b", "ab", True),
    ],
)
def test_a_star_stands_for_any_run_of_characters_anywhere_in_a_value(pattern, value, fits):
    assert fits_wildcard(pattern.split("*"), value) is fits


@given(st.text("ab*", min_size=1).filter(lambda text: "*" in text), st.text("ab"))
def test_wildcards_agree_with_the_shells_own_matching(pattern, value):
    assert fits_wildcard(pattern.split("*"), value) is fnmatch.fnmatchcase(value, pattern)


SHARED = rules("""
    domain: edge
    descriptors:
      - key: files
        value: files/*
        share_threshold: true
        rate_limit: {unit: hour, requests_per_unit: 10}
      - key: alone
        value: files/*
        rate_limit: {unit: hour, requests_per_unit: 10}
      - key: tenant
        value: t*prod
        share_threshold: true
        value_to_metric: true
        descriptors:
          - key: resource
            detailed_metric: true
            rate_limit: {unit: hour, requests_per_unit: 10}
""")


def key(tree, *entries):
    return tree.find_match("edge", entries).key


def test_values_that_share_a_threshold_spend_from_one_counter_and_others_do_not():
    assert key(SHARED, ("files", "files/a")) == key(SHARED, ("files", "files/b"))
    assert key(SHARED, ("alone", "files/a")) != key(SHARED, ("alone", "files/b"))


def test_a_threshold_is_shared_at_its_own_level_only():
    one = key(SHARED, ("tenant", "t1prod"), ("resource", "a"))
    assert one == key(SHARED, ("tenant", "t2prod"), ("resource", "a"))
    assert one != key(SHARED, ("tenant", "t1prod"), ("resource", "b"))


# Trees of three keys, values and wildcards, two levels deep, as (key, value) -> limit or None, and what is below.
_KEYS = st.sampled_from(["a", "b"])
_VALUES = st.sampled_from(["", "x", "xy", "x*", "*y", "*"])
_LEAVES = st.dictionaries(st.tuples(_KEYS, _VALUES), st.booleans(), max_size=5)
_TREES = st.dictionaries(st.tuples(_KEYS, _VALUES), st.tuples(st.booleans(), _LEAVES), max_size=6)
_ENTRY = st.tuples(_KEYS, st.sampled_from(["", "x", "xy", "zy", "q"]))


def choose(level: dict, entry: tuple[str, str]):
    """The reference's order in one line each: exact, first wildcard that fits, key alone."""
    key, value = entry
    if value and (key, value) in level:
        return key, value
    for other, pattern in level:
        if other == key and "*" in pattern and fnmatch.fnmatchcase(value, pattern):
            return other, pattern
    return (key, "") if (key, "") in level else None


@given(_TREES, st.lists(_ENTRY, min_size=1, max_size=3))
def test_any_descriptor_finds_in_any_tree_what_the_written_order_says(tree, entries):
    root = Node("d")
    for (key_, value), (limited, leaves) in tree.items():
        child = root.add_child(key_, value)
        child.rule = Rule("1", make_quota(f"{key_}={value}", 1, Unit.DAY)) if limited else None
        for (below, leaf), also in leaves.items():
            node = child.add_child(below, leaf)
            node.rule = Rule("2", make_quota(f"{key_}={value}/{below}={leaf}", 1, Unit.DAY)) if also else None
    expected = None
    first = choose(tree, entries[0])
    if first is not None and len(entries) == 1 and tree[first][0]:
        expected = "{}={}".format(*first)
    if first is not None and len(entries) == 2:
        second = choose(tree[first][1], entries[1])
        if second is not None and tree[first][1][second]:
            expected = "{}={}/{}={}".format(*first, *second)
    match = Rules({"d": root}).find_match("d", entries)
    assert (match and match.rule.quota.name) == expected


METRICS = rules("""
    domain: edge
    descriptors:
      - key: route
        value_to_metric: true
        descriptors:
          - key: method
            value_to_metric: true
            descriptors:
              - key: subject
                rate_limit: {unit: minute, requests_per_unit: 60}
      - key: plain
        descriptors:
          - key: method
            value: GET
            rate_limit: {unit: minute, requests_per_unit: 60}
      - key: detailed
        detailed_metric: true
        rate_limit: {unit: minute, requests_per_unit: 60}
      - key: action
        value: read*
        value_to_metric: true
        rate_limit: {unit: minute, requests_per_unit: 60}
      - key: other
        value: read*
        rate_limit: {unit: minute, requests_per_unit: 60}
""")


@pytest.mark.parametrize(
    ("entries", "metric"),
    [
        ([("route", "api"), ("method", "GET"), ("subject", "123")], "edge.route_api.method_GET.subject"),
        ([("plain", "api"), ("method", "GET")], "edge.plain.method_GET"),
        ([("detailed", "x")], "edge.detailed_x"),
        ([("action", "readfile")], "edge.action_readfile"),
        ([("other", "readfile")], "edge.other_read*"),
    ],
)
def test_the_name_of_a_metric_holds_a_value_only_where_the_rule_asks_for_it(entries, metric):
    assert METRICS.find_match("edge", entries).metric == metric


def test_a_shared_counter_is_one_series_whatever_else_is_asked_for():
    metric = SHARED.find_match("edge", [("tenant", "t1prod"), ("resource", "a")]).metric
    assert metric == "edge.tenant_t*prod.resource_a"


def test_r_06_parts_that_would_join_to_the_same_text_keep_counters_of_their_own():
    """R-06: (user="a:b", path="c") and (user="a", path="b:c"); an empty value is not a missing entry."""
    tree = rules("""
        domain: edge
        descriptors:
          - key: user
            rate_limit: {unit: minute, requests_per_unit: 5}
            descriptors:
              - {key: path, rate_limit: {unit: minute, requests_per_unit: 5}}
    """)
    nasty = ["a", "b", "a:b", "b:c", "a|b", "a_b", "a\nb", "a\0b", "{a}", "a b", "\N{GRINNING FACE}", "x" * 100_000, ""]
    pairs = [[("user", one), ("path", other)] for one in nasty for other in nasty]
    singles = [[("user", one)] for one in nasty]
    keys = [tree.find_match("edge", entries).key for entries in pairs + singles]
    assert len(set(keys)) == len(pairs) + len(singles)


def test_r_06_a_key_and_a_value_that_join_to_another_key_are_two_rules():
    tree = rules("""
        domain: edge
        descriptors:
          - {key: a_b, rate_limit: {unit: minute, requests_per_unit: 1}}
          - {key: a, rate_limit: {unit: minute, requests_per_unit: 2}}
          - {key: c, value: d_e, rate_limit: {unit: minute, requests_per_unit: 3}}
          - {key: c_d, value: e, rate_limit: {unit: minute, requests_per_unit: 4}}
    """)
    assert found(tree, ("a", "b")) == ("edge.a", 2)
    assert found(tree, ("c", "d_e"))[1] == 3
    assert found(tree, ("c_d", "e"))[1] == 4
    assert key(tree, ("c", "d_e")) != key(tree, ("c_d", "e"))


def test_a_rule_whose_unit_is_changed_starts_with_a_counter_of_its_own():
    text = "domain: edge\ndescriptors: [{{key: a, rate_limit: {{unit: {}, requests_per_unit: 1}}}}]"
    assert key(rules(text.format("hour")), ("a", "x")) != key(rules(text.format("day")), ("a", "x"))


def test_an_override_wins_over_every_rule_and_names_no_value():
    match = EDGE.make_override("edge", [("remote_address", "50.0.0.5")], 7, Unit.HOUR)
    assert (match.rule.quota.count, match.rule.unit, match.rule.quota.enforced) == (7, Unit.HOUR, True)
    assert "50.0.0.5" not in match.rule.quota.name + match.metric
    assert EDGE.make_override("other", [("remote_address", "50.0.0.5")], 7, Unit.HOUR) is None


def test_a_month_is_thirty_days_and_a_year_365():
    assert PERIODS[Unit.MONTH] == 30 * DAY
    assert PERIODS[Unit.YEAR] == 365 * DAY
    assert set(PERIODS) == set(Unit)


def test_an_imported_limit_is_a_sliding_window_where_nothing_else_is_asked_for():
    assert make_quota("a", 5, Unit.MINUTE).algorithm is Algorithm.WINDOW


def test_a_tree_knows_what_stands_in_it():
    node = Node("edge")
    assert not node.has_children()
    node.add_child("a", "")
    node.add_child("a", "x*")
    assert node.has_child("a", "")
    assert node.has_child("a", "x*")
    assert not node.has_child("a", "x")
    assert node.has_children()
