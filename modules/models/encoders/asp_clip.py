"""ASP-CLIP as an encoder of clips: an encoder of pictures and texts, and a transformer over 16 frames.

A clip is pooled by the text it is compared with, so it has no single vector: its embedding is the 32 rows of
`asp_clip_model.pool_by_each`, 32 times as much as another encoder's (98 kB per clip for a width of 768).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from videopro.backbones import folder_fingerprint
from videopro.modules.errors import ModelError
from videopro.modules.models.encoders.asp_clip_model import (
    AspClipConfig,
    load_weights,
    pool_by_each,
    score_pooled,
)
from videopro.modules.models.encoders.interfaces import VideoTextEncoder
from videopro.modules.models.hub import stop_between_layers


class FrameTextEncoder(Protocol):
    """What ASP-CLIP needs of the encoder that it is built on: `ImageTextEncoder`, `LanguageBindEncoder`."""

    @property
    def model(self) -> nn.Module: ...
    def identity(self) -> dict[str, object]: ...
    def frame_size(self, height: int, width: int) -> tuple[int, int]: ...
    def frame_features(self, pictures: Sequence[np.ndarray]) -> Tensor: ...
    def text_features(self, texts: Sequence[str]) -> Tensor: ...


class AspClipEncoder(VideoTextEncoder):
    """A folder written by `train/retrieval/asp_clip.py`, on a base that is loaded already."""

    def __init__(self, folder: Path, base: FrameTextEncoder, *, name: str, dtype: str = "float32") -> None:
        """Weights of the folder replace the base's, where it has them. Raises ModelError if the folder's
        files are damaged or do not fit the base."""
        super().__init__(name)
        config = AspClipConfig.read(folder)
        self._base, self._dtype = base, dtype
        temporal = load_weights(folder, config, base.model)
        parameter = next(base.model.parameters())
        # Where the base is, and in its precision: its features go straight in.
        self._temporal = temporal.to(parameter.device, parameter.dtype).eval()
        stop_between_layers(self._temporal)
        self.clip_frames = config.frames
        self._fingerprint = folder_fingerprint(folder)
        if self.width != config.width:
            raise ModelError(
                f"{name}: the base {config.base!r} has embeddings of width {self.width}, the temporal "
                f"transformer in {folder} {config.width}; give the base that it was trained on"
            )

    def identity(self) -> dict[str, object]:
        return {
            "encoder": "asp-clip",
            "weights": self._fingerprint,
            "base": self._base.identity(),
            "frames": self.clip_frames,
            "dtype": self._dtype,
        }

    @property
    def clip_shape(self) -> tuple[int, ...]:
        return (2 * self.clip_frames, self.width)

    def frame_size(self, height: int, width: int) -> tuple[int, int]:
        return self._base.frame_size(height, width)

    def similarities(self, texts: np.ndarray, clips: np.ndarray) -> np.ndarray:
        """As the base class; each clip is pooled by each text."""
        scores: np.ndarray = score_pooled(torch.from_numpy(texts), torch.from_numpy(clips)).numpy()
        return scores

    def _embed_clips(self, clips: Sequence[Sequence[np.ndarray]]) -> Tensor:
        pictures = [picture for clip in clips for picture in clip]
        frames = self._base.frame_features(pictures).view(len(clips), self.clip_frames, -1)
        return pool_by_each(frames, self._temporal(frames))

    def _embed_texts(self, texts: Sequence[str]) -> Tensor:
        return self._base.text_features(texts)
