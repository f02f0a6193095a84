"""Plain progress lines, where no bar can be drawn."""

import re

import pytest
from rich.console import Console

from videopro.cli import Counter, counted
from videopro.cli.counter import rate_text


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_line_comes_every_half_minute_and_one_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Counter("indexing", 100, clock=clock) as counter:
        for seconds in range(70):
            clock.now = 100.0 + seconds
            counter.advance()
        clock.now = 200.0
        counter.update(100, 100)
        clock.now = 210.0
    lines = capsys.readouterr().err.splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d indexing: ", line) for line in lines)
    # After 30 s 31 are done: 1.03 a second, so 69 take 67 s. After 60 s 61, so 39 take 38 s.
    assert [line.split(": ")[1] for line in lines] == [
        "31/100, 1.03 /s, 1:07 left",
        "61/100, 1.02 /s, 0:38 left",
        "100/100, 1.00 /s, 0:00 left",
        "100/100, 0.91 /s, took 1:50",
    ]


def test_what_was_done_earlier_does_not_count_towards_the_rate(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Counter("training", 1000, clock=clock) as counter:
        counter.start(900)
        clock.now += 60
        counter.update(903, 1000)
        clock.now += 7000
    # 3 a minute: 97 more take 1940 s.
    assert "training: 903/1,000, 3.00 /min, 32:20 left" in capsys.readouterr().err


def test_short_work_and_hidden_work_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(counted([1, 2, 3], "short")) == [1, 2, 3]
    clock = Clock()
    with Counter("hidden", 2, visible=False, clock=clock) as counter:
        clock.now += 100
        counter.advance()
    assert capsys.readouterr().err == ""


def test_a_terminal_has_a_bar_and_no_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert Console(stderr=True).is_terminal
    clock = Clock()
    with Counter("indexing", 2, clock=clock) as counter:
        clock.now += 100
        counter.advance()
    shown = capsys.readouterr().err
    assert "━" in shown
    assert "left" not in shown


def test_rates() -> None:
    assert [rate_text(rate) for rate in (12.345, 0.1, 0.05, 0.0)] == ["12.35 /s", "0.10 /s", "3.00 /min", ""]
