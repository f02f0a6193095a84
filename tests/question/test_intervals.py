"""Intervals in replies; what each says was written down by hand."""

from __future__ import annotations

import pytest

from videopro.question import extract_intervals


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("The event happens in the 24.3 - 30.4 seconds.", [(24.3, 30.4)]),
        ("24.3-30.4", [(24.3, 30.4)]),
        ("24.3s – 30.4s", [(24.3, 30.4)]),
        ("from 5 seconds to 12.5 seconds", [(5, 12.5)]),
        ("It can be seen between 3 s and 9 s.", [(3, 9)]),
        ("0:05 to 1:12", [(5, 72)]),
        ("00:01:05 - 00:01:12", [(65, 72)]),
        ("01:02:03.5 - 01:02:04", [(3723.5, 3724)]),
        ("[3.5, 8]", [(3.5, 8)]),
        ("(3.5, 8)", [(3.5, 8)]),
        ('```json\n{"result": [[1, 2.5], [10, 20]]}\n```', [(1, 2.5), (10, 20)]),
        ('{"start": 4.0, "end": 7.2}', [(4, 7.2)]),
        ('{"start_time": "00:04", "end_time": "00:07"}', [(4, 7)]),
        ("It starts at 3 s and ends at 5 s.", [(3, 5)]),
        ("Start time: 3.2\nEnd time: 8", [(3.2, 8)]),
        ("The person begins at 0:12 and finishes at 0:15.", [(12, 15)]),
        ("30.4 - 24.3", [(24.3, 30.4)]),
        ("<think>maybe 1 - 2</think> 5 - 6", [(5, 6)]),
        ("3.5 8.25", [(3.5, 8.25)]),
        ("1 - 2 s, and again 5 - 6 s", [(1, 2), (5, 6)]),
        ("At 5 seconds.", []),
        ("I cannot tell.", []),
        ("", []),
        ("<think>1 - 2", []),
        ("1 2 3", []),
    ],
)
def test_intervals(reply: str, expected: list[tuple[float, float]]) -> None:
    assert list(extract_intervals(reply)) == expected
