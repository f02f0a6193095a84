"""Seeds are the numbers that recorded runs were made with: the first 31 bits of a SHA-256 of JSON."""

from __future__ import annotations

from videopro.methods.program import derive_seed, prompt_seed
from videopro.question import Question


def test_seeds_are_those_of_recorded_runs() -> None:
    # printf '[7, "plan", 0, "Which colour?", ["red", "blue"]]' | sha256sum: 2e53066e...
    assert prompt_seed(7, "plan", 0, Question("Which colour?", ("red", "blue"))) == 0x2E53066E >> 1
    # printf '[3, "q1/plan", 5]' | sha256sum: 30c4fa32...
    assert derive_seed(3, "q1/plan", 5) == 0x30C4FA32 >> 1
