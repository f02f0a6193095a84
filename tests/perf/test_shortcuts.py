"""What counting solves of pocket's questions: scores by hand, ties, and the record."""

import json

import pytest

from perf import ROOT
from perf.shortcuts import chance_of_right, scores, shares
from videopro.pocket.drawing import Actor, Sign
from videopro.pocket.questions import PocketQuestion
from videopro.pocket.script import NarrationLine, Scene, Script


def actor(shape: str, color: str) -> Actor:
    return Actor(shape, color, "waves", size=50, x=150, y=100, phase=0, pace=0.1)


SCRIPT = Script(
    "short",
    0,
    "rain",
    "music",
    (
        Scene("school", "home", 0, 30, actor("ball", "red"), None, 0),
        Scene("beach", "once", 30, 40, actor("star", "blue"), Sign("OPEN", 10, 20), 0),
        Scene("school", "home", 40, 60, actor("star", "green"), None, 0),
        Scene("beach", "home", 60, 64, None, None, 0),
    ),
    (
        NarrationLine(1, 4, "Music again, and music.", "topic"),
        NarrationLine(5, 8, "More music.", "topic"),
        NarrationLine(9, 12, "Then trains.", "aside"),
    ),
)


def asked(text: str, *choices: str) -> PocketQuestion:
    return PocketQuestion("kind", "family", text, choices, "A", ())


@pytest.mark.parametrize(
    ("shortcut", "text", "choices", "by_hand"),
    [
        # The lines that name it, and not how often one does.
        ("said most", "Which?", ("music", "trains", "ships"), [2, 1, 0]),
        ("said at all", "Which?", ("music", "trains", "ships"), [1, 1, 0]),
        ("shown longest", "Which?", ("school", "beach", "cave", "OPEN"), [50, 14, 0, 10]),
        ("shown at all", "Which?", ("school", "beach", "cave", "rain"), [1, 1, 0, 1]),
        ("shown with the named shape", "What color has the star?", ("red", "blue", "green"), [0, 1, 1]),
        # Of 2, 6, 10 ... 62 s: 30 is in the second scene, 58 in the third.
        ("in most of 16 frames", "Which?", ("school", "beach"), [12, 4]),
    ],
)
def test_scores_by_hand(shortcut: str, text: str, choices: tuple[str, ...], by_hand: list[float]) -> None:
    assert scores(SCRIPT, asked(text, *choices))[shortcut] == by_hand


@pytest.mark.parametrize(
    ("values", "right", "chance"),
    [([3, 1, 1, 0], 0, 1.0), ([3, 1, 1, 0], 1, 0.0), ([2, 2, 0, 0], 1, 0.5), ([0, 0, 0, 0], 3, 0.25)],
)
def test_equal_scores_are_guessed_among(values: list[float], right: int, chance: float) -> None:
    assert chance_of_right(values, right) == chance


def test_the_record_is_of_todays_world() -> None:
    record = json.loads((ROOT / "perf" / "shortcuts.json").read_text(encoding="utf-8"))
    assert record["test"] == shares("test", None)
    # That a topic is named more often than the others is how stories are told (videopro/pocket/script.py).
    assert record["fresh"]["story"]["said most"] == 1.0
