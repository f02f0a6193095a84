"""Many videos in flight in one worker: they meet in the backbone, and every promise of a run still holds."""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.colours import ColourBackbone, check_complete, flags, load_fake, make_benchmark, rewrite
from tests.support.colours import root as root
from videopro import benchmarks
from videopro.backbones.base import ChoiceRequest
from videopro.commands.infer import main
from videopro.engine import units
from videopro.errors import BackboneError
from videopro.methods import create
from videopro.runs import RunFolder
from videopro.runs.making import WorkerJob, run_worker, units_in_flight
from videopro.traces import Trace, read_traces

SECONDS = 30


class Reports:
    """Keeps what a worker reports."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []
        self.done: list[dict[str, int]] = []

    def answering(self, ids: Sequence[str]) -> None:
        self.seen.append(list(ids))

    def doing(self, counts: Mapping[str, int]) -> None:
        self.done.append(dict(counts))


def answered(
    root: Path, folder: Path, backbone: ColourBackbone, in_flight: int, reports: Reports | None = None
) -> list[Trace]:
    """The traces of a run over all questions by one worker in this process."""
    benchmark = benchmarks.load("jsonl", root=root)
    run = RunFolder(folder)
    key = run.open({}, {})
    job = WorkerJob(run, key, tuple(units(benchmark.items)), benchmark.protocol, 0, in_flight=in_flight)
    run_worker(job, create("native", {}), backbone, reports or Reports())
    return read_traces(run.traces)


def test_a_server_gets_the_requests_of_as_many_videos_as_are_in_flight(root: Path, tmp_path: Path) -> None:
    all_there = threading.Barrier(4)
    backbone = ColourBackbone("m", before=lambda requests: all_there.wait(SECONDS), is_concurrent=True)
    reports = Reports()
    traces = answered(root, tmp_path / "run", backbone, 4, reports)
    assert [trace.error for trace in traces] == [None] * 12
    # All that may be to blame for a crash were named while the four calls ran, and none at the end.
    assert max(map(len, reports.seen)) == 12
    assert reports.seen[-1] == []


def test_no_more_videos_are_in_flight_than_asked_for(tmp_path: Path) -> None:
    make_benchmark(tmp_path / "b", videos=6, questions=1)
    backbone = ColourBackbone("m", before=lambda requests: time.sleep(0.05), is_concurrent=True)
    assert len(answered(tmp_path / "b", tmp_path / "run", backbone, 2)) == 6
    assert backbone.most_at_once <= 2


def test_a_local_model_answers_about_several_videos_in_one_batch(tmp_path: Path) -> None:
    make_benchmark(tmp_path / "b", videos=4, questions=1)
    opened, first = threading.Semaphore(0), [True]

    def meet(requests: Sequence[ChoiceRequest]) -> None:
        # The first call is served when the other videos are decoded, and wait.
        if first.pop() if first else False:
            for _ in range(4):
                assert opened.acquire(timeout=SECONDS)
            time.sleep(0.3)

    backbone = ColourBackbone("m", before=meet)
    size = backbone.frame_size
    backbone.frame_size = lambda *frames: opened.release() or size(*frames)  # type: ignore[method-assign]
    traces = answered(tmp_path / "b", tmp_path / "run", backbone, 4)
    assert backbone.most_at_once == 1
    assert sum(backbone.batches) == 4
    assert max(backbone.batches) > 1
    assert {trace.question_id: trace.error for trace in traces} == {f"v{n}q0": None for n in range(4)}


def test_the_seconds_of_questions_in_flight_add_up_to_the_workers_own(tmp_path: Path) -> None:
    make_benchmark(tmp_path / "b", videos=4, questions=1)
    all_there = threading.Barrier(4)

    def meet(requests: Sequence[ChoiceRequest]) -> None:
        all_there.wait(SECONDS)
        time.sleep(0.5)

    began, backbone = time.perf_counter(), ColourBackbone("m", before=meet, is_concurrent=True)
    traces = answered(tmp_path / "b", tmp_path / "run", backbone, 4)
    wall = time.perf_counter() - began
    # Each took at least half a second of it, together with the others.
    assert 0.4 < sum(trace.cost.seconds for trace in traces) <= 1.1 * wall
    assert all(trace.cost.stages["backbone"] <= trace.cost.seconds for trace in traces)


def test_a_backbone_that_is_gone_ends_the_worker_while_other_calls_hang(root: Path, tmp_path: Path) -> None:
    never, hangs = threading.Event(), threading.Event()

    def meet(requests: Sequence[ChoiceRequest]) -> None:
        if hangs.is_set():
            # Every other request fails too either.
            raise BackboneError("gone")
        hangs.set()
        never.wait(SECONDS)

    began = time.monotonic()
    with pytest.raises(BackboneError, match="gone\nEvery other request fails too"):
        answered(root, tmp_path / "run", ColourBackbone("m", before=meet, is_concurrent=True), 2)
    assert time.monotonic() - began < SECONDS / 2
    never.set()
    # What the other call answers is not written to a log that is closed.
    assert (tmp_path / "run" / "traces.jsonl").read_bytes() == b""


def test_a_crash_blames_all_and_finds_the_one(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With more questions in flight than a unit has, its unit is found first."""
    make_benchmark(tmp_path / "b", videos=4, questions=6)
    rewrite(tmp_path / "b", "v2q1", "What is it? (kill)")
    # All units are answered at a time, for six delays; one dies after the first.
    backbone = ("--backbone", "is_concurrent=true", "delay=0.2")
    words = flags(tmp_path / "b", tmp_path / "run", "--in-flight", "4", *backbone)
    assert main(words, load=load_fake) == 0
    traces = {trace.question_id: trace for trace in check_complete(tmp_path / "run", 24)}
    died = {key: trace.error for key, trace in traces.items() if trace.error is not None}
    assert [(key, error.type) for key, error in died.items()] == [("v2q1", "WorkerDied")]
    assert "SIGKILL" in died["v2q1"].message
    deaths = (tmp_path / "run" / "work" / "deaths.jsonl").read_text().splitlines()
    blamed = [json.loads(line)["ids"] for line in deaths]
    assert all("v2q1" in ids for ids in blamed)
    assert len(blamed[0]) > 6
    assert [len(ids) for ids in blamed[-2:]] == [1, 1]
    assert len(blamed) <= 4
    assert capfd.readouterr().err.count("starting another") == len(blamed)


def test_the_default_depends_on_who_answers() -> None:
    server = ColourBackbone("m", before=lambda requests: None, is_concurrent=True)
    assert units_in_flight(None, server) > units_in_flight(None, ColourBackbone("m")) > 1
