"""Programs that run in parallel are one question's work: cancelling it ends all of them."""

from __future__ import annotations

import threading

import pytest

from tests.support.cancelling import SOON, CancelledWork, until
from videopro.errors import check_cancelled
from videopro.methods.program.execution import run_parallel


@pytest.mark.parametrize("count", [1, 3])
def test_all_programs_of_the_work_end(count: int) -> None:
    begun = threading.Barrier(count + 1)

    def work(item: int) -> int:
        begun.wait(SOON)
        until(lambda: check_cancelled() is not None)
        return item

    before = threading.active_count()
    cancelled = CancelledWork(lambda: run_parallel(range(count), work, 8))
    begun.wait(SOON)
    cancelled.cancel()
    until(lambda: threading.active_count() <= before)
