"""Sums up test reports: how many tests, what was skipped and why, how much is covered. Run by deploy/test.sh."""

import json
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

FIGURES = Path("build/figures/tests.json")


def main(coverage: str, reports: list[str]) -> int:
    """Write build/figures/tests.json from a coverage report and JUnit reports; 1 where anything failed.

    A report named `again` holds second tries: what passes there counts as passed, and is named.
    """
    again = [report for report in reports if "again" in report]
    first = read_cases([report for report in reports if "again" not in report])
    second = read_cases(again)
    cases = first | second
    for name in sorted(second):
        print(f"second try: {'.'.join(name)}: {'failed again' if has_failed(cases[name]) else 'passed'}")
    skipped = Counter(reason for case in cases.values() if (reason := _skip_reason(case)) is not None)
    lost = {name for name, case in first.items() if has_failed(case)} - set(second)
    failed = sum(map(has_failed, cases.values()))
    percent = json.loads(Path(coverage).read_text())["totals"]["percent_covered"]
    figures = {
        "tests": len(cases),
        "skipped": skipped.total(),
        "failed": failed,
        "second_try": len(second),
        "coverage": round(percent, 2),
    }
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(figures) + "\n")
    for reason, count in sorted(skipped.items()):
        print(f"skipped {count}: {reason}")
    print(", ".join(f"{name} {value}" for name, value in figures.items()))
    print(f"{len(cases) - failed - skipped.total()} passed, {failed} failed, {skipped.total()} skipped")
    return 1 if failed or lost else 0


def read_cases(reports: list[str]) -> dict[tuple[str, str], ET.Element]:
    """Read the test cases of JUnit reports by class and name; a failed set-up or tear-down counts with its test."""
    cases: dict[tuple[str, str], ET.Element] = {}
    for report in reports:
        for case in ET.parse(report).iter("testcase"):  # noqa: S314 - our own file
            name = (case.get("classname", ""), case.get("name", ""))
            if name not in cases or has_failed(case):
                cases[name] = case
    return cases


def has_failed(case: ET.Element) -> bool:
    """Whether a test failed, or could not be set up or torn down."""
    return case.find("failure") is not None or case.find("error") is not None


def _skip_reason(case: ET.Element) -> str | None:
    mark = case.find("skipped")
    return None if mark is None else mark.get("message", "no reason given")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
