"""(b) Writing replies: milliseconds a token, with the adapter on, off and merged, and how much of that the
device computes."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import torch

from perf.battery.cases import Bench, Case, Figures
from perf.battery.measuring import kernel_ms, now, peak_gib, reset_peak
from perf.battery.world import make_adapter, make_videos, question
from videopro.backbones import Sampling, read_spec
from videopro.backbones.qwen import LoadedModel, QwenInputs, QwenRunner, load_model
from videopro.question import prompts
from videopro.video import Video

TITLE = "Writing replies after a video, as GRPO samples them"
Adapter = Literal["on", "off", "merged"]
PROFILED = 16
"""Tokens that are profiled; as many warm up."""


def cases(bench: Bench) -> list[Case]:
    # Merged last: it cannot be undone.
    return [
        Case(
            f"{rows} rows, adapter {adapter}",
            partial(write, bench, rows, adapter),
        )
        for adapter in ("off", "on", "merged")
        for rows in bench.shapes.rows
    ]


def load(bench: Bench, adapter: Adapter) -> LoadedModel:
    """The model with the random adapter on, off (its layers are there) or merged."""
    spec = read_spec(
        str(bench.checkpoint()),
        adapter=str(make_adapter(bench)),
        dtype=bench.shapes.backbone_dtype,
    )
    loaded = load_model(spec)
    tuned: Any = loaded.adapter
    if adapter == "off":
        tuned.base_model.disable_adapter_layers()
    if adapter == "merged":
        tuned.merge_and_unload()
    return loaded


def write(bench: Bench, rows: int, adapter: Adapter) -> Figures:
    """`rows` replies, a group of them to each prompt, none of which ends early."""
    shapes = bench.shapes
    loaded = load(bench, adapter)
    pad = loaded.processor.tokenizer.pad_token_id
    run = QwenRunner(loaded.model, ends=(), pad=pad)
    inputs = QwenInputs(loaded.processor, frames=shapes.frames, pixels=shapes.pixels, device=run.device)
    size = inputs.frame_size(shapes.video.height, shapes.video.width, shapes.frames)
    head = inputs.head(Video.open(make_videos(bench)[0]).sample(shapes.frames, size=size))
    texts = [prompts.plan(question(number)) for number in range(max(1, rows // shapes.group))]
    encoded = [head.append_text(inputs.tail(text)) for text in texts]
    groups = [number * len(encoded) // rows for number in range(rows)]
    settings: Any = {"banned": inputs.visual_tokens(), "on_reply": lambda row, reply: None}
    reset_peak()
    with torch.inference_mode():
        for length in (PROFILED, shapes.reply):  # The first one warms up.
            sampling = Sampling(length, temperature=1.0, seed=0)
            began = now()
            state = run.fork(run.start(encoded), groups)
            read = now()
            run.generate(state, sampling, [(0, row) for row in range(rows)], **settings)
            prompt, replies = read - began, now() - read
        state = run.fork(run.start(encoded), groups)
        few = Sampling(PROFILED, temperature=1.0, seed=0)
        kernels = kernel_ms(lambda: run.generate(state, few, [(0, row) for row in range(rows)], **settings))
    ms = 1000 * replies / shapes.reply
    return {
        "ms_a_token": round(ms, 2),
        "tokens_per_s": round(rows * shapes.reply / replies, 1),
        "prompt_s": round(prompt, 3),
        "prompt_tokens": len(encoded[0].ids),
        "device_busy": None if kernels is None else round(kernels / PROFILED / ms, 3),
        "peak_gib": peak_gib(),
    }
