"""Embedding models for retrieval: of clips and texts in one space, or of texts only.

Model libraries are imported only when `load_encoder` or `load_text_encoder` needs them.
"""

from __future__ import annotations

from pathlib import Path

from videopro.errors import ConfigError
from videopro.modules.errors import ModelError
from videopro.modules.models.encoders.base import BATCH_SIZE, TextEncoder, VideoTextEncoder
from videopro.settings import did_you_mean

__all__ = [
    "BATCH_SIZE",
    "TextEncoder",
    "VideoTextEncoder",
    "load_encoder",
    "load_text_encoder",
    "pocket_folder",
]

# The checkpoint of a name without ":".
DEFAULTS = {
    "languagebind": "LanguageBind/LanguageBind_Video_FT",
    "clip": "openai/clip-vit-large-patch14",
    "siglip2": "google/siglip2-base-patch16-224",
    "pe_video": "facebook/pe-av-large",
}


def pocket_folder() -> Path:
    """The directory of the shipped pocket encoder, a small LanguageBind model trained by
    `train/retrieval/encoder.py`."""
    return Path(__file__).parent / "pocket"


def load_encoder(spec: str, device: str | None = None, *, dtype: str = "float32") -> VideoTextEncoder:
    """Load a video-text encoder.

    `spec`: "pocket", or one of languagebind, clip, siglip2, pe_video, optionally followed by ":" and a
    directory or hub name of another checkpoint than the default. `device` None: the first accelerator, else
    the CPU. `dtype`: float32, bfloat16 or float16. Raises `ConfigError` for an unknown `spec` or `dtype`,
    `ModelError` for a checkpoint that cannot be loaded.
    """
    kind, _, source = spec.partition(":")
    if kind not in (*DEFAULTS, "pocket") or (kind == "pocket" and source):
        raise ConfigError(
            f"encoder {spec!r} is not known; {did_you_mean(kind, [*DEFAULTS, 'pocket'])}. A checkpoint "
            "follows a colon, as in languagebind:LanguageBind/LanguageBind_Video_FT"
        )
    if dtype not in ("float32", "bfloat16", "float16"):
        raise ConfigError(f"dtype is {dtype!r}; it must be float32, bfloat16 or float16")
    if kind == "pocket" and not (pocket_folder() / "model.safetensors").is_file():
        raise ModelError(
            f"the pocket encoder is not in {pocket_folder()}: clone the whole repository, or train it with "
            "train/retrieval/encoder.py"
        )
    source = str(pocket_folder()) if kind == "pocket" else source or DEFAULTS[kind]
    if kind in ("languagebind", "pocket"):
        from videopro.modules.models.encoders.languagebind import LanguageBindEncoder

        return LanguageBindEncoder(source, name=spec, device=device, dtype=dtype)
    if kind == "pe_video":
        from videopro.modules.models.encoders.pe_video import PeVideoTextEncoder

        return PeVideoTextEncoder(source, name=spec, device=device, dtype=dtype)
    from videopro.modules.models.encoders.images import ImageTextEncoder

    return ImageTextEncoder(source, kind=kind, name=spec, device=device, dtype=dtype)


def load_text_encoder(spec: str, device: str | None = None) -> TextEncoder:
    """Load a text encoder: a sentence-transformers model by hub name or directory, such as BAAI/bge-m3.

    Raises `ConfigError` if sentence-transformers is not installed, `ModelError` if the model cannot be
    loaded.
    """
    from videopro.modules.models.encoders.sentences import SentenceEncoder

    return SentenceEncoder(spec, device=device)
