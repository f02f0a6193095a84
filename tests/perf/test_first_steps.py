"""The script that times a newcomer's first steps."""

from __future__ import annotations

from perf.first_steps import passed


def test_passed_tests_are_counted_in_what_pytest_prints_at_its_end() -> None:
    printed = (
        "ruff: All checks passed!\n3 passed in 0.1s\n== 6212 passed, 31 skipped in 812.33s (0:13:32) ==\n"
    )
    assert passed(printed) == 6212
    assert passed("no tests ran in 0.01s") is None
