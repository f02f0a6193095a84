"""Three short videos, rows about them and tiny Qwen checkpoints, for tests of fine-tuning.

`folder` makes the videos and their rows, `record` and `write` other files of rows; `inputs`, `collator`,
`batch` and `trainer` are the real ones of a tiny checkpoint on a CPU, with `settings`.
"""

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from trl import ModelConfig

from tests.support.making_videos import make
from tests.support.qwen_models import PIXELS, checkpoint, reference
from videopro.backbones.qwen import QwenInputs, find_checkpoint
from videopro.question import Question, prompts
from videopro.train.finetune import (
    SFTRow,
    VideoCollator,
    VideoSFTConfig,
    VideoSFTTrainer,
    as_dataset,
    read_rows,
)
from videopro.train.finetune.collator import VIDEOS
from videopro.train.runtime import FrameCache, trained_parts
from videopro.train.runtime.trainable import choose_trained

FRAMES = 4
QUESTIONS = (
    Question("What colour is the ring?", ("green", "red", "blue")),
    Question("How many rings are there, and which of them is seen after the bar?", ("1", "2")),
    Question("Which colour is seen last?", ("red", "blue")),
)
NATIVE = f"<planning>\nOne glance.\n</planning>\n<code>\n{prompts.NATIVE_PROGRAM}\n</code>"
STEPS = (
    "<planning>\nFind the ring, then ask.\n</planning>\n<code>\ndef execute_command(video, question):\n"
    "    frames = extract_frames(video, num_frames=2)\n    return query_mc(frames, question, choices)\n"
    "</code>"
)


@functools.cache
def folder() -> Path:
    """Videos of several lengths and shapes, and `sft.jsonl` (three rows with a video, then one without)."""
    where = Path(tempfile.mkdtemp(prefix="videopro-sft-"))
    (where / "videos").mkdir()
    make(where / "videos" / "a.mp4", 60)
    make(where / "videos" / "b.mp4", 31, rate=7, size=(96, 96))
    make(where / "videos" / "c.mp4", 24, rate=10)
    refinement = prompts.native_refinement(QUESTIONS[2], prompts.NATIVE_PROGRAM)
    rows = [
        record(prompts.plan(QUESTIONS[0]), NATIVE, "videos/a.mp4", id="a-native", kind="native"),
        record(prompts.plan(QUESTIONS[1]), STEPS, "videos/b.mp4", id="b-program", kind="program"),
        record(refinement, STEPS, "videos/c.mp4", id="c-refined", kind="native_refinement"),
        record("What is a ring?", "A ring is round.", id="text"),
    ]
    write(where / "sft.jsonl", rows)
    return where


def record(prompt: str, reply: str, video: str | None = None, **fields: Any) -> dict[str, Any]:
    """A row as it stands in a file."""
    mark = "<video>" if video else ""
    messages = [{"role": "user", "content": mark + prompt}, {"role": "assistant", "content": reply}]
    return {"messages": messages, **({"videos": [video]} if video else {}), **fields}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_chosen(path: Path, numbers: list[int]) -> Path:
    """A file elsewhere with these rows."""
    lines = (folder() / "sft.jsonl").read_text().splitlines()
    chosen = [json.loads(lines[number]) for number in numbers]
    for row in chosen:
        row["videos"] = [str(folder() / video) for video in row.get("videos", ())]
    return write(path, chosen)


def rows() -> list[SFTRow]:
    return read_rows(folder() / "sft.jsonl").rows


def inputs(family: str) -> QwenInputs:
    """The inputs of a tiny checkpoint."""
    processor = find_checkpoint(str(checkpoint(family))).marked("published").processor
    return QwenInputs(processor, frames=FRAMES, pixels=PIXELS, device=torch.device("cpu"))


def frame_cache(family: str) -> FrameCache:
    size = inputs(family).frame_size
    return FrameCache(folder() / "frames", count=FRAMES, resize=size, form=f"{family}-{PIXELS}")


def collator(family: str) -> VideoCollator:
    return VideoCollator(inputs(family), frame_cache(family))


def batch(family: str, numbers: list[int]) -> dict[str, torch.Tensor]:
    """A batch of the rows with these numbers."""
    dataset = as_dataset(rows())
    made = collator(family)([dataset[number] for number in numbers])
    del made[VIDEOS]
    return made


ON_A_CPU: dict[str, Any] = {"use_cpu": True, "report_to": "none", "disable_tqdm": True}
ON_A_CPU |= {"bf16": False, "gradient_checkpointing": False, "save_strategy": "no", "logging_steps": 1}
"""Settings of a training on a CPU that says little and keeps nothing on the way."""


def pictures() -> dict[str, Any]:
    """The settings of what a model sees."""
    return {"frame_cache": str(folder() / "frames"), "frames": FRAMES, "pixels": PIXELS}


def settings(output: Path, **changes: Any) -> VideoSFTConfig:
    """Settings for a CPU, without anything random."""
    given: dict[str, Any] = {"output_dir": str(output), "train_data": str(folder() / "sft.jsonl")}
    given |= {"learning_rate": 1e-2, "lr_scheduler_type": "linear", "per_device_train_batch_size": 2}
    return VideoSFTConfig(**{**given, **pictures(), **ON_A_CPU, "seed": 3, **changes})


def model_settings(family: str, **changes: Any) -> ModelConfig:
    lora: dict[str, Any] = {"use_peft": True, "lora_r": 4, "lora_alpha": 8, "lora_dropout": 0.0}
    return ModelConfig(**{"model_name_or_path": str(checkpoint(family)), **lora, **changes})


def trainer(family: str, config: VideoSFTConfig, chosen: list[SFTRow], **changes: Any) -> VideoSFTTrainer:
    """A trainer of a tiny checkpoint on some rows, as `videopro.train.sft` makes it."""
    model, _ = reference(family)
    batches = collator(family)
    parts = trained_parts(config.vision, config.projector)
    peft = choose_trained(model, model_settings(family, **changes), parts)
    return VideoSFTTrainer(
        model=model,
        args=config,
        train_dataset=as_dataset(chosen),
        data_collator=batches,
        processing_class=batches._inputs.processor,
        peft_config=peft,
    )
