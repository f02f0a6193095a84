"""How a run grows from 1 to 64 nodes with `--engine ray`, by simulation: 10,000 videos of an hour.

    python perf/scale.py --measure            # first measures the driver and decoding here (two minutes)
    python perf/scale.py                      # simulates with what was measured last

The simulation is perf/scale_model.py, whose docstring has its assumptions. The driver's times are measured
with real Ray on this machine (perf/scale_driver.py), decoding too. The GPU's times for an index and for
direct answers are those that an H100 took (perf/gpu.json); that for programs is an estimate, because no vLLM
has run on a GPU. Each cost is written with its source. Writes perf/scale.json and a figure beside it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf import ROOT
from perf.decoders import make_ten_minutes, versions
from perf.recording import write_record
from perf.scale_model import Machine, Outcome, Stage, simulate
from perf.timing import timed
from videopro.cli import exit_status
from videopro.command_line import CommandLine
from videopro.errors import ConfigError
from videopro.modules.search import clip_bounds
from videopro.settings import setting
from videopro.video import FrameStore, Video

_GB = 1e9
QUESTIONS = 10
"""Of a video."""
CLIPS = 360
"""Of an hour: 10 seconds each."""
CPUS = (1, 2, 4, 8)
"""Beside a GPU, on one node."""
NODES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class ScaleSettings:
    """What is simulated."""

    videos: int = field(default=10_000, metadata=setting("videos of an hour"))
    gpus: int = field(default=8, metadata=setting("GPUs of a node, each with a worker"))
    cpus: int = field(default=12, metadata=setting("CPUs beside each GPU"))
    disk: float = field(default=10.0, metadata=setting("bandwidth of the shared disk in GB/s"))
    measure: bool = field(default=False, metadata=setting("measure the driver and decoding here first"))
    output: Path = field(default=ROOT / "perf" / "scale.json", metadata=setting("file for the results"))


COMMAND = CommandLine(
    "perf.scale", ScaleSettings, summary="Simulate runs over 10,000 videos of an hour on 1 to 64 nodes."
)

SOURCES = {
    "decode_index_cpu_s": "measured here: --measure, 8 frames of each 10-s clip at 224 pixels, 640x360 H.264",
    "embed_gpu_s": "perf/gpu.json: LanguageBind in fp32 on an H100, batches of 16, 360 clips",
    "decode_64_cpu_s": "perf/decode.json: 64 exact frames of a 60-minute file",
    "native_gpu_s": "perf/gpu.json: Qwen3-VL-8B on an H100 by transformers, per video and per question",
    "programs_gpu_s": "estimate: Qwen3-VL-8B behind vLLM on an H100, 64 in flight: 1.5 to 2 questions/s",
    "own_cpu_s": "perf/question.json: our own share of a question, on pocket",
    "ocr_cpu_s": "perf/question.json: reading a frame, for the frames that pocket's programs read a question",
    "driver": "measured here: --measure, real Ray and a log with fsync on this disk",
    "weights_gb": "size of Qwen3-VL-8B in bf16; LanguageBind: 2 GB",
    "start_s": "assumption: a worker's start after its weights were read",
    "video_gb": "assumption: an hour of H.264 at 1.1 Mbit/s; 64 frames read 64 of 360 groups of pictures",
    "spread": "assumption: the costs of videos vary with a standard deviation of half (log-normal)",
}


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    with exit_status() as status:
        run(COMMAND.parse(argv))
    return status.code


def run(settings: ScaleSettings) -> dict[str, Any]:
    """Measure if asked to, simulate, write the results, and print a table."""
    measured = _measured() if settings.measure else _recorded(settings.output)
    record: dict[str, Any] = {
        "settings": {name: getattr(settings, name) for name in ("videos", "gpus", "cpus", "disk")},
        "questions": QUESTIONS,
        "measured": measured,
        "sources": SOURCES,
        "stages": {name: asdict(stage) for name, stage in stages(measured).items()},
        "results": {},
    }
    for name, stage in stages(measured).items():
        machine = machine_of(settings, measured, name)
        record["results"][name] = {
            str(nodes): _row(simulate(nodes, settings.videos, machine, stage), settings.videos)
            for nodes in NODES
        }
        one = record["results"][name]["1"]["hours"]
        for nodes in NODES:
            row = record["results"][name][str(nodes)]
            row["efficiency"] = round(one / nodes / row["hours"], 3)
            print(f"{name:12} {nodes:3} nodes  {row}")
    record["by_cpus"] = {
        name: {
            str(cpus): _row(
                simulate(
                    1,
                    settings.videos,
                    replace(machine_of(settings, measured, name), cpus_per_gpu=cpus),
                    stage,
                ),
                settings.videos,
            )
            for cpus in CPUS
        }
        for name, stage in stages(measured).items()
    }
    write_record(settings.output, record)
    draw(record, settings.output.with_suffix(".svg"))
    return record


def stages(measured: dict[str, Any]) -> dict[str, Stage]:
    """What a video of an hour costs in each kind of work."""
    decode = json.loads((ROOT / "perf" / "decode.json").read_text())
    decode_64 = decode["results"]["60 min"]["videopro"]["best_s"]
    question = json.loads((ROOT / "perf" / "question.json").read_text())
    gpu = json.loads((ROOT / "perf" / "gpu.json").read_text())["parts"]
    clips_per_s = gpu["g"]["cases"]["float32, batch 16"]["figures"]["encode_clips_per_s"]
    native = gpu["f"]["cases"]["native, 1 worker"]["figures"]
    of_video = native["stages_s"]["encode"] / native["videos"]
    of_question = native["stages_s"]["backbone"] / native["questions"]
    own = 1e-3 * question["results"]["now"]["own_cpu_ms"]
    ocr = 1e-3 * question["results"]["now"]["ocr_cpu_ms"] * question["reads"] / question["questions"]
    shared = {"spread": 0.5}
    return {
        "index": Stage(
            parts=12,
            video_cpu_s=0.0,
            part_cpu_s=measured["decode_index_cpu_s"] / 12,
            part_gpu_s=CLIPS / clips_per_s / 12,
            bytes_read=0.5 * _GB,
            results=1,
            in_order=True,
            in_flight=2,
            **shared,
        ),
        "native": Stage(
            parts=QUESTIONS,
            video_cpu_s=decode_64,
            part_cpu_s=own,
            part_gpu_s=of_video / QUESTIONS + of_question,
            bytes_read=0.5 * _GB * 64 / 360,
            results=QUESTIONS,
            in_order=False,
            in_flight=4,
            **shared,
        ),
        "programs": Stage(
            parts=QUESTIONS,
            video_cpu_s=decode_64,
            part_cpu_s=decode_64 + ocr + own,
            part_gpu_s=1 / 1.75,
            bytes_read=0.5 * _GB,
            results=QUESTIONS,
            in_order=False,
            in_flight=8,
            **shared,
        ),
    }


def machine_of(settings: ScaleSettings, measured: dict[str, Any], name: str) -> Machine:
    """The cluster for a kind of work."""
    driver = measured["driver"]
    return Machine(
        gpus=settings.gpus,
        cpus_per_gpu=settings.cpus,
        disk_bandwidth=settings.disk * _GB,
        weights=(2.0 if name == "index" else 17.5) * _GB,
        start_s=60.0,
        give_s=1e-3 * driver["give_cpu_ms"],
        receive_s=1e-3 * (driver["trace_cpu_ms"] + _fsync_ms(driver) / 16),
    )


def _fsync_ms(driver: dict[str, Any]) -> float:
    """What an append costs however many traces it has: most of it is the fsync. The traces' own part is in
    their CPU time already."""
    append = driver["append_ms"]
    return max(0.0, float(append["one"] - append["of 16"]) * 16 / 15)


def _row(outcome: Outcome, videos: int) -> dict[str, Any]:
    return {
        "hours": round(outcome.seconds / 3600, 3),
        "videos_per_hour": round(videos / outcome.seconds * 3600),
        "start_s": round(outcome.start_s),
        "tail_s": round(outcome.tail_s),
        "gpu": round(outcome.gpu_share, 3),
        "cpus": round(outcome.cpu_share, 3),
        "disk": round(outcome.disk_share, 3),
        "driver": round(outcome.driver_share, 3),
        "limit": outcome.limit,
    }


def _recorded(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text())["measured"])
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(f"{path}: has no measured times ({error!r}); add --measure") from error


def _measured() -> dict[str, Any]:
    # Imported here, as the simulation needs no Ray.
    from perf.scale_driver import measure

    return {
        "decode_index_cpu_s": round(_decoding_cpu_s(), 1),
        "driver": measure(),
        "versions": versions(),
        "load_average": round(os.getloadavg()[0], 1),
    }


def _decoding_cpu_s() -> float:
    """CPU seconds to decode what an index of an hour needs, from a file of ten minutes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ten.mp4"
        make_ten_minutes(path)
        video = Video.open(path, store=FrameStore())
        times = [
            start + (end - start) * (n + 0.5) / 8
            for start, end in clip_bounds(video.duration)
            for n in range(8)
        ]
        with timed() as spent:
            for _ in video.stream(iter(times), size=(224, 398)):
                pass
    return 6 * spent.cpu_s


def draw(record: dict[str, Any], path: Path) -> None:
    """Videos an hour by the number of nodes, beside growth in proportion."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, rows) in enumerate(record["results"].items()):
        found = [rows[str(nodes)]["videos_per_hour"] for nodes in NODES]
        axes.loglog(NODES, found, marker="o", color=f"C{number}", label=name, base=2)
        axes.loglog(NODES, [found[0] * nodes for nodes in NODES], linestyle=":", color=f"C{number}", base=2)
    axes.set_xticks(NODES, [str(nodes) for nodes in NODES])
    axes.set_xlabel(f"nodes of {record['settings']['gpus']} GPUs")
    axes.set_ylabel("videos of an hour, per hour")
    axes.legend(title="dotted: in proportion")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    sys.exit(main())
