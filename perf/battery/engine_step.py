"""(j) What a step of an engine is made of: reading the weights once, reading a prompt, and the vision tower,
each as a share of what the device's data sheet says.

Counted is the time of the kernels, from torch's profiler: an engine replays a captured graph, and does not
wait for Python between two of them. The layers are those of transformers, with torch's attention.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from perf.battery.cases import Bench, Case, Figures
from perf.battery.measuring import (
    kernel_ms,
    now,
    peak_bandwidth,
    peak_flops,
    peak_gib,
    reset_peak,
)
from videopro.backbones import read_spec
from videopro.backbones.qwen import LoadedModel, QwenInputs, load_model

TITLE = "A step of an engine: the time of its kernels, and its share of the data sheet's"
REPEATS = 5


def cases(bench: Bench) -> list[Case]:
    shapes = bench.shapes
    return [
        *(
            Case(f"one token each of {rows} replies", partial(decode, bench, rows))
            for rows in (1, *shapes.rows)
        ),
        Case(f"a prompt of {shapes.prompt} text tokens", partial(read_prompt, bench)),
        Case(f"the vision tower, {shapes.frames} frames", partial(see, bench)),
        Case(
            f"the vision tower, {shapes.frames} frames, attention chunk by chunk",
            partial(see, bench, by_chunk=True),
        ),
    ]


def decode(bench: Bench, rows: int) -> Figures:
    """A token of each of `rows` replies, without what was written before: the weights are read once."""
    model: Any = _load(bench).model
    weights = _token_weights(model)
    size = next(weight.element_size() for weight in model.lm_head.parameters())
    figures = _timed(lambda: model.lm_head(_text(model, rows, 1)))
    bandwidth = peak_bandwidth()
    share = None if bandwidth is None else round(weights * size / figures["kernel_ms"] * 1000 / bandwidth, 3)
    return {**figures, "weights_gb": round(weights * size / 1e9, 2), "share_of_bandwidth": share}


def read_prompt(bench: Bench) -> Figures:
    """All tokens of a prompt at once, and the scores of the token that follows it. Its FLOPs are two a weight
    and token; attention's own come on top and are not counted."""
    model: Any = _load(bench).model
    tokens = bench.shapes.prompt
    figures = _timed(lambda: model.lm_head(_text(model, 1, tokens)[:, -1:]))
    return {**figures, **_computed(2 * _token_weights(model) * tokens, figures)}


def see(bench: Bench, *, by_chunk: bool = False) -> Figures:
    """The vision tower over the frames of a video. Its FLOPs are two a weight and patch. `by_chunk`: as
    transformers attends, and not in one call a layer."""
    loaded, shapes = _load(bench), bench.shapes
    model: Any = loaded.model
    tower = model.model.visual
    inputs = QwenInputs(loaded.processor, frames=shapes.frames, pixels=shapes.pixels, device=model.device)
    side, pair = tower.config.patch_size, tower.config.temporal_patch_size
    height, width = inputs.frame_size(shapes.video.height, shapes.video.width, shapes.frames)
    grid = torch.tensor([[shapes.frames // pair, height // side, width // side]], device=model.device)
    patches = int(grid.prod())
    size = tower.config.in_channels * pair * side**2
    values = torch.randn(patches, size, device=model.device, dtype=model.dtype)
    attention = tower.config._attn_implementation
    tower.config._attn_implementation = "sdpa" if by_chunk else attention
    try:
        figures = _timed(lambda: tower(values, grid_thw=grid))
    finally:
        tower.config._attn_implementation = attention
    return {**figures, "patches": patches, **_computed(2 * _count(tower) * patches, figures)}


def _load(bench: Bench) -> LoadedModel:
    return _model(bench.checkpoint(), bench.shapes.backbone_dtype)


@cache  # All cases take the same.
def _model(checkpoint: Path, dtype: str) -> LoadedModel:
    return load_model(read_spec(str(checkpoint), dtype=dtype))


def _token_weights(model: Any) -> int:
    """The weights that a token passes: all of the language model and the output layer, without the embedding,
    of which a token reads one row."""
    return _count(model.model.language_model.layers) + _count(model.lm_head)


def _count(module: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def _text(model: Any, rows: int, tokens: int) -> torch.Tensor:
    """Hidden states of random embeddings, of shape (rows, tokens, width)."""
    text = model.model.language_model
    embeddings = torch.randn(rows, tokens, text.config.hidden_size, device=model.device, dtype=model.dtype)
    states: torch.Tensor = text(inputs_embeds=embeddings, use_cache=False).last_hidden_state
    return states


def _timed(run: Callable[[], Any]) -> Figures:
    """Milliseconds of one pass, of REPEATS after two to warm up: by the clock, and of the kernels alone.
    Without a GPU both are the same."""
    reset_peak()
    with torch.inference_mode():
        for _ in range(2):
            run()
        began = now()
        for _ in range(REPEATS):
            run()
        wall = 1000 * (now() - began) / REPEATS
        kernels = kernel_ms(lambda: [run() for _ in range(REPEATS)])
    kernel = wall if kernels is None else kernels / REPEATS
    return {"kernel_ms": round(kernel, 3), "wall_ms": round(wall, 3), "peak_gib": peak_gib()}


def _computed(flop: float, figures: Figures) -> Figures:
    peak = peak_flops()
    share = None if peak is None else round(flop / figures["kernel_ms"] * 1000 / peak, 3)
    return {"tflop": round(flop / 1e12, 3), "share_of_flops": share}
