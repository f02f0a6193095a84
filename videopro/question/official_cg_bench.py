"""What CG-Bench reads in a reply besides letters: intervals, and the result of a JSON block."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any


def written_intervals(reply: str) -> list[tuple[float, float]] | None:
    """The intervals (s) that a reply names, as run/utils.py (post_process, task "miou") of CG-Bench/CG-Bench,
    commit 6677fe3, reads them; None if it reads none.

    Field "result" of the first ```json block, a list of [start, end]; without a valid one, all numbers of the
    reply in pairs, and nothing if their number is odd. A reply without numbers names no interval. The script
    does not check that there are at most five, nor that a start comes before its end. It ends in an error,
    and so reads nothing, if pairs of numbers outside a block overlap.
    """
    result = written_result(reply)
    if isinstance(result, list) and all(map(_is_interval, result)):
        return [(float(start), float(end)) for start, end in result]
    if not reply:
        return None
    numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*", reply)]
    if len(numbers) % 2:
        return None
    # By start, as the script sorts them before it looks for overlaps.
    pairs = sorted(zip(numbers[::2], numbers[1::2], strict=True), key=lambda pair: pair[0])
    return None if any(after[0] <= before[1] for before, after in pairwise(pairs)) else pairs


def written_result(reply: str) -> Any:
    """Field "result" of the first ```json block of a reply; None if there is none, or no valid block."""
    block = re.search(r"```json(.*?)```", reply, re.DOTALL)
    if not block or not block[1].strip():
        return None
    try:
        return json.loads(block[1].strip())["result"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _is_interval(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(end, int | float) for end in value)
