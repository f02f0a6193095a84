"""LanguageBind_Video as an encoder: loading a checkpoint, preprocessing frames, tokenizing texts.

Preprocessing is the published one (resize the short side, center crop, OpenAI CLIP's mean and deviation)
without its random flip. The published code samples a clip's first and last frame and frames evenly between
them; here frames are the midpoints of equal parts, so that no clip shows a frame of its neighbour.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from torch import Tensor

from videopro.modules.errors import ModelError
from videopro.modules.models.encoders.interfaces import (
    CheckpointEncoder,
    StagedClips,
    short_side,
)
from videopro.modules.models.encoders.languagebind_model import LanguageBindConfig, LanguageBindVideo
from videopro.modules.models.hub import check_finite, stop_between_layers
from videopro.storage import parse_json
from videopro.video import Frame, size_to_decode

MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)


class LanguageBindEncoder(CheckpointEncoder):
    """A LanguageBind_Video checkpoint, such as LanguageBind/LanguageBind_Video_FT."""

    def __init__(
        self, source: str, *, name: str = "", device: str | None = None, dtype: str = "float32"
    ) -> None:
        """`source`: a directory or a hub name. Raises ModelError if it cannot be loaded."""
        super().__init__("languagebind", source, name, device, dtype)
        folder = self._folder
        try:
            config = LanguageBindConfig.read(parse_json((folder / "config.json").read_text(encoding="utf-8")))
            self.model = LanguageBindVideo(config)
            weights = _weights(folder)
            check_finite(f"{self.name}: {folder}", weights.items())
            self.model.load_checkpoint(weights)
            self.tokenizer = _tokenizer(folder)
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError, UnpicklingError) as error:
            # PyTorch's own error has a line for every weight that does not fit.
            reason = " ".join(str(error).split())[:300]
            raise ModelError(
                f"{self.name}: {folder} is not a usable LanguageBind_Video checkpoint: {reason}"
            ) from error
        self._place(self.model)
        stop_between_layers(self.model)
        self.clip_frames = config.vision.num_frames
        self._side = config.vision.image_size
        self._longest = config.text.max_position_embeddings

    def identity(self) -> dict[str, object]:
        return {**super().identity(), "pixels": self._side}

    def frame_size(self, height: int, width: int) -> tuple[int, int]:
        return size_to_decode(height, width, short_side(height, width, self._side))

    def _embed_clips(self, clips: Sequence[Sequence[np.ndarray]]) -> Tensor:
        pixels = torch.stack([to_pixels(clip, self._side, self._device) for clip in clips])
        return self.model.encode_video(pixels.to(getattr(torch, self._dtype)))

    def stage_clips(self, clips: Sequence[Sequence[Frame]]) -> Sequence[Sequence[Frame]]:
        """Cuts out what the model sees and puts it where a GPU reads it by itself."""
        if torch.device(self._device).type != "cuda":
            return clips
        return self._staged(clips, pinned=True)

    def _staged(self, clips: Sequence[Sequence[Frame]], *, pinned: bool) -> Sequence[Sequence[Frame]]:
        height, width = clips[0][0].image.shape[:2]
        size = short_side(height, width, self._side)
        # Another size is resized on the device, from all of its pixels.
        if (height, width) != size:
            return clips
        rows, columns = _center(size, self._side)
        shape = (len(clips), self.clip_frames, self._side, self._side, 3)
        pixels = torch.empty(shape, dtype=torch.uint8, pin_memory=pinned)
        for target, frames in zip(pixels.numpy(), clips, strict=True):
            for picture, frame in zip(target, frames, strict=True):
                picture[:] = frame.image[rows, columns]
        return StagedClips(clips, pixels)

    def _embed_pixels(self, pixels: Tensor) -> Tensor:
        moved = pixels.to(self._device, non_blocking=True).permute(0, 4, 1, 2, 3)
        return self.model.encode_video(normalized(moved, colors=1).to(getattr(torch, self._dtype)))

    def _embed_texts(self, texts: Sequence[str]) -> Tensor:
        rows: Tensor = self.model.text_projection(self.text_states(texts))
        return rows

    def frame_features(self, pictures: Sequence[np.ndarray]) -> Tensor:
        """(n, d) embeddings, not normalized, of n (height, width, 3) uint8 pictures."""
        rows: Tensor = self.model.visual_projection(self.still_states(pictures))
        return rows

    def text_features(self, texts: Sequence[str]) -> Tensor:
        """(n, d) embeddings, not normalized, of n texts."""
        return self._embed_texts(texts)

    def still_states(self, pictures: Sequence[np.ndarray]) -> Tensor:
        """(n, width) outputs of the vision tower, before its projection, for n pictures. As the tower takes
        clips of `clip_frames` frames, each picture is a clip of its copies."""
        pixels = to_pixels(pictures, self._side, self._device).transpose(0, 1)[:, :, None]
        clips = pixels.expand(-1, -1, self.clip_frames, -1, -1)
        states: Tensor = self.model.vision_model(clips.to(getattr(torch, self._dtype)))
        return states

    def text_states(self, texts: Sequence[str]) -> Tensor:
        """(n, width) outputs of the text tower, before its projection, for n texts."""
        tokens = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=self._longest, return_tensors="pt"
        ).to(self._device)
        states: Tensor = self.model.text_model(tokens.input_ids, tokens.attention_mask)
        return states


def to_pixels(images: Sequence[np.ndarray], side: int, device: str | torch.device = "cpu") -> Tensor:
    """Preprocess n (height, width, 3) uint8 pictures to (3, n, side, side) float32 on `device`: normalize,
    resize, center crop."""
    height, width = images[0].shape[:2]
    size = short_side(height, width, side)
    rows, columns = _center(size, side)
    if (height, width) == size:
        # The same pixels as when cropped last, and only they are moved and normalized.
        images = [image[rows, columns] for image in images]
    # Moved as bytes, a quarter of the floats.
    pictures = normalized(torch.from_numpy(np.stack(images)).to(device).permute(0, 3, 1, 2), colors=1)
    if (height, width) != size:
        pictures = torch.nn.functional.interpolate(pictures, size, mode="bilinear", align_corners=False)
        pictures = pictures[:, :, rows, columns]
    return pictures.transpose(0, 1)


def normalized(pictures: Tensor, *, colors: int) -> Tensor:
    """uint8 pictures as float32 with the mean and deviation that the model expects; `colors`: the dimension
    of the three colors."""
    shape = [1] * pictures.ndim
    shape[colors] = 3
    mean, deviation = (torch.tensor(values, device=pictures.device).view(shape) for values in (MEAN, STD))
    return (pictures.float() / 255 - mean) / deviation


def _center(size: tuple[int, int], side: int) -> tuple[slice, slice]:
    """The rows and columns of the square in the middle."""
    top, left = (round((length - side) / 2) for length in size)
    return slice(top, top + side), slice(left, left + side)


def _weights(folder: Path) -> dict[str, Tensor]:
    """The state dict in a directory: safetensors, else PyTorch's pickle, loaded without running its code."""
    from safetensors.torch import load_file

    # Safetensors first: a folder may hold the same weights in both formats.
    read = load_file
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        files = sorted(folder.glob("pytorch_model*.bin"))
        read = partial(torch.load, map_location="cpu", weights_only=True)
    if not files:
        raise ValueError("neither model.safetensors nor pytorch_model.bin found")
    return {key: value for path in files for key, value in read(path).items()}


def _tokenizer(folder: Path) -> Any:
    """The checkpoint's tokenizer, padding on the right. Published checkpoints name a class of LanguageBind's
    package, which is CLIP's tokenizer."""
    from transformers import CLIPTokenizer, PreTrainedTokenizerFast

    settings = folder / "tokenizer_config.json"
    config = parse_json(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    is_clip = any(name in config.get("tokenizer_class", "CLIP") for name in ("LanguageBind", "CLIP"))
    kind = CLIPTokenizer if is_clip else PreTrainedTokenizerFast
    tokenizer = kind.from_pretrained(folder, padding_side="right")
    ids = tokenizer("a").input_ids
    if tokenizer.eos_token_id is None or ids[-1] != tokenizer.eos_token_id:
        raise ValueError(
            "its tokenizer does not end a text with its end token, whose output is the embedding"
        )
    # Any token does: what stands after the end of a text is not read.
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer
