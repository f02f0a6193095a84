"""Text of servers and models on a terminal: read as text, and obeyed as nothing."""

from __future__ import annotations

import pytest

from videopro.storage import printable, without_commands


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("größer 大きい 🙂", "größer 大きい 🙂"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[1;1Hno", "no"),
        ("\x1b]0;title\x07no", "no"),
        ("\x1b]8;;http://evil/\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "red"),
        ("\x1bPdata\x1b\\no", "no"),
        ("over\rwritten\x08\x00", "over written"),
        ("\u202egnp.exe\u2066", "gnp.exe"),
        ("a\u00a0b\u200bc", "a bc"),
        ("\ud83d no", "\ufffd no"),
        ("unfinished \x1b[3", "unfinished 3"),
    ],
)
def test_what_a_terminal_would_obey_is_left_out(text: str, shown: str) -> None:
    assert without_commands(text) == shown
    assert printable(text, 100) == shown


def test_a_message_has_one_line_of_bounded_length() -> None:
    assert without_commands("one\ntwo\r\n\tthree") == "one\ntwo\n\tthree"
    assert printable("one\ntwo\r\n\tthree", 100) == "one two three"
    assert printable("x" * 500, 10) == "x" * 10 + "..."
    assert printable("\x1b[0m" * 1_000_000 + "x", 10) == ""
