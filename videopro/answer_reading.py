"""Reading an option's letter out of a model's reply: ours, robust.

A reply that cannot be read is None, never a guess. Knows questions and text, and nothing of models.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from videopro.question import Question

_BARE = re.compile(r"^[\s*(\[\"']*([A-Ja-j])[\s*)\]\"'.,:]*$")


def read_letter(reply: str, question: Question) -> str | None:
    """The letter of the option that the reply settles on; None if it settles on none of this question."""
    match = _BARE.match(reply)
    if match is None:
        return None
    letter = match.group(1).upper()
    return letter if letter in question.letters else None


OFFICIAL_READERS: Mapping[str, Callable[[str, Question], str | None]] = {}
