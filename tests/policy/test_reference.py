"""docs/gateway.md knows every key of the language, and its small example is one."""

import re

from policy.schema import json_schema
from tests.policy.build import ROOT, load_text

PAGE = (ROOT / "docs" / "gateway.md").read_text(encoding="utf-8")


def test_every_key_of_the_language_is_explained():
    shapes = [json_schema(), *json_schema()["$defs"].values()]
    keys = {key for shape in shapes for key in shape.get("properties", {})}
    words = set(re.findall(r"[a-z0-9_]+", " ".join(re.findall(r"`[^`]+`|```.*?```", PAGE, re.DOTALL))))

    assert keys - words == set()


def test_small_example_of_the_page_loads(tmp_path):
    example = re.search(r"```yaml\n(gateway: .*?)```", PAGE, re.DOTALL)

    assert load_text(tmp_path, example[1]).gateway == "small"
