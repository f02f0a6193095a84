"""Estimates of what a stage takes: questions, GPU-hours, dollars.

Rates were measured with random weights of Qwen3-VL-8B on one H100 (perf/gpu.json, perf/gpu_steps.json), or
are the paper's own runtimes (Table 2, on a machine that it does not name). Nothing is estimated for a machine
without a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from videopro.commands.doctor import size
from videopro.commands.reproduce.hub import bytes_of, models
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.stages import Stage

MEASURED = "measured on one H100, random weights of Qwen3-VL-8B"
PAPER = "the larger runtime in the paper's Table 2, which does not name the machine"

INDEXED_CLIPS = 58.0
"""Clips of 10 s that LanguageBind indexes a second, in bf16 (perf/gpu.json, part g)."""
SFT_ROWS = 2.4
"""Rows that SFT trains on a second and GPU (part a)."""
GRPO_STEP = 20.2
"""Seconds of a GRPO step of 64 replies of 512 tokens on one GPU (perf/gpu_steps.json, part d)."""
GRPO_REPLIES = 64
RUNTIMES = {"native": 2.3, "program": 8.2, "adaptive": 5.9, "videopro": 7.8}
"""Seconds a question: the larger of the two that Table 2 has for each way."""
PAPER_ROWS = {"sft": 5_000, "grpo": 10_000}
"""Section 4: trajectories for SFT, prompts for GRPO."""


@dataclass(frozen=True)
class Estimate:
    """What a stage takes. None: not estimated."""

    works_on: str = ""
    """Such as "1,549 questions"."""
    gpu_hours: float | None = None
    dollars: float | None = None
    basis: str = ""
    """The source of the rate."""


def estimates(road: Road, stages: Sequence[Stage], rows: Mapping[str, int]) -> dict[str, Estimate]:
    """The estimate for each stage, by its name. `rows`: the expected rows of a synthesis for "sft" and
    "grpo", if known."""
    return {stage.name: _estimate(road, stage, rows) for stage in stages}


def _estimate(road: Road, stage: Stage, rows: Mapping[str, int]) -> Estimate:
    counted = [road.sizes[part.folder] for part in road.benchmarks()]
    hours = sum(each.hours for each in counted if each is not None)
    on_gpu = road.gpus > 0
    if stage.kind == "download":
        _, _, folder = stage.name.partition("-")
        asked = {part.folder: part.repositories for part in road.benchmarks()}.get(folder, models(road))
        return Estimate(size(bytes_of(asked)))
    if stage.kind == "transcribe":
        return Estimate(f"at most {hours:,.0f} h of video")
    if stage.kind == "index":
        gpu_hours = hours * 360 / INDEXED_CLIPS / 3600 if on_gpu else None
        return Estimate(f"{hours:,.0f} h of video", gpu_hours, basis=MEASURED)
    if stage.kind in ("sft", "grpo"):
        return _training(road, stage, rows.get(stage.kind), on_gpu)
    if stage.kind == "infer":
        return _answering(road, stage, on_gpu)
    return Estimate()


def _training(road: Road, stage: Stage, expected: int | None, on_gpu: bool) -> Estimate:
    data_file = road.config.sft_data if stage.kind == "sft" else road.config.grpo_data
    settings = stage.commands[0].settings or {}
    rows: int | None
    if data_file and Path(data_file).is_file():
        with Path(data_file).open("rb") as file:
            rows = sum(bool(line.strip()) for line in file)
        works_on = f"{rows:,} rows"
    elif not data_file and (writer := road.planner_writes(stage.kind)):
        # How much a planner gets right, or wrong, is not known before it is asked.
        rows, works_on = None, f"what {writer} leaves"
    elif not data_file and expected is not None:
        rows, works_on = expected, f"{expected:,} rows expected"
    else:
        rows = PAPER_ROWS[stage.kind]
        works_on = f"{rows:,} rows (as in the paper)"
    if (steps := int(settings.get("max_steps", -1))) > 0:
        works_on = f"{steps:,} steps" + (f" over {works_on}" if data_file or expected is not None else "")
        seen = float(steps * road.processes)
        seen *= int(settings.get("per_device_train_batch_size", 8))
        seen *= int(settings.get("gradient_accumulation_steps", 1))
    elif rows is None:
        return Estimate(works_on)
    else:
        replies = int(settings.get("num_generations", 8)) if stage.kind == "grpo" else 1
        seen = rows * replies * float(settings.get("num_train_epochs", 1))
    seconds = seen / SFT_ROWS if stage.kind == "sft" else seen / GRPO_REPLIES * GRPO_STEP
    return Estimate(works_on, seconds / 3600 if on_gpu else None, basis=MEASURED)


def _answering(road: Road, stage: Stage, on_gpu: bool) -> Estimate:
    questions, unknown, method = 0, [], "native"
    for command in stage.commands:
        settings = command.settings or {}
        method = str(settings["method"])
        folder = Path(str(settings["output"])).name
        counted, limit = road.sizes.get(folder), road.config.limit
        if counted is None:
            unknown.append(folder)
            continue
        limited = counted.questions if limit is None else limit * counted.questions if limit < 1 else limit
        questions += int(min(counted.questions, limited))
    works_on = f"{questions:,} questions" + (f", plus {', '.join(unknown)}" if unknown else "")
    seconds = questions * RUNTIMES[method]
    return Estimate(works_on, seconds / 3600 if on_gpu else None, basis=PAPER)
