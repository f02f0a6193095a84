"""The shipped encoders of the pocket world: a small LanguageBind model, and ASP-CLIP on it."""

from __future__ import annotations

from pathlib import Path

from videopro.modules import ModelError
from videopro.modules.models.encoders import (
    EncoderKind,
    VideoTextEncoder,
    load_asp_clip,
    load_languagebind,
)

_HERE = Path(__file__).parent


def _load_encoder(source: str, *, name: str, device: str | None, dtype: str) -> VideoTextEncoder:
    _check(source, "model.safetensors")
    return load_languagebind(source, name=name, device=device, dtype=dtype)


def _load_asp_clip(source: str, *, name: str, device: str | None, dtype: str) -> VideoTextEncoder:
    _check(source, "asp_clip.safetensors")
    return load_asp_clip(source, name=name, device=device, dtype=dtype)


def _check(folder: str, weights: str) -> None:
    """Raise ModelError for an encoder that does not come with this package, as one without Git LFS."""
    if not (Path(folder) / weights).is_file():
        raise ModelError(
            f"{folder} has no {weights}; make a full clone, or make it with python -m videopro.train.pocket"
        )


ENCODER = EncoderKind(
    "pocket",
    _load_encoder,
    str(_HERE / "encoder"),
    takes_others=False,
    about="the shipped encoder of the pocket world",
)
ASP_CLIP = EncoderKind(
    "pocket-asp",
    _load_asp_clip,
    str(_HERE / "asp_clip"),
    takes_others=False,
    about="the shipped ASP-CLIP of the pocket world",
)
