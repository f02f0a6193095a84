"""Runs a function over items on threads; an item may fail without ending the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from videopro.errors import QUESTION_ERRORS, VideoProError

Item = TypeVar("Item")
Value = TypeVar("Value")


def run_parallel(
    items: Sequence[Item], work: Callable[[Item], Value], at_once: int
) -> list[Value | VideoProError]:
    """What `work` returned for each item, in order, or the error in QUESTION_ERRORS that it raised.

    At most `at_once` items run at the same time. Any other exception is raised after the other items have
    finished.
    """

    def attempt(item: Item) -> Value | VideoProError:
        try:
            return work(item)
        except QUESTION_ERRORS as error:
            return error

    if not items:
        return []
    with ThreadPoolExecutor(min(at_once, len(items))) as threads:
        return list(threads.map(attempt, items))
