"""Exceptions that nobody foresaw, of a method that answers several questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from videopro.benchmarks import Item
from videopro.methods import answer_each
from videopro.question import Answer, Question
from videopro.traces import Result


def test_an_exception_after_the_last_answer_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    items = [Item(name, Path("v.mp4"), "v", Question("Which?", ("red", "blue"))) for name in "ab"]

    def run_video(items: Sequence[Item], context: object) -> Iterator[tuple[Item, Result]]:
        for item in items:
            yield item, Result(final=Answer("A", 0.9, {}, "A"))
        raise KeyError("teardown")

    method: Any = SimpleNamespace(run_video=run_video)
    context: Any = object()
    assert [item.id for item, _ in answer_each(method, items, lambda: context)] == ["a", "b"]
    said = capsys.readouterr().err
    assert "questions without an answer yet: 0" in said
    assert "in run_video" in said
    assert "KeyError: 'teardown'" in said
