"""Compares a GRPO step of train/grpo.py with the same step in plain TRL (frames as images, no reward
caching), and measures each of our optimizations alone.

    python -m perf.grpo --adapter SFT_RUN --data grpo.jsonl [--groups 16] [--steps 3] [--only NAME ...] \\
        [--output FILE]

The policy is the pocket model with an adapter from train/sft.py, so that it writes programs that run. The
rows are prompts of kind "plan", two per video. Every variant gets the same rows, frames and pixels, G
rollouts per prompt, and a process of its own; its first step is a warm-up and is not counted. All variants
run twice, in order and then in reverse, so that none is always first; the figures are means over both, and
`passes` has each with the load average before it. `rollouts_per_s` is measured over TRL's training steps,
without start-up and loading. Frames are decoded
before the first step in all variants (JPEG files for plain TRL, a frame cache for ours).

Times are taken around TRL's own methods (perf/grpo_timed.py). The ceiling is the speed-up if everything that
can be shared or overlapped took no time: waiting for rewards, and all but one pass over the prompt per group,
in sampling (measured) and in the update (by tokens: G (P + R) becomes P + G R). It leaves out the decoding
loop, in which our variant reads one copy of a prompt's keys and values for all replies of a group.

`cpu_s` is the CPU time of a rollout's training step, as the seconds beside it are its wall time; programs
that run in a sandbox are in it. `whole_cpu_s` is that of the whole process, as `wall_s` is its wall time.
Writes perf/grpo.json. `--only` replaces the rows of those variants and keeps the others, which must have been
recorded with the same settings, device and versions.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from perf import ROOT
from perf.command import run_command
from perf.recording import recorded_rows, write_record
from perf.timing import Spent, shown, timed
from videopro.cli import did_you_mean, setting
from videopro.errors import ConfigError
from videopro.video import Video

FRAMES, PIXELS = 16, 96 * 160
OFF = {"shared_prompt": "false", "kept_features_gb": "0", "run_ahead": "false"}
"""The features of the last video are kept even so."""
ON = {"shared_prompt": "true", "kept_features_gb": "1", "run_ahead": "true"}
# Each variant's script, and its settings besides the common ones.
WAYS: dict[str, tuple[str, dict[str, str]]] = {
    "plain": ("perf/grpo_plain.py", {"remember": "false"}),
    "plain + remembered rewards": ("perf/grpo_plain.py", {"remember": "true"}),
    "ours, switches off": ("train/grpo.py", OFF),
    **{f"ours + {name}": ("train/grpo.py", {**OFF, name: value}) for name, value in ON.items()},
    "ours": ("train/grpo.py", ON),
}


@dataclass(frozen=True)
class GrpoSettings:
    """Compare a GRPO step of train/grpo.py with the same step in plain TRL."""

    adapter: Path = field(metadata=setting("folder of a run of train/sft.py"))
    data: Path = field(metadata=setting("grpo.jsonl with plans"))
    rows: int = field(default=32, metadata=setting("plans, two per video"))
    group: int = field(default=8, metadata=setting("rollouts per plan"))
    groups: int = field(default=16, metadata=setting("groups per step, as in configs/grpo/pocket.yaml"))
    steps: int = field(default=3, metadata=setting("including the first, which is not counted"))
    longest: int = field(default=256, metadata=setting("maximum tokens of a reply"))
    only: tuple[str, ...] = field(
        default=(), metadata=setting(f"variants to run; unset: all of {', '.join(WAYS)}")
    )
    work: Path | None = field(default=None, metadata=setting("scratch folder; unset: a temporary one"))
    output: Path = field(
        default=ROOT / "perf" / "grpo.json",
        metadata=setting("file for the results; with --only, rows of other variants in it stay"),
    )


def make_rows(data: Path, folder: Path, count: int) -> list[dict[str, Any]]:
    """Write `count` plans of the data, two per video, with absolute paths, to `grpo.jsonl` in the folder.

    Raises SystemExit if the data has fewer."""
    by_video: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in data.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["kind"] == "plan" and row["oracle_mode"] is not None:
            by_video[row["video"]].append(row)
    rows = [row for plans in by_video.values() if len(plans) > 1 for row in plans[:2]][:count]
    if len(rows) < count:
        raise SystemExit(f"{data} has only {len(rows)} usable plans; give --rows {len(rows)}")
    for row in rows:
        for name in ("video", "subtitles"):
            row[name] = str((data.parent / row[name]).absolute()) if row[name] else None
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "grpo.jsonl").write_text(text, encoding="utf-8")
    return rows


def cut_frames(rows: list[dict[str, Any]], folder: Path) -> Spent:
    """Write the frames as JPEG files, as users of plain TRL do beforehand; returns what it took."""
    with timed() as spent:
        for row in rows:
            target = folder / "frames" / row["id"].replace("/", "_")
            target.mkdir(parents=True, exist_ok=True)
            for number, frame in enumerate(Video.open(Path(row["video"])).sample(FRAMES)):
                Image.fromarray(frame.image).save(target / f"{number:03d}.jpg", quality=95)
    return spent


def measure(way: str, common: dict[str, str], folder: Path, passes: int) -> dict[str, float]:
    """Run one variant in its own process; `passes` is the number of `training_step` calls per optimizer
    step."""
    script, changes = WAYS[way]
    output = folder / way.replace(" ", "-")
    times = folder / f"{output.name}.jsonl"
    times.unlink(missing_ok=True)
    if script.startswith("train"):
        changes = {**changes, "frames": str(FRAMES), "frame_cache": str(folder / "cache")}
    settings = {**common, **changes, "output_dir": str(output)}
    arguments = [word for name, value in settings.items() for word in (f"--{name}", value)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [
        sys.executable,
        str(ROOT / "perf" / "grpo_timed.py"),
        str(times),
        str(ROOT / script),
        *arguments,
    ]
    log = folder / f"{output.name}.log"
    with timed() as spent, log.open("w") as file:
        status = subprocess.run(command, env=environment, stdout=file, stderr=file).returncode
    if status != 0:
        raise SystemExit(f"failed with status {status}: {way}\n{log.read_text()[-3000:]}")
    # Without the first step.
    lines = [json.loads(line) for line in times.read_text().splitlines()][passes:]
    history = json.loads((output / "trainer_state.json").read_text())["log_history"]
    steps = [line for line in history if "completions/mean_length" in line][1:]
    replies = len(lines) * int(common["num_generations"])
    seconds = {name: sum(line[name] for line in lines) / replies for name in lines[0]}
    written = sum(line["completions/mean_length"] for line in steps) / len(steps)
    tokens = (steps[-1]["num_tokens"] - history[0]["num_tokens"]) / replies
    return {
        "rollouts_per_s": 1 / seconds["step"],
        **{f"{name}_s": value for name, value in seconds.items()},
        "prompt_tokens": tokens - written,
        "reply_tokens": written,
        "reward": sum(line["reward"] for line in steps) / len(steps),
        "wall_s": spent.wall_s,
        "whole_cpu_s": spent.cpu_s,
    }


def measure_in_turn(ways: Sequence[str], one: Callable[[str], dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Measure each variant twice, in order and then in reverse. Returns the means by variant, and under
    `passes` each pass with the load average before it."""
    passes: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for way in [*ways, *reversed(ways)]:
        load = round(os.getloadavg()[0], 2)
        passes[way].append({"load": load, **one(way)})
        print(f"{way}: {passes[way][-1]['step_s']:.3f} s a rollout, load {load}", file=sys.stderr, flush=True)
    return {way: {**_mean(figures), "passes": figures} for way, figures in passes.items()}


def _mean(passes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    means = {name: sum(each[name] for each in passes) / len(passes) for name in passes[0] if name != "load"}
    # Of the time, not of the rates.
    return {**means, "rollouts_per_s": 1 / means["step_s"]}


def ceiling(plain: dict[str, float], group: int) -> dict[str, float]:
    """How many times faster a step can become if all removable time is gone, from the plain variant's seconds
    per rollout."""
    prompt, reply = plain["prompt_tokens"], plain["reply_tokens"]
    shared = 1 - 1 / group
    removable = {
        "rewards": plain["rewards_s"],
        "prompts in sampling": plain["prefill_s"] * shared,
        "prompts in the update": plain["update_s"] * shared * prompt / (prompt + reply),
    }
    left = plain["step_s"] - sum(removable.values())
    return {
        **{f"share of {name}": value / plain["step_s"] for name, value in removable.items()},
        "times": plain["step_s"] / left,
    }


def table(ways: Mapping[str, Mapping[str, Any]]) -> str:
    """One line per variant, in seconds per rollout."""
    parts = ("step", "sampling", "prefill", "rewards", "update")
    first = next(iter(ways.values()))["rollouts_per_s"]
    lines = [f"{'':28}{'rollouts/s':>11}{'times':>7}" + "".join(f"{name + ' s':>12}" for name in parts)
             + f"{'CPU s':>9}{'tokens':>13}"]  # fmt: skip
    for way, figures in ways.items():
        seconds = "".join(f"{figures[f'{name}_s']:>12.3f}" for name in parts)
        tokens = f"{figures['prompt_tokens']:.0f} + {figures['reply_tokens']:.0f}"
        rate = figures["rollouts_per_s"]
        cpu = shown(figures.get("cpu_s"), 3)
        lines.append(f"{way:28}{rate:>11.3f}{rate / first:>7.2f}{seconds}{cpu:>9}{tokens:>13}")
    return "\n".join(lines)


def compare(request: GrpoSettings) -> None:
    """Run the variants one after another, print the table and write it. Raises ConfigError for settings
    that do not fit each other or the recorded rows."""
    if request.steps < 2:
        raise ConfigError("--steps must be at least 2: the first is not counted")
    for way in request.only:
        if way not in WAYS:
            raise ConfigError(f"unknown variant {way!r}; {did_you_mean(way, list(WAYS))}")
    gpu = torch.cuda.is_available()
    conditions = {
        "rows": request.rows,
        "group": request.group,
        "groups": request.groups,
        "steps": request.steps - 1,
        "longest": request.longest,
        "device": torch.cuda.get_device_name() if gpu else platform.machine(),
        "threads": torch.get_num_threads(),
        "versions": {name: metadata.version(name) for name in ("torch", "transformers", "trl", "peft")},
    }
    recorded = recorded_rows(request.output, "ways", conditions) if request.only else {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = request.work or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        rows = make_rows(request.data, folder, request.rows)
        cutting = cut_frames(rows, folder)
        common = {
            "model_name_or_path": "pocket",
            "dtype": "float32",
            "adapter": str(request.adapter.absolute()),
            "train_data": str(folder / "grpo.jsonl"),
            "pixels": str(PIXELS),
            "num_generations": str(request.group),
            "per_device_train_batch_size": str(request.group),
            "gradient_accumulation_steps": str(request.groups),
            "max_steps": str(request.steps),
            "max_completion_length": str(request.longest),
            "temperature": "1.0",
            "learning_rate": "1e-5",
            "beta": "0.0",
            "gradient_checkpointing": "false",
            "bf16": "false",
            **({} if gpu else {"use_cpu": "true"}),
            "logging_steps": "1",
            "save_strategy": "no",
            "report_to": "none",
            "disable_tqdm": "true",
            "seed": "0",
        }
        measured = measure_in_turn(
            list(request.only or WAYS), lambda way: measure(way, common, folder, request.groups)
        )
    results = {way: {**recorded, **measured}[way] for way in WAYS if way in recorded or way in measured}
    result = {
        **conditions,
        "cutting_frames_s": cutting.wall_s,
        "cutting_frames_cpu_s": cutting.cpu_s,
        "ways": results,
        "ceiling": ceiling(results["plain"], request.group) if "plain" in results else None,
    }
    write_record(request.output, result)
    print(table(results))
    print(json.dumps(result["ceiling"], indent=1))


if __name__ == "__main__":
    run_command(GrpoSettings, compare)
