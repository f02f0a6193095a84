"""What training takes at 8B and 32B, by arithmetic: bytes of weights, adapters, copies, keys and values, and
time in proportion to what one H100 was measured to take.

    python -m perf.scale [--output perf/scale.json]

Sizes are counted from the published shapes (Qwen3-VL-8B-Instruct, Qwen3-VL-32B-Instruct) by building the
models without memory. Times are those of perf/gpu.json and perf/gpu_steps.json, multiplied by the ratio of
weights and divided by GPUs: nothing of 32B was run, nor of 8B on more than one GPU.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForImageTextToText

from perf import ROOT
from perf.battery.shapes import QWEN3VL_8B, Shapes, _text, _vision, model_config
from perf.command import run_command
from perf.recording import write_record
from videopro.cli import setting
from videopro.engine.serving import EngineSettings

# The published config of Qwen/Qwen3-VL-32B-Instruct.
QWEN3VL_32B = replace(
    QWEN3VL_8B,
    name="32b",
    title="the shapes of Qwen3-VL-32B",
    text=_text(5120, 25_600, layers=64, heads=64),
    vision=_vision(1152, 4304, layers=27, out=5120, deepstack=(8, 16, 24)),
)
_GIB = 2**30
_HALF = 2
_TRAINED = 16
"""Bytes for each trained weight: in fp32 it, its gradient, and the two moments of Adam."""
_ROWS, _REPLY, _PROMPTS, _PROMPT = 64, 512, 8, 1_892
"""Of the GRPO step that was measured: replies, their tokens, prompts, and theirs."""
GPUS = (1, 8, 16)
SFT_ROWS, GRPO_PROMPTS, REPLIES = 5_000, 10_000, 8
"""Section 4 of the paper, and configs/grpo/qwen3vl_8b.yaml."""
_TRAINING, _ENGINES, _OF_AN_ENGINE = 4, 2, 2
"""Of 8 GPUs: those that train, and engines (`engine_gpus`) with the GPUs of one."""
_CARD = 80e9 / _GIB
_SHARE = EngineSettings.memory


@dataclass(frozen=True)
class ScaleSettings:
    """Count what training takes at 8B and 32B."""

    output: Path = field(default=ROOT / "perf" / "scale.json", metadata=setting("JSON file"))


def sizes(shapes: Shapes) -> dict[str, float]:
    """What a model of these shapes takes, in GiB, in bf16 unless it is trained."""
    with torch.device("meta"):
        model: Any = AutoModelForImageTextToText.from_config(model_config(shapes))
    text = model.config.text_config
    layers = model.model.language_model.layers
    adapted = [module for module in layers.modules() if isinstance(module, torch.nn.Linear)]
    lora = sum(shapes.lora_rank * (module.in_features + module.out_features) for module in adapted)
    token = 2 * text.num_hidden_layers * text.num_key_value_heads * text.head_dim * _HALF
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "weights": sum(weight.numel() for weight in model.parameters()) * _HALF / _GIB,
        "adapter": lora * _TRAINED / _GIB,
        "merged_copy": sum(module.weight.numel() for module in adapted) * _HALF / _GIB,
        "keys_and_values": (_ROWS * _REPLY + _PROMPTS * _PROMPT) * token / _GIB,
    }


def split(model: dict[str, float]) -> dict[str, float]:
    """What each of 8 GPUs holds, in GiB, where some train under ZeRO-3 and the others serve engines; keys and
    values are those of `_ROWS` replies for each process that trains."""
    weights = model["weights"] / _OF_AN_ENGINE
    return {
        "training": (model["weights"] + model["adapter"]) / _TRAINING,
        "engine_weights": weights,
        "engine_keys_and_values": model["keys_and_values"] * _TRAINING / (_ENGINES * _OF_AN_ENGINE),
        "engine_room": _SHARE * _CARD - weights,
    }


def measured() -> dict[str, float]:
    """Rates and peaks of one H100 at 8B."""
    first = json.loads((ROOT / "perf/gpu.json").read_text(encoding="utf-8"))["parts"]
    later = json.loads((ROOT / "perf/gpu_steps.json").read_text(encoding="utf-8"))["parts"]
    sft = first["a"]["cases"]["batch 8"]["figures"]
    grpo = later["d"]["cases"]["programs during sampling"]["figures"]
    return {
        "sft_rows_per_s": sft["rows_per_s"],
        "sft_gib": sft["peak_gib"],
        "grpo_step_s": grpo["step_s"],
        "grpo_gib": grpo["peak_gib"],
    }


def count(settings: ScaleSettings) -> None:
    """Count, and write the file."""
    models = {shapes.name: sizes(shapes) for shapes in (QWEN3VL_8B, QWEN3VL_32B)}
    eight = {name: split(model) for name, model in models.items()}
    known = measured()
    steps = GRPO_PROMPTS * REPLIES / _ROWS
    ratio = models["32b"]["parameters"] / models["8b"]["parameters"]
    one = {
        "8B, SFT": SFT_ROWS / known["sft_rows_per_s"],
        "8B, GRPO": steps * known["grpo_step_s"],
        "32B, SFT": SFT_ROWS / known["sft_rows_per_s"] * ratio,
    }
    hours = {name: {str(gpus): seconds / gpus / 3600 for gpus in GPUS} for name, seconds in one.items()}
    write_record(settings.output, {"models": models, "split": eight, "measured": known, "hours": hours})
    print(f"recorded in {settings.output}; tables: python launch/recorded_tables.py")


if __name__ == "__main__":
    run_command(ScaleSettings, count)
