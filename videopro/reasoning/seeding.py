"""Seeds for what is sampled: the same numbers for the same question in any order and on any machine.

Knows questions and prompt kinds; nothing of planners or models.
"""

from __future__ import annotations

import hashlib
import json

from videopro.planners import PromptKind
from videopro.question import Question


def derive_seed(*parts: object) -> int:
    """A seed in 0..2**31 - 1 from JSON-able parts. Recorded runs rest on the numbers."""
    digest = hashlib.sha256(json.dumps(list(parts)).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def prompt_seed(seed: int, kind: PromptKind, number: int, question: Question) -> int:
    """The seed of one planner request: from the run's seed, the kind of prompt, the request's number among
    those of its kind or turn, and the question's words. It uses nothing that the prompt does not show, so a
    seed gives nothing away."""
    return derive_seed(seed, kind, number, question.text, question.choices)
