"""Measures how busy a run keeps a live engine.

    nice python -m perf.flow URL --model NAME [--only native-1 native-10 videopro] [--in-flight 64] \\
        [--benchmark pocket --planner pocket-teacher] [--frames 16 --pixels 15360] [--output FILE]

The questions are about made-up videos: native with one and with ten a video, videopro with two; `--benchmark
pocket` takes the test questions of the pocket world. Each leg is answered with one video at a time, and with
--in-flight videos, by a worker in a process of its own (`videopro.runs.making.run_worker`). Before, the leg
is answered once, which decodes every frame that it will need: results of modules and JPEGs are forgotten,
decoded frames are kept. `decode_s_a_video` is the time of decoding the frames of a video alone. An engine
remembers prompts and pictures: each leg has it forget them where it offers that (VLLM_SERVER_DEV_MODE=1), and
else they are cheaper the second time. Its load is what vLLM's /metrics say, ten times a second.

`mean_requests` is the mean number of requests in the engine, from the first request to the last reply; they
may wait in it. `engine_cpu_s_a_question` is the processor time of an engine on this machine, with its HTTP
server, `client_cpu_s_a_question` that of the worker and its sandbox; `load` is the machine's load average at
the start, as a client that gets no processor keeps no engine busy. Adds a row for each leg to
perf/flow_live.json, and prints the table.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from perf import ROOT
from perf.battery.shapes import VideoShape
from perf.battery.world import make_video, question, write_lines
from perf.child import call_in_child
from perf.command import run_command
from perf.decoders import versions
from perf.flow_load import EngineLoad
from perf.recorded import print_tables
from perf.recording import recorded_rows, write_record
from perf.timing import timed
from videopro import benchmarks, methods
from videopro.backbones import load_backbone
from videopro.backbones.server import messages
from videopro.cli import setting
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
    """Measure how busy a run keeps an engine."""

    server: str = field(metadata=setting("URL of the engine, without /v1", positional=True))
    model: str = field(metadata=setting("the engine's name of its model"))
    only: tuple[str, ...] = field(default=tuple(LEGS), metadata=setting("legs to measure"))
    in_flight: int = field(default=64, metadata=setting("videos in flight, beside one at a time"))
    videos: int = field(default=192, metadata=setting("made-up videos"))
    alone: int = field(default=24, metadata=setting("videos that are answered one at a time"))
    benchmark: str = field(
        default="", metadata=setting("pocket, for its questions; unset: about the made-up videos")
    )
    planner: str = field(default="self", metadata=setting("who writes the programs of videopro"))
    frames: int = field(default=64, metadata=setting("frames a call"))
    pixels: int = field(default=50_176, metadata=setting("pixels of a frame"))
    store: int = field(default=2048, metadata=setting("MiB of decoded frames that are kept"))
    output: Path = field(default=ROOT / "perf" / "flow_live.json", metadata=setting("file for the results"))


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
    )
    method = methods.create(method_name, options)
    load = EngineLoad(url)
    decode = [_decode(Path(path), backbone, flags["frames"]) for path in sorted({i.video for i in items})]

    def answer(name: str) -> list[Trace]:
        run = RunFolder(Path(scratch) / name)
        key = run.open({}, {"method": method.identity(), "model": name})
        job = WorkerJob(run, key, tuple(units(items)), benchmark.protocol, 0, in_flight=in_flight)
        run_worker(job, method, backbone, _Silent())
        return read_traces(run.traces)

    with tempfile.TemporaryDirectory() as scratch:
        # Decodes what programs look at, and starts the sandbox.
        answer("warm")
        shared_cache().clear()
        messages._encoded.clear()
        load.start()
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


def make_questions(folder: Path, videos: int, each: int) -> None:
    """A folder of videos and `each` questions about each, for `--benchmark jsonl`."""
    rows = []
    for number in range(videos):
        make_video(folder / f"{number}.mp4", VideoShape(40, 4, 240, 320), number)
        for index in range(each):
            drawn = question(each * number + index)
            row = {"id": f"{number}-{index}", "video": f"{number}.mp4", "question": drawn.text, "answer": "A"}
            rows.append({**row, "choices": list(drawn.choices), "subtitles": None})
    write_lines(folder / "questions.jsonl", rows)


def _decode(path: Path, backbone: Any, frames: int) -> float:
    began = time.perf_counter()
    video = Video.open(path)
    size = backbone.frame_size(video.height, video.width, frames)
    video.frames(uniform_times(0.0, video.duration, frames), size=size)
    return time.perf_counter() - began


def measure(request: FlowSettings) -> None:
    """Measure the legs, and record each as it ends."""
    settings = {
        name: value for name, value in asdict(request).items() if name not in ("only", "output", "in_flight")
    }
    same = {"engine": request.server, "frames": request.frames, "pixels": request.pixels}
    rows = recorded_rows(request.output, "results", same)
    for leg in request.only:
        for in_flight in (1, request.in_flight):
            with tempfile.TemporaryDirectory() as folder:
                count = request.videos if in_flight > 1 else request.alone
                if not request.benchmark:
                    make_questions(Path(folder), count, LEGS[leg][1])
                run = {**settings, "videos": count}
                load = round(os.getloadavg()[0], 1)
                row = call_in_child("perf.flow:answer_leg", leg, folder, request.server, in_flight, run)
            rows[f"{leg}, {in_flight} in flight"] = {**row, "load": load}
            record = {**same, "results": rows, "versions": versions()}
            write_record(request.output, record, indent=2)
    print_tables("perf/flow_live.json", record)


if __name__ == "__main__":
    run_command(FlowSettings, measure, "stopped; the legs that ended are recorded")
