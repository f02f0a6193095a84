"""Runs the vision tower on a dummy patch for batches without a video, so that every rank runs it in every
step.

Under ZeRO-3 and FSDP the ranks gather each layer's weights together: a rank with a text-only batch would hang
while the others run the vision tower. And if the tower is trained, DDP waits for its gradients.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


class DummyVision:
    """Adds zero times the features of one black patch to the language model's input, if a call of the core
    within `on()` has no pixels. `core` is the module that holds `visual` and `language_model`.

    The ranks gather layers in the order of their calls, so the dummy runs where the core itself encodes a
    video: after the token embedding and before the language model."""

    def __init__(self, core: nn.Module) -> None:
        vision: Any = core.visual
        language: Any = core.language_model
        settings = vision.config
        self._core: Any = core
        self._merge: int = settings.spatial_merge_size
        values = settings.in_channels * settings.temporal_patch_size * settings.patch_size**2
        self._shape = (self._merge**2, values)
        self._on = False
        self._no_pixels = False
        core.register_forward_pre_hook(self._before, with_kwargs=True)
        # Inside the core's own call, so that DDP, FSDP and DeepSpeed treat it as part of the forward pass.
        language.register_forward_pre_hook(self._add_dummy, with_kwargs=True)

    @contextmanager
    def on(self) -> Iterator[None]:
        """The calls within are training steps, not token-by-token generation."""
        before, self._on = self._on, True
        try:
            yield
        finally:
            self._on = before

    def _before(self, core: Any, _: tuple[Any, ...], inputs: Mapping[str, Any]) -> None:
        pixels = ("pixel_values", "pixel_values_videos")
        self._no_pixels = self._on and all(inputs.get(name) is None for name in pixels)

    def _add_dummy(
        self, language: Any, arguments: tuple[Any, ...], inputs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        if not self._no_pixels:
            return None
        embeddings = inputs["inputs_embeds"]
        pixels = embeddings.new_zeros(self._shape)
        grid = torch.tensor([[1, self._merge, self._merge]], device=embeddings.device)
        features = self._core.get_video_features(pixels, grid, return_dict=True)
        # DeepStack's features leave the tower at other layers, through their own projectors.
        parts = [
            *features.pooler_output,
            *(part for layer in features.get("deepstack_features") or () for part in layer),
        ]
        # A sum, so that every output takes part in the backward pass, with gradients of 0.
        total = sum(part.sum() for part in parts).to(embeddings.dtype)
        return arguments, {**inputs, "inputs_embeds": embeddings + 0.0 * total}
