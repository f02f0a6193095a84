"""Characters that no reader sees, which models and their clients put around and into letters."""

from __future__ import annotations

import re

# Soft hyphen, joiners and fillers of scripts, zero-width space and joiners, marks of direction, word joiner,
# byte order mark, variation selectors, tags, and control characters that are no white space.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_BLANK = re.compile("[\u2800\xa0]")


def visible(text: str) -> str:
    """The text without characters that no reader sees; the two that look like spaces are spaces.

    >>> visible("\\u200fB\\u200b.")
    'B.'
    """
    # Nearly every reply, and much faster than two substitutions.
    if text.isascii() and text.isprintable():
        return text
    return _BLANK.sub(" ", _UNSEEN.sub("", text))
