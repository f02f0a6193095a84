"""A look at nothing in batches without a video, so that every rank and step runs the vision tower.

Under ZeRO-3 and FSDP the ranks gather each layer's weights together: one whose batch is text only would wait
for ever where the others run the vision tower. And where the tower is trained, DDP waits for its gradients.
Knows Qwen's vision-language models; must not know batches' contents or trainers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


class DummyVision:
    """Adds zero times the features of one black patch to what the language model reads, if a call of the core
    within `on()` brings no pixels. `core` is the module that holds `visual` and `language_model`.

    The ranks gather layers in the order of their calls: the look stands where the core itself looks at a
    video, behind the embedding of the tokens and before the language model."""

    def __init__(self, core: nn.Module) -> None:
        vision: Any = core.visual
        language: Any = core.language_model
        settings = vision.config
        self._core: Any = core
        self._merge: int = settings.spatial_merge_size
        values = settings.in_channels * settings.temporal_patch_size * settings.patch_size**2
        self._shape = (self._merge**2, values)
        self._on = False
        self._blind = False
        core.register_forward_pre_hook(self._before, with_kwargs=True)
        # In the core's own call, so that DDP, FSDP and DeepSpeed see it as a part of the model's.
        language.register_forward_pre_hook(self._look, with_kwargs=True)

    @contextmanager
    def on(self) -> Iterator[None]:
        """The calls within are a training's, not those of writing a reply token by token."""
        before, self._on = self._on, True
        try:
            yield
        finally:
            self._on = before

    def _before(self, core: Any, _: tuple[Any, ...], given: Mapping[str, Any]) -> None:
        pixels = ("pixel_values", "pixel_values_videos")
        self._blind = self._on and all(given.get(name) is None for name in pixels)

    def _look(
        self, language: Any, places: tuple[Any, ...], given: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if not self._blind:
            return None
        read = given["inputs_embeds"]
        pixels = read.new_zeros(self._shape)
        grid = torch.tensor([[1, self._merge, self._merge]], device=read.device)
        seen = self._core.get_video_features(pixels, grid, return_dict=True)
        # DeepStack's features leave the tower at other layers, through projectors of their own.
        parts = [
            *seen.pooler_output,
            *(one for layer in seen.get("deepstack_features") or () for one in layer),
        ]
        look = sum(part.sum() for part in parts).to(read.dtype)
        return places, {**given, "inputs_embeds": read + 0.0 * look}
