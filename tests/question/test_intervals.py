"""Intervals in replies; what each says was written down by hand."""

from __future__ import annotations

import time

import pytest

from videopro.question import extract_intervals


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("The event happens in the 24.3 - 30.4 seconds.", [(24.3, 30.4)]),
        ("24.3-30.4", [(24.3, 30.4)]),
        ("from minute 1 to minute 2", [(60, 120)]),
        ("5 min 5 to 5 min 10", [(305, 310)]),
        ("5'05\" to 5'10\"", [(305, 310)]),
        ("for 4 seconds starting at 3 seconds", [(3, 7)]),
        ("1:05 for 4 seconds", [(65, 69)]),
        ("Frames 12 to 20 show it, 5 s to 9 s.", [(5, 9)]),
        ("scene 3 to scene 5", []),
        ("It is not 1-5; it is 10-20.", [(10, 20)]),
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
        ("1 minute 5 seconds to 1 minute 10 seconds", [(65, 70)]),
        ("1 minute and 5 seconds to 1 minute and 10 seconds", [(65, 70)]),
        ("1m5s-1m10s", [(65, 70)]),
        ("1h 2m to 1h 3m", [(3720, 3780)]),
        ("between 1 minute and 2 minutes", [(60, 120)]),
        ("5 to 10 minutes", [(300, 600)]),
        ("5 minutes to 10", [(300, 600)]),
        ("5 s to 1 min", [(5, 60)]),
        ("30 to 1 minute", [(30, 60)]),
        ("It starts at 30 s and ends at 2 minutes.", [(30, 120)]),
        ("12,3 - 15,0", [(12.3, 15)]),
        ("from 12,5 to 15,25 seconds", [(12.5, 15.25)]),
        ("[12,3 - 15,0]", [(12.3, 15)]),
        ("1-2,5-6", [(1, 2), (5, 6)]),
        ("[[3,5],[7,9]]", [(3, 5), (7, 9)]),
        ("1,200 to 1,230 seconds", [(1200, 1230)]),
        ("00:01:05,500 --> 00:01:10,000", [(65.5, 70)]),
        ('{"result": [["00:01:05", "00:01:10"]]}', [(65, 70)]),
        ("It begins at 3 s and lasts 4 s.", [(3, 7)]),
        ("It begins at 1:05 and lasts for about 5 seconds.", [(65, 70)]),
        ("from 3 s for 4 s", [(3, 7)]),
        ('{"start": 3, "duration": 4}', [(3, 7)]),
        ("It starts at 3 s and lasts until 7 s.", [(3, 7)]),
        ("The clip lasts 60 s; the event is from 3 s to 7 s.", [(3, 7)]),
        ("starting at 0:05 until 0:10", [(5, 10)]),
        ("**3 s** to **7 s**", [(3, 7)]),
        ("65 - 70 s (1:05 - 1:10)", [(65, 70)]),
        ("9" * 400 + " - 5", []),
        ("At 5 seconds.", []),
        ("I cannot tell.", []),
        ("", []),
        ("<think>1 - 2", []),
        ("1 2 3", []),
    ],
)
def test_intervals(reply: str, expected: list[tuple[float, float]]) -> None:
    assert list(extract_intervals(reply)) == expected


@pytest.mark.parametrize("part", ["1 ", "1-", "[1,", "start ", "from 1 for ", "1 minute ", "begin at 1 \n"])
def test_any_reply_is_read_in_time(part: str) -> None:
    start = time.process_time()
    extract_intervals(part * (100_000 // len(part)))
    assert time.process_time() - start < 5
