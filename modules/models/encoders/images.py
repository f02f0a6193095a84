"""CLIP and SigLIP 2 (transformers) as clip encoders: a clip's embedding is the mean of its frames'
embeddings, so the order of frames makes no difference.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize
from transformers import AutoModel, AutoProcessor

from videopro.backbones import folder_fingerprint
from videopro.modules.errors import ModelError
from videopro.modules.models.encoders.checkpoint import checkpoint_folder
from videopro.modules.models.encoders.interfaces import VideoTextEncoder, short_side
from videopro.modules.models.hub import device_of, load_pretrained
from videopro.video import size_to_decode

# `model_type` of each kind's checkpoints; fixed-size SigLIP 2 checkpoints use the SigLIP class.
_MODEL_TYPES = {"clip": ("clip",), "siglip2": ("siglip", "siglip2")}


class ImageTextEncoder(VideoTextEncoder):
    """A CLIP or SigLIP 2 checkpoint (`kind` "clip" or "siglip2")."""

    clip_frames = 8

    def __init__(
        self, source: str, *, kind: str, name: str = "", device: str | None = None, dtype: str = "float32"
    ) -> None:
        """`source`: a directory or a hub name. Raises ModelError if it cannot be loaded or is of another
        kind."""
        super().__init__(name or f"{kind}:{source}")
        self._kind = kind
        folder = checkpoint_folder(source)
        self.model, self.processor = load_pretrained(str(folder), f"{kind} encoder", AutoModel, AutoProcessor)
        model_type = self.model.config.model_type
        if model_type not in _MODEL_TYPES[kind]:
            raise ModelError(f"{self.name}: {folder} holds a {model_type!r} model, not one for {kind!r}")
        self._device, self._dtype = device_of(device), dtype
        self.model.to(self._device, getattr(torch, dtype)).eval()
        self._fingerprint = folder_fingerprint(folder)

    def identity(self) -> dict[str, object]:
        return {
            "encoder": self._kind,
            "weights": self._fingerprint,
            "frames": self.clip_frames,
            "dtype": self._dtype,
        }

    def for_frames(self) -> ImageTextEncoder:
        # The model and the lock are shared, so calls still run one at a time.
        single = copy.copy(self)
        single.clip_frames = 1
        return single

    def frame_size(self, height: int, width: int) -> tuple[int, int]:
        return size_to_decode(height, width, target_size(self.processor.image_processor, height, width))

    def frame_features(self, pictures: Sequence[np.ndarray]) -> torch.Tensor:
        """(n, d) embeddings, not normalized, of n (height, width, 3) uint8 pictures."""
        inputs = self.processor.image_processor(pictures, return_tensors="pt").to(self._device)
        inputs["pixel_values"] = inputs["pixel_values"].to(getattr(torch, self._dtype))
        rows: torch.Tensor = self.model.get_image_features(**inputs).pooler_output
        return rows

    def text_features(self, texts: Sequence[str]) -> torch.Tensor:
        """(n, d) embeddings, not normalized, of n texts."""
        rows: torch.Tensor = self.model.get_text_features(**self.tokens(texts).to(self._device)).pooler_output
        return rows

    def _embed_clips(self, clips: Sequence[Sequence[np.ndarray]]) -> torch.Tensor:
        rows = self.frame_features([picture for clip in clips for picture in clip])
        # Each frame counts alike, however long its embedding.
        return normalize(rows.float(), dim=-1).view(len(clips), self.clip_frames, -1).mean(1)

    def _embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
        return self.text_features(texts)

    def tokens(self, texts: Sequence[str]) -> Any:
        longest = self.model.config.text_config.max_position_embeddings
        if self._kind == "clip":
            return self.processor.tokenizer(
                list(texts), padding=True, truncation=True, max_length=longest, return_tensors="pt"
            )
        # SigLIP 2 was trained on lower-case texts padded to the full length, without a mask.
        return self.processor.tokenizer(
            [text.lower() for text in texts],
            padding="max_length",
            truncation=True,
            max_length=longest,
            return_attention_mask=False,
            return_tensors="pt",
        )


def target_size(processor: Any, height: int, width: int) -> tuple[int, int]:
    """The (height, width) to which a transformers image or video processor resizes a picture, so that the
    video can be decoded at that size."""
    size = processor.size
    if size is not None and size.height and size.width:
        return size.height, size.width
    if size is not None and size.shortest_edge:
        return short_side(height, width, size.shortest_edge)
    # SigLIP 2 NaFlex: any shape up to a number of patches; never enlarged.
    area = processor.max_num_patches * processor.patch_size**2
    scale = min(1.0, (area / (height * width)) ** 0.5)
    return max(1, round(height * scale)), max(1, round(width * scale))
