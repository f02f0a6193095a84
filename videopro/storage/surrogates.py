"""Makes text from outside encodable.

JSON may hold a lone surrogate, which no Unicode encoding can write: a file, a console or a request would fail
on it, far from where it came in.
"""

from __future__ import annotations


def encodable(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD, and surrogate pairs joined into their
    character."""
    if text.isascii():
        return text
    # By way of UTF-16, in which a pair of surrogates is the character that JSON's "\ud83d\ude00" means.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
