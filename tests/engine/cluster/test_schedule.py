"""Who gets what next, and who is blamed, without Ray."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from videopro.engine import CrashRecord, Unit
from videopro.engine.cluster import RaySettings, read_ray_settings
from videopro.engine.cluster.pool import WorkerPool
from videopro.engine.cluster.schedule import Schedule, Task
from videopro.errors import ConfigError


@dataclass(frozen=True)
class Question:
    id: str
    video_key: str = "v"


def unit(*names: str) -> Unit[Question]:
    return Unit("/".join(names), tuple(map(Question, names)))


def take(schedule: Schedule[Question]) -> list[str]:
    task = schedule.take()
    assert task is not None
    return task.ids


def test_units_in_order_then_nothing() -> None:
    schedule: Schedule[Question] = Schedule([unit("a", "b"), unit("c")], CrashRecord.empty())
    assert (take(schedule), take(schedule)) == (["a", "b"], ["c"])
    assert schedule.take() is None
    assert schedule.is_empty()


def test_the_rest_of_a_task_comes_next_without_blame() -> None:
    schedule: Schedule[Question] = Schedule([unit("a", "b", "c"), unit("d")], CrashRecord.empty())
    task = schedule.take()
    assert task is not None
    schedule.give_back([task], {"b"}.__contains__)
    assert not schedule.wants_idle_worker()
    assert take(schedule) == ["a", "c"]


def test_a_death_is_narrowed_down_to_one_question() -> None:
    """As on one machine: each of a unit's questions goes alone; after two deaths alone it is given up."""
    deaths: list[list[str]] = []
    crashes = CrashRecord.empty()
    schedule: Schedule[Question] = Schedule(
        [unit("a", "b")], crashes, lambda ids, reason: deaths.append(list(ids))
    )
    task = schedule.take()
    assert task is not None
    while task is not None:
        if "b" in task.ids:
            schedule.blame([task], "it died")
            schedule.give_back([task], lambda name: False)
        assert schedule.take() is None
        task = schedule.take_apart()
    assert deaths == [["a", "b"], ["b"], ["b"]]
    assert schedule.take_quarantined() == [(Question("b"), "it died")]
    assert schedule.is_empty()


def test_units_that_died_together_run_apart_first() -> None:
    """Of more questions than a unit has, the unit is found first."""
    tasks = [Task(tuple(Question(f"{video}{n}") for n in range(9))) for video in "ab"]
    schedule: Schedule[Question] = Schedule((), CrashRecord.empty())
    schedule.blame(tasks, "it died")
    schedule.give_back(tasks, lambda name: False)
    assert schedule.take() is None
    found = [schedule.take_apart(), schedule.take_apart()]
    assert [len(task.items) for task in found if task is not None] == [9, 9]


def test_the_first_lost_node_blames_nobody() -> None:
    deaths: list[list[str]] = []
    schedule: Schedule[Question] = Schedule(
        [unit("a")], CrashRecord.empty(), lambda ids, reason: deaths.append(list(ids))
    )
    for expected in ([], [["a"]]):
        task = schedule.take()
        assert task is not None
        schedule.blame_for_node([task], "node 10.0.0.7 was lost")
        schedule.give_back([task], lambda name: False)
        assert deaths == expected
    assert schedule.wants_idle_worker()


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


@pytest.mark.parametrize(
    ("engine", "given", "said"),
    [
        ("local", {"cpus": 2}, "--ray: has no effect without --engine ray; add that, or leave --ray out"),
        ("ray", {"cpu": 2}, "ray: unknown setting 'cpu'; did you mean 'cpus'?"),
        ("ray", {"workers": 0}, "ray: workers is 0; it must be at least 1"),
        ("ray", {"cpus": 0}, "ray: cpus is 0; it must be above 0"),
        ("ray", {"gpus": 1.5}, "ray: gpus is 1.5; it must be 0, a share of a GPU, or a whole number"),
        ("ray", {"memory": 0}, "ray: memory is 0; it must be above 0 (GiB)"),
    ],
)
def test_invalid_settings(engine: str, given: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_ray_settings(engine, given)
    assert str(caught.value) == said


@dataclass
class Place:
    """A worker, as far as handing out goes."""

    is_ready: bool = True
    in_flight: int = 32
    is_reserved: bool = False
    tasks: dict[int, Task[Question]] = field(default_factory=dict)

    def give(self, task: Task[Question], job: object) -> None:
        self.tasks[len(self.tasks)] = task


def handed_out(places: list[Place], count: int) -> list[int]:
    """How many of `count` units each worker gets."""
    pool: Any = WorkerPool.__new__(WorkerPool)
    pool._members = places
    schedule: Schedule[Question] = Schedule([unit(f"q{n}") for n in range(count)], CrashRecord.empty())
    pool._hand_out(schedule, None)
    return [len(place.tasks) for place in places]


def test_the_first_ready_worker_does_not_take_everything() -> None:
    assert handed_out([Place() for _ in range(8)], 32) == [4] * 8
    assert handed_out([Place() for _ in range(8)], 103) == [13] * 7 + [12]
    assert handed_out([Place(in_flight=4) for _ in range(8)], 20) == [3] * 4 + [2] * 4
    assert handed_out([Place(in_flight=2) for _ in range(2)], 9) == [2, 2]
    # Those that still load their model get their share later.
    assert handed_out([Place(), Place(is_ready=False)], 6) == [3, 0]
    # Of two units, the busy worker's counts.
    busy = Place()
    busy.give(Task((Question("busy"),)), None)
    assert handed_out([busy, Place()], 1) == [1, 1]
