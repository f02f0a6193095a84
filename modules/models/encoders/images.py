"""Models of transformers as clip encoders, and of sentence-transformers as encoders of texts.

CLIP and SigLIP 2 embed a clip as the mean of its frames' embeddings, so the order of frames makes no
difference. Perception Encoder's video model (`pe_video`) has a transformer over the frames, which models
time; `pe_audio_video` checkpoints contain the same video model and work as well. BGE-M3 and others embed
subtitle lines.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch.nn.functional import normalize
from transformers import AutoModel, AutoProcessor, AutoTokenizer, AutoVideoProcessor

from videopro.backbones import folder_fingerprint
from videopro.cli import check_extra, needs_extra
from videopro.errors import acquired
from videopro.modules.errors import ModelError
from videopro.modules.models.encoders.interfaces import (
    CheckpointEncoder,
    TextEncoder,
    checkpoint_folder,
    short_side,
)
from videopro.modules.models.hub import check_finite, device_of, load_pretrained, stop_between_layers
from videopro.video import size_to_decode

# `model_type` of each kind's checkpoints; fixed-size SigLIP 2 checkpoints use the SigLIP class.
_MODEL_TYPES = {"clip": ("clip",), "siglip2": ("siglip", "siglip2")}


class ImageTextEncoder(CheckpointEncoder):
    """A CLIP or SigLIP 2 checkpoint (`kind` "clip" or "siglip2")."""

    clip_frames = 8

    def __init__(
        self, source: str, *, kind: str, name: str = "", device: str | None = None, dtype: str = "float32"
    ) -> None:
        """`source`: a directory or a hub name. Raises ModelError if it cannot be loaded or is of another
        kind."""
        super().__init__(kind, source, name, device, dtype)
        self.model, self.processor = load_pretrained(
            str(self._folder), f"{kind} encoder", AutoModel, AutoProcessor
        )
        self._check_kind(self.model, _MODEL_TYPES[kind])
        self._place(self.model)

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


# Frames per clip if the checkpoint's processor does not say.
_DEFAULT_FRAMES = 16


class PeVideoTextEncoder(CheckpointEncoder):
    """A `pe_video` or `pe_audio_video` checkpoint. Needs timm (the extra "encoders")."""

    def __init__(
        self, source: str, *, name: str = "", device: str | None = None, dtype: str = "float32"
    ) -> None:
        """`source`: a directory or a hub name. Raises MissingExtra without timm, ModelError if it
        cannot be loaded or is of another kind."""
        # Before gigabytes are fetched.
        check_extra("encoders", "a pe_video encoder", "timm")
        super().__init__("pe_video", source, name, device, dtype)
        model, self.tokenizer = load_pretrained(
            str(self._folder), "pe_video encoder", AutoModel, AutoTokenizer
        )
        self._check_kind(model, ("pe_video", "pe_audio_video"))
        self.model = model if model.config.model_type == "pe_video" else model.video_model
        try:
            self.processor = AutoVideoProcessor.from_pretrained(self._folder)
        except (OSError, ValueError) as error:
            raise ModelError(f"{self.name}: {self._folder} has no video processor: {error}") from error
        self.clip_frames = self.processor.num_frames or _DEFAULT_FRAMES
        self._place(self.model)

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


class SentenceEncoder(TextEncoder):
    """A sentence-transformers model. Queries get the query prompt of the model's configuration; BGE-M3 has
    none. Thread-safe: calls run one at a time."""

    def __init__(self, source: str, *, device: str | None = None) -> None:
        """`source`: a directory or a hub name. Raises MissingExtra without sentence-transformers,
        ModelError if the model cannot be loaded."""
        with needs_extra("encoders", "a text encoder"):
            from sentence_transformers import SentenceTransformer
        self.name = source
        folder = checkpoint_folder(source)
        try:
            self.model = SentenceTransformer(str(folder), device=device_of(device))
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise ModelError(f"{source!r}: {folder} is not a sentence-transformers model: {error}") from error
        check_finite(f"{source!r}: {folder}", self.model.named_parameters())
        stop_between_layers(self.model)
        self._fingerprint = folder_fingerprint(folder)
        # Fast tokenizers cannot be used by two threads at once.
        self._lock = threading.Lock()

    def identity(self) -> dict[str, object]:
        return {"encoder": "sentences", "weights": self._fingerprint}

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        return self._rows(self.model.encode_document, texts)

    def encode_queries(self, queries: Sequence[str]) -> np.ndarray:
        return self._rows(self.model.encode_query, queries)

    def _rows(self, encode: object, texts: Sequence[str]) -> np.ndarray:
        assert callable(encode)
        with acquired(self._lock):
            rows = encode(
                list(texts), normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
            )
        return np.asarray(rows, dtype=np.float32)
