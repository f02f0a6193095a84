"""Lists of lettered options in a reply, with remarks such as "correct" or ✗."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from videopro.question.answer_phrases import AFFIRMED, AFFIRMED_ALONE, DENIED

if TYPE_CHECKING:
    from videopro.question.question import Question

_LETTERED_LINE = re.compile(
    r"^[\s(\[{>•-]*(?:\d+\.\s*)?(?:[Oo]ption\s+)?(?P<letter>[A-Z])(?:\s*[)\]}.:]+\s*|\s+(?=[✓✔✅☑✗✘❌☒]))(?P<tail>\S[^\n]*)?$"
)


def without_list(text: str, question: Question) -> tuple[set[str], str]:
    """Remove a list of lettered options; return the letters that it marks as right, and the other text.

    "Correct" and a tick mark a line. "Yes" and "true" mark it only if every other line is denied: in an
    unfinished list they may be one of several.
    """
    lines = text.split("\n")
    labelled = [
        (i, m)
        for i, line in enumerate(lines)
        if (m := _LETTERED_LINE.match(line)) and m["tail"] and m["letter"] in question.letters
    ]
    # One line with a letter is the answer itself, not a list.
    if len({match["letter"] for _, match in labelled}) < 2:
        return set(), text
    right, perhaps, denied = set(), set(), set()
    for i, match in labelled:
        remark = match["tail"]
        choice = question.choice(match["letter"]).strip()
        # An option's own "no" or "correct" marks nothing.
        if remark.casefold().startswith(choice.casefold()):
            remark = remark[len(choice) :]
        if DENIED.search(remark):
            denied.add(match["letter"])
        elif AFFIRMED.search(remark):
            right.add(match["letter"])
        elif AFFIRMED_ALONE.search(remark):
            perhaps.add(match["letter"])
        lines[i] = ""
    if not right and perhaps and perhaps | denied == {match["letter"] for _, match in labelled}:
        right = perhaps
    return right, "\n".join(lines).strip()
