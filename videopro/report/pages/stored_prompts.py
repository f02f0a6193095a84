"""The prompts of a run's rounds, for its pages: what the models read, as the run stored it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from videopro.traces import Round

_NONE_STORED = "the run did not store its prompts"
_NO_HEAD = (
    "its beginning is not in the run's prompts.jsonl, which was damaged or left behind when the run was "
    "copied; what is the question's own is in the trace as JSON"
)


class StoredPrompts:
    """The prompts of one run. `beginnings` collects what many of them begin with, so that the pages store it
    once."""

    def __init__(self, heads: Mapping[str, str]) -> None:
        """`heads`: those that the run stored, by their keys."""
        self._heads = heads
        self._numbers: dict[str, int] = {}

    @property
    def beginnings(self) -> list[str]:
        """What the prompts so far begin with, by number."""
        return list(self._numbers)

    def of(self, attempt: Round) -> dict[str, Any]:
        """The prompt of a round for its page: `head` (a number of `beginnings`, or None) and `text` after it,
        or `missing`: why it cannot be shown. Its turns are separated by blank lines."""
        prompt = attempt.prompt
        if prompt is None:
            return {"head": None, "text": "", "missing": _NONE_STORED}
        head = prompt.head or self._heads.get(prompt.key, "")
        if prompt.key and not head:
            return {"head": None, "text": "", "missing": _NO_HEAD}
        before = f"{prompt.system}\n\n" if prompt.system else ""
        after = f"\n\n{prompt.prefill}" if prompt.prefill else ""
        number = self._numbers.setdefault(before + head, len(self._numbers)) if before + head else None
        return {"head": number, "text": prompt.text + after, "missing": ""}
