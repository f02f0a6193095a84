"""Who gets what next, and who is blamed, without Ray."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from videopro.engine import CrashRecord, Unit
from videopro.engine.cluster import RaySettings
from videopro.engine.cluster.pool import Member, Schedule, WorkerPool


@dataclass(frozen=True)
class Question:
    id: str
    video_key: str = "v"


def unit(*names: str) -> Unit[Question]:
    return Unit("/".join(names), tuple(map(Question, names)))


def names(tasks: Iterable[Sequence[Question]]) -> list[list[str]]:
    return [[question.id for question in task] for task in tasks]


def test_units_in_order_then_nothing() -> None:
    schedule: Schedule[Question] = Schedule([unit("a", "b"), unit("c")], CrashRecord.empty())
    assert names(schedule.shared) == [["a", "b"], ["c"]]
    assert not schedule.apart
    schedule.stop()
    assert not schedule.shared


def test_a_death_is_narrowed_down_to_one_question() -> None:
    """As on one machine: each of a unit's questions goes alone; after two deaths alone it is given up."""
    schedule: Schedule[Question] = Schedule([unit("a", "b")], CrashRecord.empty())
    deaths = []
    while schedule.shared or schedule.apart:
        task = (schedule.shared or schedule.apart).popleft()
        ids = [question.id for question in task]
        if "b" in ids:
            schedule.crashes.add(ids, "it died")
            deaths.append(ids)
            schedule.add(task)
        assert not schedule.shared
    assert deaths == [["a", "b"], ["b"], ["b"]]
    assert schedule.given_up == [(Question("b"), "it died")]


def test_units_that_died_together_run_apart_first() -> None:
    """Of more questions than a unit has, the unit is found first."""
    tasks = [tuple(Question(f"{video}{n}") for n in range(9)) for video in "ab"]
    crashes = CrashRecord.empty()
    crashes.add([question.id for task in tasks for question in task], "it died")
    schedule: Schedule[Question] = Schedule([Unit(task[0].id, task) for task in tasks], crashes)
    assert not schedule.shared
    assert [len(task) for task in schedule.apart] == [9, 9]


NODES = [{"CPU": 32.0, "GPU": 8.0, "memory": 64.0 * 2**30}, {"CPU": 16.0, "GPU": 2.0, "memory": 2.0**36}]


def test_shares_by_default() -> None:
    """A GPU and the CPUs beside it; without GPUs, a CPU."""
    share = RaySettings().share(NODES)
    assert (share.cpus, share.gpus, share.memory) == (4.0, 1.0, 0)
    assert RaySettings().count(share, NODES) == 10
    assert str(share) == "4 CPUs and 1 GPU"
    without = [{"CPU": 4.0}, {"CPU": 2.0}]
    share = RaySettings().share(without)
    assert (share.cpus, share.gpus) == (1.0, 0.0)
    assert RaySettings().count(share, without) == 6


def test_shares_that_are_given() -> None:
    settings = RaySettings(cpus=2.0, gpus=0.25, memory=10.0)
    # 6 by memory on the first node, 8 by CPUs and by GPUs on the second.
    assert settings.count(settings.share(NODES), NODES) == 6 + 6
    assert RaySettings(workers=64).count(settings.share(NODES), NODES) == 64


class Place(Member[Question]):
    """A worker, as far as handing out goes."""

    def __init__(self, in_flight: int = 32, *, loading: object = None) -> None:
        super().__init__(actor=None, loading=loading, in_flight=in_flight)

    def give(self, items: tuple[Question, ...], job: Any) -> None:
        self.tasks[len(self.tasks)] = items

    def busy_with(self, *names: str) -> Self:
        for name in names:
            self.give((Question(name),), None)
        return self


def handed_out(places: list[Place], count: int, *, apart: int = 0) -> list[int]:
    """How many of `count` units each worker gets, and of `apart` that go apart from others."""
    pool: Any = WorkerPool.__new__(WorkerPool)
    pool._members = places
    pool._schedule = Schedule([unit(f"q{n}") for n in range(count)], CrashRecord.empty())
    pool._schedule.apart.extend((Question(f"apart{n}"),) for n in range(apart))
    pool._hand_out(None)
    return [len(place.tasks) for place in places]


def test_the_first_ready_worker_does_not_take_everything() -> None:
    assert handed_out([Place() for _ in range(8)], 32) == [4] * 8
    assert handed_out([Place() for _ in range(8)], 103) == [13] * 7 + [12]
    assert handed_out([Place(in_flight=4) for _ in range(8)], 20) == [3] * 4 + [2] * 4
    assert handed_out([Place(in_flight=2) for _ in range(2)], 9) == [2, 2]
    # Those that still load their model get their share later.
    assert handed_out([Place(), Place(loading=1)], 6) == [3, 0]
    # Of two units, the busy worker's counts.
    assert handed_out([Place().busy_with("busy"), Place()], 1) == [1, 1]


def test_a_worker_with_a_suspect_gets_nothing_else() -> None:
    places = [Place(), Place()]
    assert handed_out(places, 8, apart=1) == [1, 5]
    assert [place.is_apart for place in places] == [True, False]
    # Both are busy: the one with less is kept free for the suspect.
    assert handed_out([Place().busy_with("a"), Place().busy_with("b", "c")], 8, apart=1) == [1, 6]
