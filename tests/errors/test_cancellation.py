"""Cancelled work stops at its next check, in whichever thread it runs."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from videopro.errors import (
    Cancellation,
    Cancelled,
    cancellable,
    carrying_cancellation,
    check_cancelled,
    current_cancellation,
)


def test_a_check_raises_only_within_cancelled_work() -> None:
    cancellation, other = Cancellation(), Cancellation()
    with cancellable(cancellation):
        check_cancelled()
        other.cancel()
        check_cancelled()
        cancellation.cancel()
        with pytest.raises(Cancelled):
            check_cancelled()
        with cancellable(None):
            check_cancelled()
    check_cancelled()
    assert current_cancellation() is None
    # What a method that survives every exception does not survive.
    assert not issubclass(Cancelled, Exception)


def test_callbacks_run_once_also_those_that_come_late_and_not_those_that_were_taken_back() -> None:
    cancellation, called = Cancellation(), list[str]()
    cancellation.on_cancel(lambda: called.append("early"))
    cancellation.on_cancel(lambda: called.append("taken back"))()
    assert called == []
    cancellation.cancel()
    cancellation.on_cancel(lambda: called.append("late"))()
    cancellation.cancel()
    assert called == ["early", "late"]


def test_a_wait_ends_when_it_is_cancelled() -> None:
    cancellation = Cancellation()
    assert not cancellation.wait(0.0)
    threading.Timer(0.01, cancellation.cancel).start()
    assert cancellation.wait(60.0)


def test_threads_of_a_pool_carry_the_work_of_the_thread_that_gave_it_to_them() -> None:
    cancellation = Cancellation()
    with ThreadPoolExecutor(1) as threads:
        with cancellable(cancellation):
            carried = carrying_cancellation(check_cancelled)
        assert threads.submit(carrying_cancellation(current_cancellation)).result() is None
        threads.submit(carried).result()
        cancellation.cancel()
        with pytest.raises(Cancelled):
            threads.submit(carried).result()
        # The next work of that thread is another's.
        threads.submit(check_cancelled).result()
