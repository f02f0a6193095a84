"""Each setting says whether it can change an answer, and a run's key holds those that can."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import pytest

from videopro.cli import answering_settings, is_setting, setting
from videopro.methods import METHODS, create

# How the key names a setting whose meaning, not its text, tells runs apart.
RENAMED = {"final": "final_answer", "team": "agents"}


@pytest.mark.parametrize("name", METHODS)
def test_every_setting_of_a_method_says_whether_it_changes_answers(name: str) -> None:
    silent = [
        option.name
        for option in fields(METHODS[name].Settings)
        if is_setting(option) and not isinstance(option.metadata.get("answers"), bool)
    ]
    assert silent == []


@pytest.mark.parametrize("name", METHODS)
def test_the_key_has_what_changes_answers_and_nothing_else_of_the_settings(name: str) -> None:
    given: dict[str, Any] = {"agents": ["self", "other"]} if name == "lvagent" else {}
    identity = create(name, given).identity()
    for option in fields(METHODS[name].Settings):
        key = RENAMED.get(option.name, option.name)
        assert (key in identity) == option.metadata.get("answers", True), option.name


def test_what_does_not_say_so_is_in_the_key() -> None:
    @dataclass(frozen=True)
    class Settings:
        length: int = field(default=1, metadata=setting("how much is seen"))
        threads: int = field(default=2, metadata=setting("how fast", answers=False))
        found: str = "by the run"

    assert answering_settings(Settings()) == {"length": 1, "found": "by the run"}
