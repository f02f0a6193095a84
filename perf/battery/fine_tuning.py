"""(a) One SFT step of configs/sft/qwen3vl_8b.yaml: memory, seconds, MFU, and the vision tower's share."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from transformers import TrainerCallback
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionModel

from perf.battery import flops
from perf.battery.cases import Bench, Case, Figures
from perf.battery.measuring import now, on_gpu, peak_flops, peak_gib, reset_peak
from perf.battery.world import make_sft_rows
from videopro.train.finetune import VideoSFTConfig, VideoSFTTrainer
from videopro.train.runtime import read_settings
from videopro.train.sft import train

TITLE = "SFT: load bf16, LoRA, one step of configs/sft/qwen3vl_8b.yaml"
CONFIG = Path(__file__).resolve().parents[2] / "configs" / "sft" / "qwen3vl_8b.yaml"


def cases(bench: Bench) -> list[Case]:
    mixed = len(bench.shapes.mixed)
    return [
        *(
            Case(
                f"mixed lengths, batch {mixed}, {how}",
                partial(sft_step, bench, mixed, mixed=True, joins=joins),
            )
            for how, joins in (("joined", True), ("padded", False))
        ),
        *(Case(f"batch {batch}", partial(sft_step, bench, batch)) for batch in bench.shapes.batches),
    ]


class Steps(TrainerCallback):
    """The seconds of each optimizer step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._began = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._began = now()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.seconds.append(now() - self._began)


@contextlib.contextmanager
def _watched() -> Iterator[dict[str, Any]]:
    """What the loss was last computed of inside the block, and the seconds of the vision tower's passes."""
    seen: dict[str, Any] = {"vision": []}
    tower, loss = Qwen3VLVisionModel.forward, VideoSFTTrainer.compute_loss

    def timed(self: Any, hidden_states: Any, *args: Any, **kwargs: Any) -> Any:
        began = now()
        out = tower(self, hidden_states, *args, **kwargs)
        seen["vision"].append(now() - began)
        seen["patches"] = len(hidden_states)
        return out

    def noted(self: Any, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        seen["lengths"] = inputs["attention_mask"].sum(-1).tolist()
        seen["scored"] = int((inputs["labels"] != -100).sum())
        grid = inputs["video_grid_thw"][0]
        seen["a_frame"] = int(grid[1] * grid[2])
        return loss(self, model, inputs, *args, **kwargs)

    with (
        patch.object(Qwen3VLVisionModel, "forward", timed),
        patch.object(VideoSFTTrainer, "compute_loss", noted),
    ):
        yield seen


def recipe(
    bench: Bench, batch: int, steps: int, output: Path, words: Sequence[int] = (0,), **settings: Any
) -> list[str]:
    """The flags of train/sft.py for some steps of CONFIG on the random model; `settings` add to them.
    `words`: see `make_sft_rows`."""
    shapes = bench.shapes
    flags = {
        "config": CONFIG,
        "model_name_or_path": bench.checkpoint(),
        "train_data": make_sft_rows(bench, batch * steps, words),
        "output_dir": output,
        "frame_cache": bench.path("frames"),
        "per_device_train_batch_size": batch,
        "max_steps": steps,
        "frames": shapes.frames,
        "pixels": shapes.pixels,
        "dtype": shapes.dtype,
        "lora_r": shapes.lora_rank,
        # There are few videos: later steps would all be without the tower.
        "kept_features_gb": 0,
        "logging_steps": 1,
        "save_strategy": "no",
        "disable_tqdm": "true",
        **({} if on_gpu() else {"bf16": "false"}),
        **settings,
    }
    return [word for name, value in flags.items() for word in (f"--{name}", str(value))]


def on_cpu() -> dict[str, Any]:
    """Settings that a CPU needs."""
    return {} if on_gpu() else {"use_cpu": "true", "dataloader_num_workers": 0}


def sft_step(bench: Bench, batch: int, *, mixed: bool = False, joins: bool = True) -> Figures:
    """Two steps of the recipe, of which the second counts; four on a GPU, and the median of the last two.
    `mixed`: the rows of each batch have the lengths of the shapes; `joins`: they run as one row."""
    words = bench.shapes.mixed if mixed else (0,)
    settings = {
        "padding_free": str(joins).lower(),
        "train_sampling_strategy": "sequential",
        **on_cpu(),
    }
    arguments = recipe(bench, batch, 4 if on_gpu() else 2, bench.path("sft"), words, **settings)
    reset_peak()
    began, timed = now(), Steps()
    with _watched() as seen:
        trainer = train(*read_settings(VideoSFTConfig, "sft", arguments), callbacks=[timed])
    total = now() - began
    seconds = statistics.median(timed.seconds[-2:] if on_gpu() else timed.seconds[1:])
    vision = statistics.median(seen["vision"][1:])
    model: Any = trainer.model
    needed = flops.sft_step(model.config, seen["lengths"], seen["scored"], seen["patches"], seen["a_frame"])
    peak = peak_flops()
    return {
        "step_s": round(seconds, 3),
        "rows_per_s": round(batch / seconds, 3),
        "tokens_per_s": round(sum(seen["lengths"]) / seconds),
        "peak_gib": peak_gib(),
        "tokens_a_row": round(sum(seen["lengths"]) / len(seen["lengths"])),
        "vision_share": round(vision / seconds, 3),
        "tflop": round(needed / 1e12, 3),
        "mfu": None if peak is None else round(needed / seconds / peak, 3),
        "start_and_load_s": round(total - sum(timed.seconds), 1),
    }
