"""Embedding models for retrieval: of clips and texts in one space, or of texts only.

Model libraries are imported only when `load_encoder` or `load_text_encoder` needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from videopro.errors import ConfigError
from videopro.modules.errors import ModelError
from videopro.modules.models.encoders.interfaces import AUTO_DTYPE as AUTO_DTYPE
from videopro.modules.models.encoders.interfaces import BATCH_SIZE as BATCH_SIZE
from videopro.modules.models.encoders.interfaces import DTYPES as DTYPES
from videopro.modules.models.encoders.interfaces import TextEncoder as TextEncoder
from videopro.modules.models.encoders.interfaces import VideoTextEncoder as VideoTextEncoder
from videopro.modules.models.encoders.interfaces import check_dtype as check_dtype
from videopro.modules.models.encoders.interfaces import resolve_dtype as resolve_dtype
from videopro.plugins import Registry


@dataclass(frozen=True)
class EncoderKind:
    """A video-text encoder by name, as `--encoder NAME` or `--encoder NAME:CHECKPOINT` asks for it."""

    name: str
    load: Callable[..., VideoTextEncoder]
    """`load(checkpoint, name=..., device=..., dtype=...)`: imports model libraries, and raises ModelError for
    a checkpoint that cannot be loaded. `name` is the whole setting, for messages."""
    checkpoint: str = ""
    """The directory or hub name that is loaded if none follows; empty: one must follow."""
    takes_others: bool = True
    """Whether another checkpoint may follow."""
    about: str = ""
    """For `videopro models`."""
    extra: tuple[str, str] = ("", "")
    """The extra that it needs, and one of its packages."""

    @property
    def folder(self) -> Path | None:
        """Its checkpoint, if that is a directory."""
        return Path(self.checkpoint) if Path(self.checkpoint).is_absolute() else None


def _pe_video(source: str, **options: Any) -> VideoTextEncoder:
    from videopro.modules.models.encoders.images import PeVideoTextEncoder

    return PeVideoTextEncoder(source, **options)


def _images(source: str, **options: Any) -> VideoTextEncoder:
    from videopro.modules.models.encoders.images import ImageTextEncoder

    return ImageTextEncoder(source, **options)


def load_asp_clip(source: str, *, name: str, device: str | None, dtype: str) -> VideoTextEncoder:
    """ASP-CLIP from the directory that `train/retrieval/asp_clip.py` wrote, on its base."""
    from videopro.modules.models.encoders.asp_clip import AspClipConfig, AspClipEncoder
    from videopro.modules.models.encoders.images import ImageTextEncoder
    from videopro.modules.models.encoders.languagebind import LanguageBindEncoder

    folder = Path(source).expanduser()
    base = AspClipConfig.read(folder).base
    loaded = load_encoder(f"clip:{folder}" if base == "." else base, device, dtype=dtype)
    if not isinstance(loaded, ImageTextEncoder | LanguageBindEncoder):
        raise ModelError(
            f"{name}: {folder} is built on {base!r}, which has no single-frame features; bases are clip, "
            "siglip2 and models with languagebind's architecture"
        )
    return AspClipEncoder(folder, loaded, name=name, dtype=dtype)


def load_languagebind(source: str, **options: Any) -> VideoTextEncoder:
    """A checkpoint of LanguageBind_Video's architecture."""
    from videopro.modules.models.encoders.languagebind import LanguageBindEncoder

    return LanguageBindEncoder(source, **options)


_KINDS = (
    EncoderKind("languagebind", load_languagebind, "LanguageBind/LanguageBind_Video_FT"),
    EncoderKind("clip", partial(_images, kind="clip"), "openai/clip-vit-large-patch14"),
    EncoderKind("siglip2", partial(_images, kind="siglip2"), "google/siglip2-base-patch16-224"),
    EncoderKind("pe_video", _pe_video, "facebook/pe-av-large", extra=("encoders", "timm")),
    # None is on the hub.
    EncoderKind("asp-clip", load_asp_clip, about="ASP-CLIP as videopro asp-clip trained it"),
)
ENCODERS: Registry[EncoderKind] = Registry(
    "encoder",
    lambda value: isinstance(value, EncoderKind),
    {kind.name: kind for kind in _KINDS},
    what="an EncoderKind (videopro.modules.models.encoders)",
)


def read_encoder(spec: str) -> tuple[EncoderKind, str]:
    """The kind and the checkpoint of "NAME" or "NAME:CHECKPOINT". Raises ConfigError for any other."""
    name, _, source = spec.partition(":")
    kind = ENCODERS[name]
    if source and not kind.takes_others:
        raise ConfigError(f"encoder {spec!r}: {name} has no other checkpoint; write {name}")
    if not source and not kind.checkpoint:
        raise ConfigError(
            f"encoder {spec!r} needs the directory of a checkpoint, as in {name}:runs/asp_clip/model"
        )
    return kind, source or kind.checkpoint


def load_encoder(spec: str, device: str | None = None, *, dtype: str = AUTO_DTYPE) -> VideoTextEncoder:
    """Load a video-text encoder.

    `spec`: a name of `ENCODERS`, such as languagebind, clip, siglip2 or pe_video, optionally followed by ":"
    and a directory or hub name of another checkpoint; or "asp-clip:" and a directory. `device` None: the
    first accelerator, else the CPU. `dtype`: float32, bfloat16, float16, or "auto" (`resolve_dtype`). Raises
    `ConfigError` for an unknown `spec` or `dtype`, `ModelError` for a checkpoint that cannot be loaded."""
    kind, source = read_encoder(spec)
    check_dtype("dtype", dtype)
    return kind.load(source, name=spec, device=device, dtype=resolve_dtype(dtype, device))


def load_text_encoder(spec: str, device: str | None = None) -> TextEncoder:
    """Load a text encoder: a sentence-transformers model by hub name or directory, such as BAAI/bge-m3.

    Raises `MissingExtra` if sentence-transformers is not installed, `ModelError` if the model cannot be
    loaded.
    """
    from videopro.modules.models.encoders.images import SentenceEncoder

    return SentenceEncoder(spec, device=device)
