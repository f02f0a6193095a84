"""Choices that bring their own labels, as people paste them: "A. a cup", "(B) a book", "c) a ball"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from videopro.question.question import LETTERS

# A dot, a colon or a dash ends a label only before a space: "A.I. research" and "B-sides" are choices.
_LABEL = re.compile(
    r"^\s*(?P<word>option|choice)?\s*(?P<open>[(\[（【]?)\s*(?P<letter>[A-Za-zＡ-Ｚ])\s*"
    r"(?:(?P<close>[)\]）】、．])|(?P<mark>[.:：\-–—])(?=\s))\s*(?=\S)",
    re.IGNORECASE,
)


def without_own_labels(choices: Sequence[str]) -> tuple[str, ...]:
    """The choices without their labels, if all of them have the right one, A, B, C ..., in one form; else the
    choices as they are. Labels are added when a question is shown."""
    kept = tuple(choices)
    if len(kept) < 2 or not all(isinstance(choice, str) for choice in kept):
        return kept
    found = [_LABEL.match(choice) for choice in kept]
    forms = set()
    for label, letter in zip(found, LETTERS, strict=False):
        if label is None or _plain(label["letter"]).upper() != letter:
            return kept
        forms.add(
            (
                (label["word"] or "").lower(),
                label["open"],
                label["letter"].isupper(),
                label["close"] or label["mark"],
            )
        )
    if len(forms) > 1 or len(found) > len(LETTERS):
        return kept
    return tuple(choice[label.end() :].rstrip() for choice, label in zip(kept, found, strict=True) if label)


def _plain(letter: str) -> str:
    """A letter of full width as an ordinary one."""
    return chr(ord(letter) - 0xFEE0) if ord(letter) > 0xFF00 else letter
