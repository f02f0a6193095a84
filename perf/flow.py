"""Measures how busy a run keeps an engine: one of known speed, or a live one.

    nice python -m perf.flow [--only native-1 native-10 videopro] [--in-flight 64] [--output FILE]
    nice python -m perf.flow --server URL --model NAME [--benchmark pocket --planner pocket-teacher] \\
        [--frames 16 --pixels 15360] --output FILE

**Without --server**, the engine is perf/flow_engine.py, an 8B on one H100 by a model of its time, behind HTTP
(perf/flow_server.py). The questions are about made-up videos, with 64 frames of 50,176 pixels: native with
one and with ten a video, videopro with two, whose programs are written by the engine too. Each leg is
answered with one video at a time, and with --in-flight videos, by a worker in a process of its own
(`videopro.runs.making.run_worker`). Before, the leg is run against the same engine without any latency, which
decodes every frame that it will need: results of modules are forgotten, decoded frames are kept.
`decode_s_a_video` is the time of decoding the 64 frames of a video alone.

**With --server** (an address without /v1), the same legs are run against that engine, by default over the
same videos; `--benchmark pocket` takes the test questions of the pocket world. A live engine remembers
prompts and pictures: each leg has it forget them where it offers that (VLLM_SERVER_DEV_MODE=1), and else they
are cheaper the second time. Its load is what vLLM's /metrics say, ten times a second.

`mean_requests` is the mean number of requests in the engine, from the first request to the last reply; they
may wait in it. Of the engine of known speed, `busy_pct` is the share of time with a request in it, and
`engine_s_a_question` that time by question; of a live one on this machine, `engine_cpu_s_a_question` is its
processor time, with its HTTP server. `client_cpu_s_a_question` is that of the worker and its sandbox; `load`
is the machine's load average at the start, as a client that gets no processor keeps no engine busy. Prints a
row for each leg, and adds it to perf/flow.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from perf import ROOT
from perf.child import call_in_child, child_command
from perf.command import run_command
from perf.decoders import versions
from perf.flow_load import EngineLoad
from perf.flow_server import MODEL
from perf.flow_world import make_questions
from perf.recording import recorded_rows, write_record
from perf.timing import timed
from videopro import benchmarks, methods
from videopro.backbones import load_backbone
from videopro.cli import CommandLine, setting
from videopro.engine import units
from videopro.modules.library import shared_cache
from videopro.runs import RunFolder
from videopro.runs.making import WorkerJob, run_worker
from videopro.traces import Trace, read_traces
from videopro.video import Video, shared_store, uniform_times

MIB = 2**20
LEGS = {"native-1": ("native", 1), "native-10": ("native", 10), "videopro": ("videopro", 2)}
"""The method of each leg, and its questions a video."""
_FEW_MODELS = {
    "encoder": "none",
    "text_encoder": "none",
    "ocr": "none",
    "detector": "none",
    "tracker": "none",
}


@dataclass(frozen=True)
class FlowSettings:
    """Which legs, against which engine."""

    only: tuple[str, ...] = field(default=tuple(LEGS), metadata=setting("legs to measure"))
    in_flight: int = field(default=64, metadata=setting("videos in flight, beside one at a time"))
    videos: int = field(default=192, metadata=setting("made-up videos"))
    alone: int = field(default=24, metadata=setting("videos that are answered one at a time"))
    server: str = field(default="", metadata=setting("URL of a live engine; unset: one of known speed"))
    model: str = field(default=MODEL, metadata=setting("the live engine's name of its model"))
    benchmark: str = field(
        default="", metadata=setting("pocket, for its questions; unset: about the made-up videos")
    )
    planner: str = field(default="self", metadata=setting("who writes the programs of videopro"))
    frames: int = field(default=64, metadata=setting("frames a call"))
    pixels: int = field(default=50_176, metadata=setting("pixels of a frame"))
    store: int = field(default=2048, metadata=setting("MiB of decoded frames that are kept"))
    output: Path = field(default=ROOT / "perf" / "flow.json", metadata=setting("file for the results"))


COMMAND = CommandLine("perf.flow", FlowSettings, summary="Measure how busy a run keeps an engine.")


class _Silent:
    """Reports to nobody."""

    def answering(self, ids: Sequence[str]) -> None:
        pass

    def doing(self, counts: Mapping[str, int]) -> None:
        """Not looked at."""


def answer_leg(leg: str, folder: str, url: str, in_flight: int, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a leg's questions in this process, and say what it took. Called in a process of its own."""
    shared_store().resize(flags["store"] * MIB)
    method_name, _ = LEGS[leg]
    options = {} if method_name == "native" else {"planner": flags["planner"]}
    if options and not flags["benchmark"]:
        options = {**_FEW_MODELS, **options}
    if flags["benchmark"]:
        benchmark = benchmarks.load(flags["benchmark"], split="test")
        items = benchmark.select(limit=flags["videos"])
        assert benchmark.fetch is not None
        benchmark.fetch(items)
    else:
        benchmark = benchmarks.load("jsonl", root=Path(folder))
        items = benchmark.select()
    backbone = load_backbone(
        f"server:{flags['model']}@{url}/v1",
        frames=flags["frames"],
        pixels=flags["pixels"],
        **({} if flags["server"] else {"video": "video"}),
    )
    method = methods.create(method_name, options)
    load = EngineLoad(url, is_live=bool(flags["server"]))
    decode = [_decode(Path(path), backbone, flags["frames"]) for path in sorted({i.video for i in items})]

    def answer(name: str) -> list[Trace]:
        run = RunFolder(Path(scratch) / name)
        key = run.open({}, {"method": method.identity(), "model": name})
        job = WorkerJob(run, key, tuple(units(items)), benchmark.protocol, 0, in_flight=in_flight)
        run_worker(job, method, backbone, _Silent())
        return read_traces(run.traces)

    with tempfile.TemporaryDirectory() as scratch:
        # Decodes what programs look at, and starts the sandbox.
        load.start(speed=0.0)
        answer("warm")
        shared_cache().clear()
        load.start(speed=1.0)
        with timed() as spent:
            traces = answer("measured")
        stats = load.stop()
    backbone.close()
    count = len(traces)
    failed = [trace.error.message for trace in traces if trace.error is not None]
    if failed:
        raise RuntimeError(f"{len(failed)} of {count} questions failed: {failed[0]}")
    return {
        "questions": count,
        "videos": len(decode),
        "in_flight": in_flight,
        **stats.figures(count),
        "client_cpu_s_a_question": round(spent.cpu_s / count, 4),
        "decode_s_a_video": round(sum(decode) / len(decode), 3),
        "wall_s": round(spent.wall_s, 1),
    }


def _decode(path: Path, backbone: Any, frames: int) -> float:
    began = time.perf_counter()
    video = Video.open(path)
    size = backbone.frame_size(video.height, video.width, frames)
    video.frames(uniform_times(0.0, video.duration, frames), size=size)
    return time.perf_counter() - began


@contextmanager
def engine(pixels: int) -> Iterator[str]:
    """The engine of known speed in a process of its own; yields its address."""
    process = subprocess.Popen(
        child_command("perf.flow_server:serve", pixels), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait()


def measure(request: FlowSettings) -> None:
    """Measure the legs, and record each as it ends."""
    settings = {
        name: value for name, value in asdict(request).items() if name not in ("only", "output", "in_flight")
    }
    same = {"engine": request.server or "known speed", "frames": request.frames, "pixels": request.pixels}
    rows = recorded_rows(request.output, "results", same)
    for leg in request.only:
        for in_flight in (1, request.in_flight):
            with tempfile.TemporaryDirectory() as folder:
                count = request.videos if in_flight > 1 else request.alone
                if not request.benchmark:
                    make_questions(Path(folder), count, LEGS[leg][1])
                run = {**settings, "videos": count}
                load = round(os.getloadavg()[0], 1)
                if request.server:
                    row = call_in_child("perf.flow:answer_leg", leg, folder, request.server, in_flight, run)
                else:
                    with engine(request.pixels) as url:
                        row = call_in_child("perf.flow:answer_leg", leg, folder, url, in_flight, run)
            rows[f"{leg}, {in_flight} in flight"] = {**row, "load": load}
            print(leg, json.dumps(rows[f"{leg}, {in_flight} in flight"]), flush=True)
            record = {**same, "results": rows, "versions": versions()}
            write_record(request.output, record, indent=2)


if __name__ == "__main__":
    run_command(COMMAND, measure, "stopped; the legs that ended are recorded")
