"""Perception Encoder's video model (transformers' `pe_video`) as a clip encoder.

A transformer over the frames models time. `pe_audio_video` checkpoints contain the same video model and work
as well.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer, AutoVideoProcessor

from videopro.backbones import folder_fingerprint
from videopro.cli import check_extra
from videopro.modules.errors import ModelError
from videopro.modules.models.encoders.checkpoint import checkpoint_folder
from videopro.modules.models.encoders.images import target_size
from videopro.modules.models.encoders.interfaces import VideoTextEncoder
from videopro.modules.models.hub import device_of, load_pretrained
from videopro.video import size_to_decode

# Frames per clip if the checkpoint's processor does not say.
_DEFAULT_FRAMES = 16


class PeVideoTextEncoder(VideoTextEncoder):
    """A `pe_video` or `pe_audio_video` checkpoint. Needs timm (the extra "encoders")."""

    def __init__(
        self, source: str, *, name: str = "", device: str | None = None, dtype: str = "float32"
    ) -> None:
        """`source`: a directory or a hub name. Raises MissingExtra without timm, ModelError if it
        cannot be loaded or is of another kind."""
        super().__init__(name or f"pe_video:{source}")
        check_extra("encoders", "a pe_video encoder", "timm")
        folder = checkpoint_folder(source)
        model, self.tokenizer = load_pretrained(str(folder), "pe_video encoder", AutoModel, AutoTokenizer)
        model_type = model.config.model_type
        if model_type not in ("pe_video", "pe_audio_video"):
            raise ModelError(f"{self.name}: {folder} holds a {model_type!r} model, not a pe_video one")
        self.model = model if model_type == "pe_video" else model.video_model
        try:
            self.processor = AutoVideoProcessor.from_pretrained(folder)
        except (OSError, ValueError) as error:
            raise ModelError(f"{self.name}: {folder} has no video processor: {error}") from error
        self.clip_frames = self.processor.num_frames or _DEFAULT_FRAMES
        self._device, self._dtype = device_of(device), dtype
        self.model.to(self._device, getattr(torch, dtype)).eval()
        self._fingerprint = folder_fingerprint(folder)

    def identity(self) -> dict[str, object]:
        return {
            "encoder": "pe_video",
            "weights": self._fingerprint,
            "frames": self.clip_frames,
            "dtype": self._dtype,
        }

    def frame_size(self, height: int, width: int) -> tuple[int, int]:
        return size_to_decode(height, width, target_size(self.processor, height, width))

    def _embed_clips(self, clips: Sequence[Sequence[np.ndarray]]) -> torch.Tensor:
        videos = [np.stack(list(clip)) for clip in clips]
        inputs = self.processor(videos, do_sample_frames=False, return_tensors="pt")
        pixels = inputs["pixel_values_videos"].to(self._device, getattr(torch, self._dtype))
        # Some transformers versions do not expose get_video_features, so call its parts.
        rows: torch.Tensor = self.model.video_head(self.model.video_encoder(pixels).pooler_output)
        return rows

    def _embed_texts(self, texts: Sequence[str]) -> torch.Tensor:
        longest = self.model.config.text_config.max_position_embeddings
        tokens = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=longest, return_tensors="pt"
        ).to(self._device)
        output = self.model.text_model(
            input_ids=tokens.input_ids, attention_mask=tokens.attention_mask, output_hidden_states=True
        )
        rows: torch.Tensor = self.model.text_video_head(output.hidden_states[-1][:, 0])
        return rows
