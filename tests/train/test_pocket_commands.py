"""The command that makes the pocket world's models."""

from __future__ import annotations

from pathlib import Path

import pytest

from videopro.train.pocket import __main__ as pocket
from videopro.train.pocket.language import STAGES


def test_parts_are_all_or_those_that_are_named() -> None:
    assert pocket.COMMAND.parse(["runs/pocket"]).parts == ("model", "encoder", "poolings")
    settings = pocket.COMMAND.parse(["runs/pocket", "--parts", "poolings"])
    assert (settings.folder, settings.parts) == (Path("runs/pocket"), ("poolings",))


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--outptu", "x"], "--outptu"), ([], "'folder' is missing"), (["f", "--parts", "eyes"], "eyes")],
)
def test_a_mistake_is_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert pocket.main(words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("error: ")
    assert message in said


def test_every_stage_starts_from_an_earlier_one() -> None:
    names = [stage.name for stage in STAGES]
    for number, stage in enumerate(STAGES):
        assert {stage.state, stage.model} - {""} <= {*names[:number]}
