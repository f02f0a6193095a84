"""What `videopro ask` prints: wrapped programs, cropped replies, what it is waiting for."""

from __future__ import annotations

import re

import pytest

from videopro.commands.ask.console import ConsoleObserver, print_code
from videopro.methods.planners import PlannerReply, PlanRequest
from videopro.methods.program import round_from_reply
from videopro.question import Question

CODE = """def execute_command(video, question):
    intervals, clips = get_informative_clips(video, "the school", top_k=1)
    for clip in clips:
        if clip:
            text = "Lines of the narration: " + " ".join(line.text for line in lines if line.start < 30)
    return query_mc(clips, question, choices)"""


def test_a_program_has_numbered_lines_and_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    print_code(CODE)
    shown = capsys.readouterr().out.splitlines()
    numbered = [line for line in shown if re.match(r" +\d+ ", line)]
    assert [int(line.split()[0]) for line in numbered] == [1, 2, 3, 4, 5, 6], "a continuation has no number"
    assert "".join("".join(re.sub(r"^ +\d+ ", "", line) for line in shown).split()) == "".join(CODE.split())


REQUEST = PlanRequest("plan", "Which?", Question.open("Which?"))


def reply_shown(text: str, capsys: pytest.CaptureFixture[str]) -> str:
    round, _ = round_from_reply(REQUEST, PlannerReply(text), seconds=1.0)
    ConsoleObserver().on_reply(round)
    return capsys.readouterr().out


def test_replies_that_are_no_program_are_cropped(capsys: pytest.CaptureFixture[str]) -> None:
    shown = reply_shown("word " * 1000, capsys)
    assert "more characters)" in shown
    assert len(shown) < 1000
    garbled = (
        "<planning>look " + "and look " * 500 + "</planning><code>def execute_command(:\n" + "x = 1\n" * 500
    )
    shown = reply_shown(garbled, capsys)
    # 24 lines of its 501 are shown: 477 of "x = 1" are left out, with their line ends (but the last).
    assert f"({477 * 6:,} more characters)" in shown
    assert shown.count("x = 1") == 23
    assert "and look" in shown
    assert len(shown) < 2000
    whole = f"<planning>Look.</planning>\n<code>\n{CODE}\n</code>"
    assert "more characters" not in reply_shown(whole, capsys)


def test_a_wait_is_a_line_on_stderr_if_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with ConsoleObserver() as observer:
        observer.on_wait("planning")
    shown = capsys.readouterr()
    assert shown.err == "planning ...\n"
    assert shown.out == ""


def test_a_wait_on_a_terminal_is_cleared_before_anything_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with ConsoleObserver() as observer:
        observer.on_wait("planning")
        observer.on_reply(round_from_reply(REQUEST, PlannerReply("no program"))[0])
        err = capsys.readouterr().err
        assert "planning ..." in err
        assert err.rindex("\x1b[2K") > err.rindex("planning ..."), "the line is erased"
        assert "\x1b[?25h" in err, "the cursor is back"
