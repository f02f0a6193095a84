"""The list of failures at the end of a command."""

from __future__ import annotations

from videopro.errors import failure_lines


def test_failures_share_a_line_by_reason_and_name_each_video_once() -> None:
    failures = [
        ("a.mp4", "q1", "a.mp4: is empty"),
        ("b.mp4", "q2", "no such file"),
        ("c.mp4", "q3", "no such file"),
        ("b.mp4", "q4", "no such file"),
        ("d.mp4", "", "d.mp4: no such file"),
    ]
    assert failure_lines(failures, "traces.jsonl") == [
        "  b.mp4 (q2, q4), c.mp4 (q3), d.mp4: no such file",
        "  a.mp4 (q1): is empty",
    ]
    assert failure_lines([]) == []


def test_what_is_left_out_is_counted_and_its_file_named() -> None:
    many = [(f"{n}.mp4", "", "no such file") for n in range(7)]
    named = "  0.mp4, 1.mp4, 2.mp4, 3.mp4, 4.mp4 and 2 more: no such file"
    assert failure_lines(many, "traces.jsonl") == [named, "  all are in traces.jsonl"]
    asked = [("a.mp4", f"q{n}", "is empty") for n in range(4)]
    assert failure_lines(asked) == ["  a.mp4 (q0, q1, q2 and 1 more): is empty"]
    different = [(f"{n}.mp4", "", f"reason {n}") for n in range(12)] + [("x.mp4", "", "reason 11")]
    *lines, end = failure_lines(different, "traces.jsonl")
    assert lines[:2] == ["  11.mp4, x.mp4: reason 11", "  0.mp4: reason 0"]
    assert (len(lines), end) == (10, "  and 2 more; all are in traces.jsonl")
