"""Choices that bring their own labels, as people paste them: "A. a cup", "(B) a book", "c) a ball"."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from videopro.question.question import LETTERS
from videopro.question.thoughts import visible

# What may surround a label in Markdown.
_STARS = r"[*_`]{0,3}"
_LABEL = re.compile(
    rf"^\s*(?P<before>{_STARS})(?P<word>option|choice)?\s*(?P<open>[(\[（【<{{]?)\s*(?P<letter>[A-Za-zＡ-Ｚ])\s*"
    rf"(?P<within>{_STARS})(?P<close>[)\]）】>}}]?)(?P<mark>[.:：、．/|\-–—]?)(?P<after>{_STARS})(?P<space>\s*)(?=\S)",
    re.IGNORECASE,
)
# These end a label without a space too: they are in no word.
_CLEAR = frozenset("：、．|")


def without_own_labels(choices: Sequence[str]) -> tuple[str, ...]:
    """The choices without their labels, if all of them have the right one, A, B, C ..., in one form; else the
    choices unchanged. Labels are added when a question is shown."""
    unchanged = tuple(choices)
    if not 2 <= len(unchanged) <= len(LETTERS) or not all(isinstance(choice, str) for choice in unchanged):
        return unchanged
    readable = [visible(choice) for choice in unchanged]
    labels = [_LABEL.match(choice) for choice in readable]
    forms = set()
    for label, letter in zip(labels, LETTERS, strict=False):
        if (
            label is None
            or unicodedata.normalize("NFKC", label["letter"]).upper() != letter
            or not _ends(label)
        ):
            return unchanged
        forms.add(
            (
                (label["word"] or "").lower(),
                label["letter"].isupper(),
                *(label[part] for part in ("before", "open", "within", "close", "mark", "after")),
            )
        )
    # "A. one", "(B) two": two forms are rather part of the texts than labels of a list.
    if len(forms) > 1:
        return unchanged
    return tuple(
        choice[label.end() :].rstrip() for choice, label in zip(readable, labels, strict=True) if label
    )


def _ends(label: re.Match[str]) -> bool:
    """Whether what follows the letter ends a label, and not a word:
    "A.I. research" and "B-sides" are choices."""
    # Stars that open before a label must close within or after it: "*A.* text".
    if len(label["before"]) != len(label["within"]) + len(label["after"]):
        return False
    if label["close"] or label["mark"] in _CLEAR:
        return bool(label["close"] or label["mark"])
    if label["space"] or label["after"]:
        return bool(label["mark"])
    following = label.string[label.end() :]
    return label["mark"] in (".", ":") and not re.match(r"\w\.", following)
