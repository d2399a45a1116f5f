"""Rule files: what they say is read, what is wrong is named with its place, what has no effect is noticed."""

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.instant import DAY, HOUR, MINUTE, SECOND
from model.quota import Algorithm
from ratelimit.imported import DEEPEST, RulesInvalid, load_rules, read_rules
from ratelimit.rules import Rules
from tests.ratelimit.asking import rules


def faults(text: str) -> list[str]:
    with pytest.raises(RulesInvalid) as raised:
        rules(text)
    return [str(fault) for fault in raised.value.faults]


def only_rule(text: str):
    tree = rules(text)
    node = next(iter(tree.domains.values()))
    while node.rule is None:
        node = next(iter([*node.any.values(), *node.exact.values()]))
    return node.rule


@pytest.mark.parametrize(
    ("unit", "period"),
    [
        ("second", SECOND),
        ("MINUTE", MINUTE),
        ("Hour", HOUR),
        ("day", DAY),
        ("week", 7 * DAY),
        ("month", 30 * DAY),
        ("year", 365 * DAY),
    ],
)
def test_every_unit_is_read_whatever_its_case(unit, period):
    rule = only_rule(f"domain: d\ndescriptors: [{{key: a, rate_limit: {{unit: {unit}, requests_per_unit: 5}}}}]")
    assert (rule.quota.count, rule.quota.period, rule.quota.algorithm) == (5, period, Algorithm.WINDOW)


def test_a_rule_carries_all_that_the_file_says_of_it_and_its_place():
    rule = only_rule("""
        domain: d
        descriptors:
          - key: a
            value: b
            shadow_mode: yes
            quota_mode: true
            detailed_metric: true
            rate_limit:
              name: specific
              replaces: [{name: general}, {name: other}]
              unit: minute
              requests_per_unit: 0x10
            metadata: {service: {name: s1, weight: 2, share: 0.5, on: true, none: null, list: [1, "2"]}}
    """)
    assert (rule.path, rule.source, rule.name) == ("d.a_b", "rules.yaml:9", "specific")
    assert (rule.shadow, rule.soft, rule.detailed, rule.quota.enforced) == (True, True, True, False)
    assert (rule.replaces, rule.quota.count, rule.quota.name) == (("general", "other"), 16, "specific")
    assert rule.metadata == {
        "service": {"name": "s1", "weight": 2, "share": 0.5, "on": True, "none": None, "list": [1, "2"]}
    }


def test_a_rule_without_a_name_is_named_by_its_path_below_the_domain():
    text = """
        domain: my.domain
        descriptors:
          - key: a
            value: b.c
            descriptors: [{key: d, rate_limit: {unit: day, requests_per_unit: 1}}]
    """
    assert only_rule(text).quota.name == "a_b.c.d"


def test_scalars_are_read_as_they_were_written():
    tree = rules("""
        domain: 1.5
        descriptors:
          - {key: version, value: 1.0, rate_limit: {unit: day, requests_per_unit: 1}}
          - {key: flag, value: true, rate_limit: {unit: day, requests_per_unit: 1}}
          - {key: date, value: 2026-01-01, rate_limit: {unit: day, requests_per_unit: 1}}
    """)
    assert all(tree.find_match("1.5", [entry]) for entry in (("version", "1.0"), ("flag", "true")))
    assert tree.find_match("1.5", [("date", "2026-01-01")])


def test_anchors_and_merged_keys_are_followed():
    tree = rules("""
        domain: d
        descriptors:
          - key: a
            rate_limit: &limit {unit: day, requests_per_unit: 1}
          - key: b
            rate_limit: {<<: *limit, requests_per_unit: 2}
          - key: c
            rate_limit: *limit
    """)
    limits = [tree.find_match("d", [(key, "x")]).rule.quota for key in "abc"]
    assert [(quota.count, quota.period) for quota in limits] == [(1, DAY), (2, DAY), (1, DAY)]


def test_all_faults_of_all_files_are_reported_at_once():
    with pytest.raises(RulesInvalid) as raised:
        read_rules(
            [
                ("one.yaml", "domain: d\ndescriptors:\n- value: a\n- key: b\n  rate_limit: {unit: foo, extra: 1}\n"),
                ("two.yaml", "'''"),
                ("three.yaml", "domain: d\ndescriptors:\n- key: a\n"),
                ("four.yaml", "descriptors:\n"),
            ]
        )
    assert [(fault.file, fault.line) for fault in raised.value.faults] == [
        ("one.yaml", 3),
        ("one.yaml", 5),
        ("one.yaml", 5),
        ("two.yaml", 1),
        ("three.yaml", 1),
        ("four.yaml", 1),
    ]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("", "config file cannot have empty domain"),
        ("domain:\n", "config file cannot have empty domain"),
        ("- a\n", "found a list, expected a mapping"),
        ("domain: d\ndescriptors: {key: a}\n", "found a mapping, expected a list"),
        ("domain: d\ndescriptors: a\n", "found 'a', expected a list"),
        ("domain: d\ndescriptors: [{key: [a]}]\n", "found a list, expected a string"),
        ("domain: d\ndescriptors: [{key: a, rate_limit: 5}]\n", "found '5', expected a mapping"),
        ("domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: -1}}]\n", "found '-1'"),
        ("domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1.5}}]\n", "found '1.5'"),
        (
            "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 4294967296}}]\n",
            "to 4294967295",
        ),
        ("domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: '5'}}]\n", "a whole number"),
        ("domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 010}}]\n", "found '010'"),
        ("domain: d\ndescriptors: [{key: a, rate_limit: {requests_per_unit: 5}}]\n", "invalid rate limit unit ''"),
        ("domain: d\ndescriptors: [{key: a, rate_limit: {unit: unknown}}]\n", "invalid rate limit unit 'unknown'"),
        ("domain: d\ndescriptors: [{key: a, shadow_mode: maybe}]\n", "found 'maybe', expected true or false"),
        (
            "domain: d\ndescriptors: [{key: a, value: b, share_threshold: true}]\n",
            "share_threshold can only be used with",
        ),
        ("domain: d\ndescriptors: [{key: a, rate_limit: {unit: day}, metadata: 5}]\n", "error parsing metadata"),
        ("domain: d\ndescriptors: [{[a, b]: c}]\n", "key is not of type string: a list"),
        ("domain: d\ndescriptors: *nowhere\n", "error loading config file: "),
        ("domain: d\ndescriptors:\n\t- key: a\n", "error loading config file: "),
        ("domain: \x01\n", "error loading config file: "),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_was_found(text, fact):
    with pytest.raises(RulesInvalid) as raised:
        read_rules([("rules.yaml", text)])
    assert fact in str(raised.value)
    assert len(raised.value.faults) == 1


@pytest.mark.parametrize("deep", ["[" * 5000, "domain: d\ndescriptors: " + "{key: " * 5000])
def test_a_file_that_is_nested_too_deeply_to_parse_is_a_fault_like_any(deep):
    with pytest.raises(RulesInvalid, match="nested too deeply"):
        read_rules([("rules.yaml", deep)])


@given(st.text("ab:-*&[]{}'\"\n\t <#|>!?%0.~,é\0", max_size=60))
def test_any_text_is_rules_or_a_list_of_faults(text):
    for written in (text, f"domain: d\n{text}", f"domain: d\ndescriptors:\n  - key: {text}\n"):
        try:
            read = read_rules([("rules.yaml", written)])
        except RulesInvalid as invalid:
            read = invalid
        assert read.domains if isinstance(read, Rules) else read.faults


def test_an_alias_of_itself_ends_at_the_deepest_level():
    text = "domain: d\ndescriptors: &again\n- key: a\n  descriptors: *again\n"
    assert faults(text) == [
        f"rules.yaml:2:14: error loading config file: descriptors are nested more than {DEEPEST} deep"
    ]


def test_what_the_reference_ignores_in_silence_is_accepted_with_a_notice():
    tree = rules("""
        domain: d
        descriptors:
          - key: a
            shadow_mode: true
          - key: b
            rate_limit: {unit: day, requests_per_unit: 1, shadow_mode: true}
          - key: c
            rate_limit: {unit: day, requests_per_unit: 1, requests_per_unit: 2}
        ---
        domain: ignored
    """)
    assert list(tree.domains) == ["d"]
    assert tree.find_match("d", [("c", "x")]).rule.quota.count == 2
    assert not tree.find_match("d", [("b", "x")]).rule.shadow
    assert tree.notices == (
        "rules.yaml:10:1: only the first document of a file is read",
        "rules.yaml:4:18: 'shadow_mode' has no effect without a rate_limit",
        "rules.yaml:6:51: 'shadow_mode' has no effect here",
        "rules.yaml:8:51: 'requests_per_unit' stands twice in one mapping; the last one counts",
    )


def test_the_algorithm_can_be_chosen_for_all_rules():
    text = "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 5}}]"
    quota = rules(text, algorithm=Algorithm.BUCKET).find_match("d", [("a", "x")]).rule.quota
    assert (quota.algorithm, quota.burst) == (Algorithm.BUCKET, 5)


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))


def test_a_folder_is_read_with_all_below_it_and_without_what_is_hidden(tmp_path):
    write(tmp_path, "b.yaml", "domain: b\n")
    write(tmp_path, "deep/a.yml", "domain: a\n")
    write(tmp_path, "config", "domain: c\n")
    write(tmp_path, ".hidden.yaml", "domain: hidden\n")
    write(tmp_path, ".git/x.yaml", "domain: hidden\n")
    write(tmp_path, "README.md", "# not rules\n")
    assert list(load_rules(tmp_path).domains) == ["b", "c", "a"]


def test_a_config_map_mount_is_read_through_its_links_once(tmp_path):
    write(tmp_path, "..2026_11_30/rules.yaml", "domain: d\n")
    (tmp_path / "..data").symlink_to("..2026_11_30")
    (tmp_path / "rules.yaml").symlink_to("..data/rules.yaml")
    assert list(load_rules(tmp_path).domains) == ["d"]


def test_a_file_that_is_no_text_is_one_fault_beside_the_others(tmp_path):
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe")
    write(tmp_path, "bad.yaml", "descriptors:\n")
    with pytest.raises(RulesInvalid) as raised:
        load_rules(tmp_path)
    assert [fault.file for fault in raised.value.faults] == ["binary.yaml", "bad.yaml"]


def test_a_folder_that_is_not_there_is_a_fault(tmp_path):
    with pytest.raises(RulesInvalid, match="no such directory"):
        load_rules(tmp_path / "absent")
