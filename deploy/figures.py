"""Sums up test reports: how many tests, what was skipped and why, how much is covered. Run by deploy/test.sh."""

import json
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

FIGURES = Path("build/figures/tests.json")


def main(reports: list[str], coverage: str) -> int:
    """Write build/figures/tests.json from JUnit reports and a coverage report; 1 where anything failed."""
    cases = [case for report in reports for case in ET.parse(report).iter("testcase")]  # noqa: S314 - our own file
    skipped = Counter(reason for case in cases if (reason := _skip_reason(case)) is not None)
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    percent = json.loads(Path(coverage).read_text())["totals"]["percent_covered"]
    figures = {"tests": len(cases), "skipped": skipped.total(), "failed": failed, "coverage": round(percent, 2)}
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(figures) + "\n")
    for reason, count in sorted(skipped.items()):
        print(f"skipped {count}: {reason}")
    print(", ".join(f"{name} {value}" for name, value in figures.items()))
    return 1 if failed else 0


def _skip_reason(case: ET.Element) -> str | None:
    mark = case.find("skipped")
    return None if mark is None else mark.get("message", "no reason given")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:-1], sys.argv[-1]))
