"""Replies labelled by hand: what the reader misses and reads wrongly stays as low as it was recorded.

The counts are those of docs/results/answer-reader.md; `python -m perf.replies` prints them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from perf import ROOT
from perf.replies import COMMAND, LabelledReply, errors, labelled_replies, show
from videopro.errors import ConfigError
from videopro.question import OFFICIAL_EXTRACTORS, Question, extract_letter

HERE = Path(__file__).parent
REPLIES = list(labelled_replies(HERE / "labelled"))
TRAPS = list(labelled_replies(HERE, "traps.txt"))


def test_the_set_has_two_halves_and_replies_with_and_without_a_letter() -> None:
    halves = [reply.half for reply in REPLIES]
    assert (halves.count("development"), halves.count("record")) == (708, 690)
    assert sum(reply.letter is None for reply in REPLIES) == 416
    assert len({reply.question for reply in REPLIES}) > 30


@pytest.mark.parametrize(("half", "missed", "wrong"), [("development", 7, 0), ("record", 22, 0)])
def test_the_reader_misses_and_errs_no_more_than_recorded(half: str, missed: int, wrong: int) -> None:
    replies = [reply for reply in REPLIES if reply.half == half and reply.file != "other_languages"]
    found, mistaken = errors(replies, extract_letter)
    assert len(found) <= missed
    assert len(mistaken) <= wrong


def test_a_verdict_in_a_language_that_is_not_read_is_missed_and_never_read_wrongly() -> None:
    replies = [reply for reply in REPLIES if reply.file == "other_languages"]
    assert len({reply.question for reply in replies}) == 4
    assert errors(replies, extract_letter)[1] == []


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.reply[:40])
def test_a_trap_is_not_stepped_into(trap: LabelledReply) -> None:
    assert extract_letter(trap.reply, trap.question) == trap.letter


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("The car is blue.", "B"),
        ("Clearly B.", "B"),
        ("- B", "B"),
        ("The letter is B", "B"),
        ("Not B but C", "C"),
        ("B选项", "B"),
        ("Die Antwort ist B.", None),
        ("Let me analyze each option: A. ...", None),
        ("Let me analyze each option: A. red", None),
    ],
)
def test_the_forms_that_were_missed(reply: str, letter: str | None) -> None:
    question = Question("Which colour is the car?", ("red", "blue", "green", "yellow"))
    assert extract_letter(reply, question) == letter


def always(letter: str | None) -> Callable[[str, Question], str | None]:
    return lambda reply, question: letter


def test_a_count_of_errors_tells_missed_from_wrong() -> None:
    replies = [reply for reply in REPLIES if reply.file == "hard"]
    labelled = [reply for reply in replies if reply.letter is not None]
    missed, wrong = errors(replies, always(None))
    assert (missed, wrong) == (labelled, [])
    missed, wrong = errors(replies, always("A"))
    assert not missed
    assert len(wrong) == len(replies) - sum(reply.letter == "A" for reply in labelled)
    # A reader that is known to take the first capital letter errs on most.
    assert len(errors(replies, OFFICIAL_EXTRACTORS["lvbench"])[1]) > len(replies) / 3


def test_the_command_shows_and_writes_a_row_for_each_reader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "replies.json"
    show(COMMAND.parse(["--half", "record", "--show", "videomme", "--output", str(output)]))
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "record: 690 replies, 211 without a letter"
    own = json.loads(output.read_text())["record"]["readers"]["robust"]
    recorded = json.loads((ROOT / "perf/replies.json").read_text())["record"]["readers"]["robust"]
    assert own == recorded
    rows = {line.split()[0]: line.split()[1:] for line in shown[2 : 3 + len(OFFICIAL_EXTRACTORS)]}
    assert list(rows) == ["robust", *OFFICIAL_EXTRACTORS]
    assert rows["videomme"] == [
        str(sum(line.startswith(f"{kind} ") for line in shown)) for kind in ("missed", "wrong")
    ]
    with pytest.raises(ConfigError, match="the readers are robust, "):
        show(COMMAND.parse(["--show", "nobody"]))


def test_files_of_labelled_replies_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no files"):
        list(labelled_replies(tmp_path))
    (tmp_path / "x.txt").write_text("A\tA\n")
    with pytest.raises(ConfigError, match="before the first question"):
        list(labelled_replies(tmp_path))
