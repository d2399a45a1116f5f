"""Files for Envoy appear whole, and only where something changed."""

from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from policy.output import write_files, write_yaml

FILES = {"envoy.yaml": {"a": 1}, "lds.yaml": {"b": ["off", "1"]}, "cds.yaml": {"c": True}, "rds-x.yaml": {"d": {}}}


def test_only_changed_files_are_written_clusters_before_what_refers_to_them(tmp_path):
    assert write_files(tmp_path, FILES) == ["cds.yaml", "rds-x.yaml", "lds.yaml", "envoy.yaml"]
    assert write_files(tmp_path, FILES) == []
    assert write_files(tmp_path, {**FILES, "cds.yaml": {"c": False}}) == ["cds.yaml"]


def test_file_is_exchanged_and_never_rewritten(tmp_path):
    """Envoy's watch sees a rename; a reader of the old file keeps the old file."""
    write_files(tmp_path, FILES)
    with (tmp_path / "cds.yaml").open() as old:
        write_files(tmp_path, {**FILES, "cds.yaml": {"c": False}})
        assert old.read() == "c: true\n"
    assert (tmp_path / "cds.yaml").stat().st_mode & 0o777 == 0o644
    assert not list(tmp_path.glob(".*"))


def test_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    write_files(tmp_path, FILES)
    with pytest.raises(Exception, match="cannot represent"):
        write_files(tmp_path, {**FILES, "cds.yaml": {"c": object()}})

    assert (tmp_path / "cds.yaml").read_text() == "c: true\n"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    "text", ["off", "y", "1", "1.5", "0x1f", "~", "null", "1e3", "12:30", "%A%", "", " a", "a: b", "é"]
)
def test_text_stays_text_for_every_yaml_reader(text):
    """yaml-cpp, which Envoy uses, takes a bare `off` for a bool."""
    written = write_yaml({"k": text})

    assert written == f'k: "{text}"\n'
    assert YAML(typ="safe").load(StringIO(written)) == {"k": text}


NAMES = st.from_regex("[a-z@]{1,8}", fullmatch=True)
TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.from_regex("[a-z@]{1,8}", fullmatch=True), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(NAMES, TREES, max_size=5))
def test_written_yaml_is_read_back_equal(tree):
    assert YAML(typ="safe", pure=True).load(write_yaml(tree)) == tree
