"""Text from outside, made fit to be written.

JSON may hold half of a surrogate pair, which no encoding of Unicode can write: a file, a console or a request
would fail on it, far from where it came in. Knows text only.
"""

from __future__ import annotations


def encodable(text: str) -> str:
    """The text with U+FFFD for each half of a surrogate pair that stands alone; two halves become their
    character."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
