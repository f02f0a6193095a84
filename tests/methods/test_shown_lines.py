"""Which subtitle lines a direct question shows, and where. Expected values: worked out by hand from the
official scripts that are named."""

from __future__ import annotations

from typing import Any

from videopro.methods.native import lines_before, shown_lines
from videopro.video import SubtitleLine, Subtitles

LINES = (
    SubtitleLine(0.0, 1.0, "one"),
    SubtitleLine(1.0, 3.0, "two\nrows"),
    SubtitleLine(2.9, 3.1, "short"),
    SubtitleLine(9.0, 10.0, "last"),
)


def said(rule: Any, *times: float) -> list[str]:
    return [line.text for line in shown_lines(Subtitles(LINES, "x"), rule, times)]


def test_lines_by_rule() -> None:
    assert said("none", 1.0) == []
    assert said("all") == ["one", "two\nrows", "short", "last"]
    assert said("frames", 1.0) == ["one", "two\nrows"]
    # The end is not part of a line (Video-MME, lmms-eval).
    assert said("frames_until", 1.0) == ["two rows"]
    assert said("frames_until", 3.0, 0.0) == ["one", "short"]
    # Nor is the start, and the order is that of the frames (CG-Bench).
    assert said("frames_inside", 1.0) == []
    assert said("frames_inside", 9.5, 2.95, 2.0) == ["last", "two rows", "short"]
    # The third line is widened to 2.5 to 3.5 s (LongVideoBench).
    assert said("interleaved", 2.6) == said("frames_widened", 2.6) == ["two\nrows", "short"]


def test_lines_stand_after_the_frames_up_to_their_middle() -> None:
    # Middles: 0.5, 2, 3, 9.5 s.
    placed = lines_before(LINES, [0.0, 2.0, 4.0])
    assert [[line.text for line in own] for own in placed] == [
        [],
        ["one"],
        ["two\nrows", "short"],
        ["last"],
    ]
