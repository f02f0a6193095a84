"""Measures how fast cancelled work stops: from `cancel` to the moment when no thread and no program of it is
left, and a server has seen its connection close.

    python -m perf.cancelling [--trials 20] [--ways NAMES] [--output FILE]

Each trial is another question, cancelled after a random part of the time that such a question takes, wherever
it is then. The ways: pocket questions by several methods with the pocket model in this process; an index of a
pocket video that is built anew; a question to a server that takes requests and never replies. After the end,
the processor time of this process is taken for half a second: work that goes on unseen would show there.
Writes perf/cancelling.json.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from perf import ROOT
from perf.command import run_command
from perf.recorded import print_tables
from perf.recording import recorded_rows, write_record
from tests.support.silent_server import SilentServer
from videopro import benchmarks, executor
from videopro.backbones import Backbone
from videopro.backbones.wrappers import Meter, share_backbone
from videopro.benchmarks import ROBUST, Item, Protocol
from videopro.cli import setting
from videopro.errors import Cancellation, Cancelled, ConfigError, cancellable
from videopro.methods import (
    EventObserver,
    MethodContext,
    PreparedRun,
    Questions,
    RunRequest,
    answer_each,
    prepare,
)
from videopro.modules.library import shared_cache
from videopro.modules.models.encoders import load_encoder
from videopro.modules.search import build_index
from videopro.video import Video, shared_store

_PROTOCOL = Protocol(parser=ROBUST)
_TEAM = {"agents": ["pocket", "pocket+pocket-sft"]}
_LONGEST = 60.0
_QUIET = 0.5


@dataclass(frozen=True)
class CancellingSettings:
    """Measure how fast cancelled work stops."""

    trials: int = field(default=20, metadata=setting("trials of each way"))
    ways: tuple[str, ...] = field(
        default=(), metadata=setting("names of ways, beside which those of the file stay; unset: all")
    )
    seed: int = field(default=0, metadata=setting("draws the moments"))
    output: Path = field(default=ROOT / "perf" / "cancelling.json", metadata=setting("file for the results"))


Work = Callable[[Callable[[dict[str, Any]], None]], object]
"""Does the work; tells what happens."""


@dataclass(frozen=True)
class Trial:
    """One cancelled piece of work."""

    after: float
    """Seconds of work before it was cancelled."""
    during: str
    """The last event before that."""
    seconds: float
    """From `cancel` to the end of all of it."""
    processor: float
    """Processor seconds of this process in the half second after the end."""


def measure(work: Work, after: float, ended: Callable[[], bool] = lambda: True) -> Trial | None:
    """Cancel the work `after` so many seconds; None if it was done before. `ended`: whether what is outside
    of this process has ended too."""
    cancellation, last, errors = Cancellation(), ["start"], list[BaseException]()

    def run() -> None:
        try:
            with cancellable(cancellation):
                work(lambda event: last.__setitem__(0, str(event["type"])))
        except BaseException as error:
            errors.append(error)

    others = set(threading.enumerate())
    thread = threading.Thread(target=run)
    thread.start()
    thread.join(after)
    if not thread.is_alive():
        if errors:
            raise errors[0]
        return None
    during, began = last[0], time.perf_counter()
    cancellation.cancel()
    while thread.is_alive() or _threads_of(others) or _programs() or not ended():
        if time.perf_counter() - began > _LONGEST:
            raise ConfigError(f"cancelled during {during!r}, it goes on after {_LONGEST:g} s")
        time.sleep(0.001)
    seconds = time.perf_counter() - began
    # It may have come to its end between the last look and `cancel`.
    if not errors:
        return None
    if not isinstance(errors[0], Cancelled):
        raise errors[0]
    before = time.process_time()
    time.sleep(_QUIET)
    return Trial(after, during, seconds, time.process_time() - before)


def _threads_of(others: set[threading.Thread]) -> list[threading.Thread]:
    """Threads that began meanwhile and are not kept for later work: the loop of a client, and its helpers."""
    kept = ("videopro-server-backbone", "asyncio_", "fsync")
    return [one for one in threading.enumerate() if one not in others and not one.name.startswith(kept)]


def _programs() -> int:
    """Programs that run; one child of the process that starts them waits for the next."""
    if executor._shared is None or (process := executor._shared[1]._zygote) is None:
        return 0
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    except OSError:
        return 0
    return max(0, len(children) - 1)


# ---- what is cancelled -------------------------------------------------------------------------------------


def _asking(prepared: PreparedRun, backbone: Backbone, item: Item) -> Work:
    def work(tell: Callable[[dict[str, Any]], None]) -> object:
        video = Video.open(item.video)
        observer = EventObserver(tell)

        def new_context() -> MethodContext:
            return MethodContext(
                video, backbone, _PROTOCOL, meter=Meter(), observer=observer, doing=observer.on_wait
            )

        return list(answer_each(prepared.method, [item], new_context))

    return work


def _prepared(method: str, model: str, options: Mapping[str, Any]) -> PreparedRun:
    questions = Questions(_PROTOCOL, open=0, videos=[], remedy="")
    return prepare(RunRequest(method, options, model, {}, lambda: questions))


@contextmanager
def _loaded(prepared: PreparedRun) -> Iterator[Backbone]:
    backbone = prepared.load()
    try:
        yield share_backbone(backbone)
    finally:
        backbone.close()


def _by_method(
    method: str, options: Mapping[str, Any], items: list[Item], draw: random.Random
) -> Iterator[Trial]:
    prepared = _prepared(method, "pocket", options)
    with _loaded(prepared) as backbone:
        # Its models are loaded and its videos indexed by then, as in a server that has been running.
        took = _timed(_asking(prepared, backbone, items[0]))
        for item in items[1:] * 4:
            _forget()
            trial = measure(_asking(prepared, backbone, item), draw.uniform(0.05, 0.9) * took)
            if trial is not None:
                yield trial


def _indexing(items: list[Item], draw: random.Random) -> Iterator[Trial]:
    encoder = load_encoder("pocket")
    video = Video.open(max((item.video for item in items), key=lambda path: path.stat().st_size))

    def building(root: Path) -> Work:
        return lambda tell: build_index(video, encoder, root=root)

    with tempfile.TemporaryDirectory() as folder:
        took = _timed(building(Path(folder) / "whole"))
        for number in range(len(items)):
            root = Path(folder) / str(number)
            trial = measure(building(root), draw.uniform(0.05, 0.9) * took)
            shutil.rmtree(root, ignore_errors=True)
            if trial is not None:
                yield trial


def _served(items: list[Item], draw: random.Random) -> Iterator[Trial]:
    os.environ["NO_PROXY"] = "127.0.0.1"
    for item in items:
        with SilentServer() as server:
            prepared = _prepared("native", f"server:served@{server.url}", {})
            with _loaded(prepared) as backbone:
                trial = measure(
                    _asking(prepared, backbone, item),
                    draw.uniform(1.0, 2.0),
                    lambda: server.hung_up.is_set() or not server.asked.is_set(),
                )
                if trial is not None and server.asked.is_set():
                    yield trial


def _timed(work: Work) -> float:
    began = time.perf_counter()
    work(lambda event: None)
    return time.perf_counter() - began


def _forget() -> None:
    """Forget what earlier questions computed, so that each has all of its work before it."""
    shared_cache().clear()
    shared_store().clear()


WAYS: Mapping[str, Callable[[list[Item], random.Random], Iterator[Trial]]] = {
    "native": lambda items, draw: _by_method("native", {"frames": 64}, items, draw),
    "videopro": lambda items, draw: _by_method("videopro", {}, items, draw),
    "videoagent": lambda items, draw: _by_method("videoagent", {}, items, draw),
    "dvd": lambda items, draw: _by_method("dvd", {}, items, draw),
    "vca": lambda items, draw: _by_method("vca", {}, items, draw),
    "lvagent": lambda items, draw: _by_method("lvagent", _TEAM, items, draw),
    "index": _indexing,
    "a server that never replies": _served,
}


def run(settings: CancellingSettings) -> int:
    """Measure, print the table and write it."""
    unknown = [name for name in settings.ways if name not in WAYS]
    if unknown:
        raise ConfigError(f"--ways {unknown[0]}: is none of {', '.join(WAYS)}")
    pocket = benchmarks.load("pocket", split="test")
    # More than are needed: some are done before they are cancelled.
    items = random.Random(settings.seed).sample(
        [item for item in pocket.items if item.video.name.startswith("long")], settings.trials + 1
    )
    assert pocket.fetch is not None
    pocket.fetch(items)
    kept = recorded_rows(settings.output, "ways", {"seed": settings.seed}) if settings.ways else {}
    rows: dict[str, Any] = {}
    for name in settings.ways or WAYS:
        draw = random.Random(f"{settings.seed} {name}")
        load = os.getloadavg()[0]
        trials: list[Trial] = []
        for trial in WAYS[name](items, draw):
            trials.append(trial)
            if len(trials) == settings.trials:
                break
        rows[name] = _row(trials, load)
        print(f"{name}: {rows[name]['within_1_s']} of {len(trials)} within 1 s", file=sys.stderr)
    rows = {name: row for name in WAYS if (row := rows.get(name, kept.get(name))) is not None}
    record = {"seed": settings.seed, "ways": rows}
    write_record(settings.output, record)
    print_tables("perf/cancelling.json", record)
    return 0


def _row(trials: list[Trial], load: float) -> dict[str, Any]:
    times = [trial.seconds for trial in trials]
    return {
        "trials": len(trials),
        "load_before": round(load, 1),
        "within_1_s": sum(seconds < 1 for seconds in times),
        "median_s": round(statistics.median(times), 3),
        "longest_s": round(max(times), 3),
        "processor_after_s": round(max(trial.processor for trial in trials), 3),
        "each": [asdict(trial) for trial in trials],
    }


if __name__ == "__main__":
    run_command(CancellingSettings, run)
