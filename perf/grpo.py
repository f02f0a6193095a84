"""Compares a GRPO step of train/grpo.py with the same step in plain TRL (frames as images, no reward
caching), and measures each of our optimizations alone.

    python perf/grpo.py --adapter SFT_RUN --data grpo.jsonl [--groups 16] [--steps 2] [--only NAME ...]

The policy is the pocket model with an adapter from train/sft.py, so that it writes programs that run. The
rows are prompts of kind "plan", two per video. Every variant gets the same rows, frames and pixels, G
rollouts per prompt, and a process of its own; its first step is a warm-up and is not counted.
`rollouts_per_s` is measured over TRL's training steps, without start-up and loading. Frames are decoded
before the first step in all variants (JPEG files for plain TRL, a frame cache for ours).

Times are taken around TRL's own methods (perf/grpo_timed.py). The ceiling is the speed-up if everything that
can be shared or overlapped took no time: waiting for rewards, and all but one pass over the prompt per group,
in sampling (measured) and in the update (by tokens: G (P + R) becomes P + G R). It leaves out the decoding
loop, in which our variant reads one copy of a prompt's keys and values for all replies of a group. Writes
perf/grpo.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from videopro.video import Video

RESULTS = Path(__file__).with_suffix(".json")
HERE = Path(__file__).resolve().parent
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


def cut_frames(rows: list[dict[str, Any]], folder: Path) -> float:
    """Write the frames as JPEG files, as users of plain TRL do beforehand; returns the seconds it took."""
    began = time.perf_counter()
    for row in rows:
        target = folder / "frames" / row["id"].replace("/", "_")
        target.mkdir(parents=True, exist_ok=True)
        for number, frame in enumerate(Video.open(Path(row["video"])).sample(FRAMES)):
            Image.fromarray(frame.image).save(target / f"{number:03d}.jpg", quality=95)
    return time.perf_counter() - began


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
    words = [word for name, value in settings.items() for word in (f"--{name}", value)]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    command = [sys.executable, str(HERE / "grpo_timed.py"), str(times), str(HERE.parent / script), *words]
    began = time.perf_counter()
    log = folder / f"{output.name}.log"
    with log.open("w") as file:
        status = subprocess.run(command, env=environment, stdout=file, stderr=file).returncode
    if status != 0:
        raise SystemExit(f"failed with status {status}: {way}\n{log.read_text()[-3000:]}")
    wall = time.perf_counter() - began
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
        "wall_s": wall,
    }


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


def table(found: dict[str, dict[str, float]]) -> str:
    """One line per variant, in seconds per rollout."""
    parts = ("step", "sampling", "prefill", "rewards", "update")
    first = next(iter(found.values()))["rollouts_per_s"]
    lines = [f"{'':28}{'rollouts/s':>11}{'times':>7}" + "".join(f"{name + ' s':>12}" for name in parts)
             + f"{'tokens':>13}"]  # fmt: skip
    for way, figures in found.items():
        seconds = "".join(f"{figures[f'{name}_s']:>12.3f}" for name in parts)
        tokens = f"{figures['prompt_tokens']:.0f} + {figures['reply_tokens']:.0f}"
        rate = figures["rollouts_per_s"]
        lines.append(f"{way:28}{rate:>11.3f}{rate / first:>7.2f}{seconds}{tokens:>13}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--adapter", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument(
        "--groups", type=int, default=16, help="groups per step (configs/grpo/pocket.yaml: 16)"
    )
    parser.add_argument("--steps", type=int, default=2, help="including the first, which is not counted")
    parser.add_argument("--longest", type=int, default=256, help="maximum tokens of a reply")
    parser.add_argument("--only", nargs="*", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--work", type=Path, default=None)
    given = parser.parse_args()
    if given.steps < 2:
        parser.error("--steps must be at least 2: the first is not counted")
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.work or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        rows = make_rows(given.data, folder, given.rows)
        cutting = cut_frames(rows, folder)
        gpu = torch.cuda.is_available()
        common = {
            "model_name_or_path": "pocket",
            "dtype": "float32",
            "adapter": str(given.adapter.absolute()),
            "train_data": str(folder / "grpo.jsonl"),
            "pixels": str(PIXELS),
            "num_generations": str(given.group),
            "per_device_train_batch_size": str(given.group),
            "gradient_accumulation_steps": str(given.groups),
            "max_steps": str(given.steps),
            "max_completion_length": str(given.longest),
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
        found = {way: measure(way, common, folder, given.groups) for way in given.only}
    result = {
        "rows": given.rows,
        "group": given.group,
        "groups": given.groups,
        "steps": given.steps - 1,
        "longest": given.longest,
        "device": torch.cuda.get_device_name() if gpu else platform.machine(),
        "threads": torch.get_num_threads(),
        "cutting_frames_s": cutting,
        "ways": found,
        "ceiling": ceiling(found["plain"], given.group) if "plain" in found else None,
        "versions": {name: metadata.version(name) for name in ("torch", "transformers", "trl", "peft")},
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(table(found))
    print(json.dumps(result["ceiling"], indent=1))


if __name__ == "__main__":
    main()
