"""Tasks that run at the same time: order, errors of one question, and of the machine."""

import threading
from typing import Any

import pytest

from tests.support.cancelling import SOON, CancelledWork, until
from videopro.errors import ConfigError, UnexpectedError, VideoError, check_cancelled
from videopro.methods.program import derive_seed, prompt_seed, run_parallel
from videopro.question import Question


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
    record: Any = second.record
    assert record.type == "ZeroDivisionError"


def test_errors_of_the_machine_and_of_the_settings_end_the_run() -> None:
    def work(error: Exception | None) -> None:
        if error is not None:
            raise error

    for error in (MemoryError(), ConfigError("no such model")):
        with pytest.raises(type(error)):
            run_parallel([None, error], work, 2)


def test_no_items_give_no_results() -> None:
    assert run_parallel([], lambda number: number, 2) == []


@pytest.mark.parametrize("count", [1, 3])
def test_all_programs_of_the_work_end(count: int) -> None:
    begun = threading.Barrier(count + 1)

    def work(item: int) -> int:
        begun.wait(SOON)
        until(lambda: check_cancelled() is not None)  # type: ignore[func-returns-value]
        return item

    before = threading.active_count()
    cancelled = CancelledWork(lambda: run_parallel(range(count), work, 8))
    begun.wait(SOON)
    cancelled.cancel()
    until(lambda: threading.active_count() <= before)


def test_seeds_are_those_of_recorded_runs() -> None:
    # printf '[7, "plan", 0, "Which colour?", ["red", "blue"]]' | sha256sum: 2e53066e...
    assert prompt_seed(7, "plan", 0, Question("Which colour?", ("red", "blue"))) == 0x2E53066E >> 1
    # printf '[3, "q1/plan", 5]' | sha256sum: 30c4fa32...
    assert derive_seed(3, "q1/plan", 5) == 0x30C4FA32 >> 1
