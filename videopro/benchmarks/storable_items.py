"""Checks that an item's texts and values can be stored: a trace repeats them, even for a failed question."""

from __future__ import annotations

import dataclasses
import json

from videopro.benchmarks.base import Item
from videopro.errors import BenchmarkError
from videopro.storage import LINE_BYTES, parse_json

_MOST = LINE_BYTES // 2
"""Bytes; half of a line is left for the question's results."""


def check_storable(item: Item) -> None:
    """Raise BenchmarkError for an item whose trace could not be written."""
    member = None if item.member is None else dataclasses.asdict(item.member)
    values = {
        "id": item.id,
        "video": [item.video_key, str(item.video)],
        "question": [item.question.text, item.question.choices],
        "answer": [item.answer, item.reference],
        "evidence": item.evidence,
        "groups": {**item.groups},
        "member": member,
    }
    for name, value in values.items():
        try:
            text = json.dumps(value, allow_nan=False)
            if len(text) > _MOST:
                raise ValueError(f"it has {len(text) >> 20:,} MiB, more than {_MOST >> 20}")
            # json.dumps writes deep nesting and lone surrogates that reading refuses.
            parse_json(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise BenchmarkError(f"its {name} cannot be stored ({error}); fix or shorten it") from error
