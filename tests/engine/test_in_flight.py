"""What a process says that it is answering, and questions that must be in flight without others."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from videopro.engine import InFlight, read_crashes, record_crash, share_of_units
from videopro.traces import SharedClock

SECONDS = 20


def test_all_questions_in_flight_are_reported() -> None:
    seen: list[list[str]] = []
    both = InFlight(lambda ids: seen.append(list(ids)))
    with both.unit() as one, both.unit() as other:
        one.answering(["a", "b"])
        other.answering(["c"])
        one.answering(["d"])
        other.answering([])
    assert seen == [["a", "b"], ["a", "b", "c"], ["c"], ["c", "d"], ["d"], []]

    def fail() -> None:
        with both.unit() as unit:
            unit.answering(["a"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert seen[6:] == [["a"], []]


def test_what_the_units_are_at_is_counted() -> None:
    told: list[dict[str, int]] = []
    both = InFlight(lambda ids: None, lambda counts: told.append(dict(counts)))
    with both.unit() as one, both.unit() as other:
        one.answering(["a"])
        one.doing("opening")
        other.answering(["b"])
        other.doing("opening")
        one.doing("indexing")
        one.doing("indexing")
    assert told[:2] == [{"opening": 1}, {"opening": 2}]
    assert told[2:] == [{"opening": 1, "indexing": 1}, {"indexing": 1}, {}]


def test_a_suspect_waits_for_the_others_and_they_wait_for_it() -> None:
    seen: list[list[str]] = []
    all_units = InFlight(lambda ids: seen.append(list(ids)))
    suspect_runs, suspect_ends, later_runs = (threading.Event() for _ in range(3))

    def run(name: str, runs: threading.Event) -> None:
        with all_units.unit(lambda question_id: question_id == "s") as unit:
            unit.answering([name])
            runs.set()
            if name == "s":
                suspect_ends.wait(SECONDS)

    with ThreadPoolExecutor(2) as threads:
        with all_units.unit() as ordinary:
            ordinary.answering(["o"])
            waiting = threads.submit(run, "s", suspect_runs)
            assert not suspect_runs.wait(0.1)
        assert suspect_runs.wait(SECONDS)
        after = threads.submit(run, "l", later_runs)
        assert not later_runs.wait(0.1)
        suspect_ends.set()
        assert later_runs.wait(SECONDS)
        waiting.result()
        after.result()
    assert all(len(ids) <= 1 for ids in seen)


def test_a_unit_is_suspected_before_its_questions(tmp_path: Path) -> None:
    path = tmp_path / "deaths.jsonl"
    many = [f"q{number}" for number in range(40)]
    record_crash(path, many, "why")
    crashes = read_crashes(path)
    assert crashes.must_run_apart("q3")
    assert not crashes.must_run_alone("q3")
    record_crash(path, many[:16], "why")
    crashes = read_crashes(path)
    assert crashes.must_run_alone("q3")
    assert crashes.must_run_apart("q39")
    assert not crashes.must_run_alone("q39")
    assert not crashes.must_run_apart("other")


def test_what_was_asked_beside_others_is_no_cheaper_for_what_comes_after_it_alone() -> None:
    """A first batch of 100 s beside 31 other units, and one of 100 s alone."""
    now = [0.0]
    clock = SharedClock(lambda: now[0])
    with clock.running() as own:
        with ExitStack() as others:
            for _ in range(31):
                others.enter_context(clock.running())
            now[0] = 100.0
            # Two questions of 50 s each.
            first = [50 * clock.factor(own, 50.0) for _ in range(2)]
        now[0] = 200.0
        second = [50 * clock.factor(own, 50.0) for _ in range(2)]
    assert first == pytest.approx([50 / 32, 50 / 32])
    assert second == pytest.approx([50, 50])
    assert sum(first + second) == pytest.approx(own.share)
    assert own.wall == 200.0


def test_more_seconds_than_have_passed_get_a_share_too() -> None:
    now = [0.0]
    clock = SharedClock(lambda: now[0])
    with clock.running() as one, clock.running():
        assert clock.factor(one, 1.0) == 1.0
        now[0] = 4.0
        assert clock.factor(one, 4.5) == 0.5
        assert clock.factor(one, 1.0) == 0.5


def test_a_worker_leaves_the_others_their_units() -> None:
    assert [share_of_units(left, 8) for left in (103, 32, 20, 8, 1)] == [13, 4, 3, 1, 1]
    assert share_of_units(5, 1) == 5
