"""Compares fine-tuning on videos with train/sft.py with the same run in plain TRL, frames as images.

    python -m perf.sft [--size pocket] [--rows 32] [--videos 8] [--batch 4] [--rounds 3] \\
        [--work FOLDER] [--output FILE]
    python -m perf.sft --size 8b --rows 48 --videos 12 --batch 1 --rounds 1     (a GPU with 80 GB)

Both train the same LoRA layers of the same model on the same rows with the same frames and pixels, each in
its own process, in turn. Plain TRL takes a video as images, which is what it supports: the frames come from
JPEG files that were written beforehand, and each is a separate image to the model. `samples_per_s` is
Trainer's own figure, without start-up and loading; `peak_mib` is the peak memory of the process (of the GPU,
if there is one); `tokens_a_row` excludes padding; `wall_s` and `cpu_s` are
of the whole process. "8b": the shapes of Qwen3-VL-8B with random weights, 64
frames of at most 50,176 pixels, bf16. Writes perf/sft.json.
"""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Literal

import torch
from PIL import Image

from perf import ROOT
from perf.battery.shapes import QWEN3VL_8B, TINY, Shapes, VideoShape, make_checkpoint
from perf.battery.world import REPLY, make_video
from perf.command import run_command
from perf.recording import write_record
from perf.timing import Spent, timed
from videopro.cli import setting
from videopro.errors import ConfigError
from videopro.pocket import model_dir
from videopro.question import Question, prompts
from videopro.video import Video

Size = Literal["pocket", "8b"]
# What videos are like, what is sampled of them, and the model.
SIZES: dict[Size, Shapes] = {
    "pocket": dataclasses.replace(TINY, video=VideoShape(60, 8, 192, 320)),
    "8b": QWEN3VL_8B,
}


@dataclass(frozen=True)
class SftSettings:
    """Compare fine-tuning on videos with train/sft.py with the same run in plain TRL."""

    size: Size = field(default="pocket", metadata=setting("shapes of the model and the videos"))
    rows: int = field(default=32, metadata=setting("rows of the training data"))
    videos: int = field(default=8, metadata=setting("videos that the rows are about"))
    batch: int = field(default=4, metadata=setting("rows in a step"))
    rounds: int = field(default=3, metadata=setting("rounds; in each, both run once"))
    work: Path | None = field(default=None, metadata=setting("scratch folder; unset: a temporary one"))
    output: Path = field(default=ROOT / "perf" / "sft.json", metadata=setting("file for the results"))


def make_model(size: Size, folder: Path) -> Path:
    """A checkpoint of that size: the shipped one, or random weights with the shipped tokenizer and
    processor."""
    return model_dir() if size == "pocket" else make_checkpoint(SIZES[size], folder)


def make_rows(size: Size, folder: Path, n_rows: int, n_videos: int) -> None:
    """Write videos of moving noise, and `sft.jsonl` with rows about them."""
    for number in range(n_videos):
        make_video(folder / f"{number}.mp4", SIZES[size].video, number)
    rows = []
    for number in range(n_rows):
        question = Question(f"What is the color of ring {number}?", ("red", "blue", "green", "white"))
        rows.append(
            {
                "messages": [
                    {"role": "user", "content": "<video>" + prompts.plan(question)},
                    {"role": "assistant", "content": REPLY},
                ],
                "videos": [f"{number % n_videos}.mp4"],
            }
        )
    (folder / "sft.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def cut_frames(size: Size, folder: Path, n_videos: int) -> Spent:
    """Write the frames as JPEG files, as users of plain TRL do beforehand; returns what it took."""
    with timed() as spent:
        for number in range(n_videos):
            target = folder / "frames" / str(number)
            target.mkdir(parents=True, exist_ok=True)
            for i, frame in enumerate(Video.open(folder / f"{number}.mp4").sample(SIZES[size].frames)):
                Image.fromarray(frame.image).save(target / f"{i:03d}.jpg", quality=95)
    return spent


def measure(command: list[str], output: Path, rows: int) -> dict[str, float]:
    """One run over `rows` rows, in its own process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with timed() as spent:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"failed with status {status}: {' '.join(command)}")
    history = json.loads((output / "trainer_state.json").read_text())["log_history"]
    done = next(line for line in history if "train_samples_per_second" in line)
    # The memory before training, and how much training added at its peak.
    names = ("before_init_mem_gpu", "init_mem_gpu_alloc_delta")
    gpu = [done.get(name, 0) for name in (*names, "train_mem_gpu_alloc_delta", "train_mem_gpu_peaked_delta")]
    peak = sum(gpu) / 2**20 if any(gpu) else used.ru_maxrss / 1024
    return {
        "samples_per_s": done["train_samples_per_second"],
        "peak_mib": peak,
        "wall_s": spent.wall_s,
        "cpu_s": spent.cpu_s,
        "loss": done["train_loss"],
        "tokens_a_row": max(line.get("num_tokens", 0) for line in history) / rows,
    }


def compare(options: SftSettings) -> None:
    """Run both in turn, print the figures and write them. Raises ConfigError for rows that do not fit."""
    if options.rows % options.batch or options.videos > options.rows:
        raise ConfigError("--rows must be a multiple of --batch, and no fewer than --videos")
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.work or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        model = make_model(options.size, folder)
        make_rows(options.size, folder, options.rows, options.videos)
        cutting = cut_frames(options.size, folder, options.videos)
        ours, plain = folder / "ours", folder / "plain"
        size = SIZES[options.size]
        common = [
            *("--model_name_or_path", str(model), "--per_device_train_batch_size", str(options.batch)),
            *(
                "--dtype",
                size.dtype,
                "--learning_rate",
                "1e-4",
                "--max_steps",
                str(options.rows // options.batch),
            ),
            *("--logging_steps", "1", "--skip_memory_metrics", "false", "--gradient_checkpointing", "true"),
            *("--save_strategy", "no", "--report_to", "none", "--disable_tqdm", "true", "--seed", "0"),
            *("--use_peft", "true", "--lora_r", "64", "--lora_alpha", "16", "--lora_dropout", "0"),
            *("--bf16", "true" if torch.cuda.is_available() else "false"),
            *(() if torch.cuda.is_available() else ("--use_cpu", "true")),
            *("--train_data", str(folder / "sft.jsonl"), "--frames", str(size.frames)),
            *("--pixels", str(size.pixels)),
        ]
        ways = {
            "videopro": (
                [
                    *(sys.executable, str(ROOT / "train" / "sft.py"), "--output_dir", str(ours)),
                    *("--frame_cache", str(folder / "cache"), *common),
                ],
                ours,
            ),
            "plain TRL, frames as images": (
                [sys.executable, str(ROOT / "perf" / "sft_plain.py"), "--output_dir", str(plain), *common],
                plain,
            ),
        }
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
        for _ in range(options.rounds):
            for name, (command, output) in ways.items():
                runs[name].append(measure(command, output, options.rows))
    figures = {
        name: {key: statistics.median(run[key] for run in rounds) for key in rounds[0]}
        for name, rounds in runs.items()
    }
    first, second = figures.values()
    result = {
        "size": options.size,
        "rows": options.rows,
        "videos": options.videos,
        "batch": options.batch,
        "rounds": options.rounds,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine(),
        "cutting_frames_s": cutting.wall_s,
        "cutting_frames_cpu_s": cutting.cpu_s,
        "ways": figures,
        "runs": runs,
        "ratios": {
            "samples_per_s": first["samples_per_s"] / second["samples_per_s"],
            "peak_mib": first["peak_mib"] / second["peak_mib"],
            "tokens_a_row": first["tokens_a_row"] / second["tokens_a_row"],
        },
        "versions": {name: metadata.version(name) for name in ("torch", "transformers", "trl", "peft")},
    }
    write_record(options.output, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    run_command(SftSettings, compare)
