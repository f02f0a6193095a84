"""The name of a database's file: all that its lines depend on, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.dvd_world import LINES, ColourWords, builder, captioner
from tests.support.scripted_model import ScriptedModel
from videopro.video import SubtitleLine, Subtitles


def test_other_settings_captioners_and_subtitles_have_their_own_file(tmp_path: Path) -> None:
    class Other(ScriptedModel):
        def identity(self) -> dict[str, object]:
            return {"kind": "other"}

    moved = Subtitles((SubtitleLine(13.0, 15.0, "The old king laughs."), *LINES.lines[1:]), "test")
    builders = [
        builder(tmp_path, captioner()),
        builder(tmp_path, captioner(), registry="parallel"),
        builder(tmp_path, captioner(), clip_seconds=5.0),
        builder(tmp_path, Other([])),
        builder(tmp_path, captioner(frames=8)),
        builder(tmp_path, captioner(), subtitles=LINES),
        builder(tmp_path, captioner(), subtitles=moved),
    ]
    assert len({each.path() for each in builders}) == len(builders)
    # These change no caption.
    same = [
        builder(tmp_path, captioner(), max_tool_steps=2, tools=("clip_search",)),
        builder(tmp_path, captioner(), text_encoder=ColourWords()),
    ]
    assert {each.path() for each in same} == {builders[0].path()}


def test_plain_captions_of_another_prompt_have_their_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = builder(tmp_path, captioner(), registry="none")
    listed = builder(tmp_path, captioner())
    before = plain.path(), listed.path()
    monkeypatch.setattr("videopro.question.prompts.caption", lambda: "What is there?")
    assert plain.path() != before[0]
    assert listed.path() == before[1], "its own prompts are counted by DATABASE_PROMPTS"


def test_a_seed_is_part_of_the_key_only_where_captions_are_sampled(tmp_path: Path) -> None:
    def paths(**changes: Any) -> set[Path]:
        made = builder(tmp_path, captioner(), **changes)
        return {replace(made, seed=seed).path() for seed in (0, 1, 2)}

    assert len(paths()) == 1
    assert len(paths(temperature=0.5)) == 3
