"""The parts of the GPU check by their letters."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, cast

from perf.battery.cases import Bench, Case


class Part(Protocol):
    """A module of this package."""

    TITLE: str

    def cases(self, bench: Bench) -> list[Case]:
        """The part's measurements, in the order in which they are made."""


MODULES: Mapping[str, str] = {
    "a": "fine_tuning",
    "b": "writing",
    "c": "packed_update",
    "d": "grpo_step",
    "e": "log_probs",
    "f": "inference",
    "g": "encoding",
    "h": "sharded",
    "j": "engine_step",
    "k": "changing_lengths",
    "l": "all_modules",
    # Last: other environments, and what only these have.
    "i": "engines",
}


def load_part(letter: str) -> Part:
    """The part's module, which imports what it measures."""
    return cast(Part, import_module(f"perf.battery.{MODULES[letter]}"))
