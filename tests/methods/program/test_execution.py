"""Tasks that run at the same time: order, errors of one question, and of the machine."""

from __future__ import annotations

import threading

import pytest

from videopro.errors import ConfigError, UnexpectedError, VideoError
from videopro.methods.program import run_parallel


def test_results_keep_their_order_and_an_error_takes_one_place() -> None:
    meeting = threading.Barrier(3, timeout=30)

    def work(number: int) -> int:
        # All three run at the same time, or the barrier breaks.
        meeting.wait()
        if number == 1:
            raise VideoError("cannot be read")
        return 10 * number

    first, second, third = run_parallel([0, 1, 2], work, 3)
    assert (first, third) == (0, 20)
    assert isinstance(second, VideoError)


def test_an_exception_that_nobody_foresaw_takes_one_place() -> None:
    first, second = run_parallel([1, 0], lambda number: 1 // number, 2)
    assert first == 1
    assert isinstance(second, UnexpectedError)
    assert second.record is not None
    assert second.record.type == "ZeroDivisionError"


def test_errors_of_the_machine_and_of_the_settings_end_the_run() -> None:
    def work(error: Exception | None) -> None:
        if error is not None:
            raise error

    for error in (MemoryError(), ConfigError("no such model")):
        with pytest.raises(type(error)):
            run_parallel([None, error], work, 2)


def test_no_items_give_no_results() -> None:
    assert run_parallel([], lambda number: number, 2) == []
