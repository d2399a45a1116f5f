"""The YAML tree with places that the reader of rules stands on."""

import pytest

from ratelimit.source import Fault, Source, describe_node, make_plain, show_node


def parse(text: str):
    return Source("x.yaml").parse_text(text)


def test_a_fault_is_shown_with_its_place_where_it_has_one():
    assert str(Fault("a.yaml", 3, 7, "wrong")) == "a.yaml:3:7: wrong"
    assert str(Fault("a.yaml", 0, 0, "wrong")) == "a.yaml: wrong"


def test_plain_data_is_made_of_every_kind_of_scalar_and_collection():
    text = "{a: 1, b: 1.5, c: true, d: null, e: '1', f: [x, 0x1f], g: {h: i}, j: 2026-01-01, k: .inf}"
    assert make_plain(parse(text)) == {
        "a": 1,
        "b": 1.5,
        "c": True,
        "d": None,
        "e": "1",
        "f": ["x", "0x1f"],
        "g": {"h": "i"},
        "j": "2026-01-01",
        "k": ".inf",
    }


@pytest.mark.parametrize(("text", "shown"), [("a: 1", "a mapping"), ("[1]", "a list"), ("one", "'one'")])
def test_a_node_is_described_by_its_kind_or_its_text(text, shown):
    assert describe_node(parse(text)) == shown
    assert show_node(parse(text)) == shown.strip("'")


@pytest.mark.parametrize("word", ["true", "Yes", "ON", "y"])
def test_every_yaml_1_1_word_for_true_is_one(word):
    source = Source("x.yaml")
    assert source.read_flag(source.parse_text(word)) is True
    assert source.faults == []


@pytest.mark.parametrize("word", ["false", "No", "OFF", "n", "", "~"])
def test_every_yaml_1_1_word_for_false_is_one_and_nothing_is_false(word):
    source = Source("x.yaml")
    assert source.read_flag(source.parse_text(word)) is False
    assert source.faults == []


def test_a_quoted_word_is_a_string_and_no_flag():
    source = Source("x.yaml")
    assert source.read_flag(source.parse_text("'true'")) is False
    assert source.faults[0].text == "error loading config file: found 'true', expected true or false"


def test_the_mapping_that_merges_another_keeps_its_own_values_and_the_first_of_several_wins():
    source = Source("x.yaml")
    node = source.parse_text("a: &a {k: 1, l: 1}\nb: &b {l: 2, m: 2}\nc: {<<: [*a, *b], k: 3}")
    merged = source.read_mapping(node.value[2][1], frozenset("klm"), frozenset("klm"))
    assert {key: show_node(value) for key, value in merged.items()} == {"k": "3", "l": "1", "m": "2"}
