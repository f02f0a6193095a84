"""What training takes at 8B and 32B, by arithmetic: bytes of weights, adapters, copies, keys and values, and
time in proportion to what one H100 was measured to take.

    python -m perf.scale [--output perf/scale.json]

Sizes are counted from the published shapes (Qwen3-VL-8B-Instruct, Qwen3-VL-32B-Instruct) by building the
models without memory. Times of SFT are those of perf/gpu.json, multiplied by the ratio of weights and divided
by GPUs. Those of GRPO are made of what one GPU takes for a step of its own replies (`step`), which more GPUs
do not shorten. Nothing of 32B was run, nor of 8B on more than one GPU.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import yaml
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
SFT_ROWS, GRPO_PROMPTS = 5_000, 10_000
"""Section 4 of the paper."""
_BANDWIDTH = 3.35e12
"""Bytes a second of an H100's memory, by its data sheet."""
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
        "token_bytes": token,
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
    first, later = (
        {
            (letter, name): case.get("figures", {})
            for letter, part in json.loads((ROOT / path).read_text(encoding="utf-8"))["parts"].items()
            for name, case in part["cases"].items()
        }
        for path in ("perf/gpu.json", "perf/gpu_steps.json")
    )
    sft, grpo = first["a", "batch 8"], later["d", "programs during sampling"]
    writing = later["b", "64 rows, adapter off"]
    passes = [first["b", f"{rows} rows, adapter off"]["ms_a_token"] for rows in (8, 64)]
    kernels = [first["j", f"one token each of {rows} replies"]["kernel_ms"] for rows in (8, 64)]
    updates = [first["c", f"{tokens} tokens, prompt shared"]["update_s"] for tokens in (512, 1024)]
    return {
        "sft_rows_per_s": sft["rows_per_s"],
        "sft_gib": sft["peak_gib"],
        "grpo_step_s": grpo["step_s"],
        "grpo_gib": grpo["peak_gib"],
        "rewards_s": grpo["rewards_s"],
        "update_s": grpo["update_s"],
        # What sampling takes beside its tokens: prompts, and what the writing of all replies has no part in.
        "before_s": grpo["sampling_s"] - _REPLY * writing["ms_a_token"] / 1000,
        "ms_a_token": writing["ms_a_token"],
        # 8 rows were measured before steps were captured: by passes of the library, and as kernels alone.
        "least_of_8_rows": passes[0] / passes[1],
        "most_of_8_rows": kernels[0] / kernels[1],
        "longer_update": updates[1] / updates[0],
    }


def step(known: dict[str, float], rows: int, token_bytes: float) -> tuple[float, float]:
    """Least and most seconds of a GRPO step of 8B on a GPU that writes `rows` replies, 8 or 64: if the
    longest has 512 tokens, and if it has the 1,024 of the shipped config. Measured: 64 replies of 512
    tokens."""
    share = rows / _ROWS
    shares = (1.0, 1.0) if rows == _ROWS else (known["least_of_8_rows"], known["most_of_8_rows"])
    # Each row of the longer replies has more keys and values to read, half of the further ones on average.
    reading = rows * _REPLY / 2 * token_bytes / _BANDWIDTH
    least, most = (known["ms_a_token"] * of / 1000 for of in shares)
    others = known["before_s"] + known["rewards_s"]
    return (
        share * (others + known["update_s"]) + _REPLY * least,
        share * (others + known["update_s"] * known["longer_update"]) + 2 * _REPLY * (most + reading),
    )


def count(settings: ScaleSettings) -> None:
    """Count, and write the file."""
    models = {shapes.name: sizes(shapes) for shapes in (QWEN3VL_8B, QWEN3VL_32B)}
    eight = {name: split(model) for name, model in models.items()}
    known = measured()
    ratio = models["32b"]["parameters"] / models["8b"]["parameters"]
    config = yaml.safe_load((ROOT / "configs/grpo/qwen3vl_8b.yaml").read_text(encoding="utf-8"))
    assert config["max_completion_length"] == 2 * _REPLY
    passed = config["per_device_train_batch_size"]
    shipped = passed * config["gradient_accumulation_steps"]
    replies = GRPO_PROMPTS * config["num_generations"]
    sft = SFT_ROWS / known["sft_rows_per_s"]
    # Seconds of the work on one GPU, whose steps more of them share.
    work = {"8B, SFT": (sft, sft), "32B, SFT": (sft * ratio, sft * ratio)}
    for rows in (shipped, passed):
        least, most = step(known, rows, models["8b"]["token_bytes"])
        work[f"8B, GRPO, {rows} replies a GPU"] = (replies / rows * least, replies / rows * most)
    hours = {
        name: {str(gpus): [each / gpus / 3600 for each in seconds] for gpus in GPUS}
        for name, seconds in sorted(work.items(), reverse=True, key=lambda item: item[0].startswith("8B"))
    }
    record = {"models": models, "split": eight, "measured": known, "replies": shipped, "hours": hours}
    write_record(settings.output, record)
    print(f"recorded in {settings.output}; tables: python launch/recorded_tables.py")


if __name__ == "__main__":
    run_command(ScaleSettings, count)
