"""Embedding models for retrieval: of clips and texts in one space, or of texts only.

Model libraries are imported only when `load_encoder` or `load_text_encoder` needs them.
"""

from __future__ import annotations

from pathlib import Path

from videopro.cli import did_you_mean
from videopro.errors import ConfigError
from videopro.modules.errors import ModelError
from videopro.modules.models.encoders.interfaces import AUTO_DTYPE as AUTO_DTYPE
from videopro.modules.models.encoders.interfaces import BATCH_SIZE as BATCH_SIZE
from videopro.modules.models.encoders.interfaces import DTYPES as DTYPES
from videopro.modules.models.encoders.interfaces import TextEncoder as TextEncoder
from videopro.modules.models.encoders.interfaces import VideoTextEncoder as VideoTextEncoder
from videopro.modules.models.encoders.interfaces import check_dtype as check_dtype
from videopro.modules.models.encoders.interfaces import resolve_dtype as resolve_dtype

CHECKPOINTS = {
    "languagebind": "LanguageBind/LanguageBind_Video_FT",
    "clip": "openai/clip-vit-large-patch14",
    "siglip2": "google/siglip2-base-patch16-224",
    "pe_video": "facebook/pe-av-large",
}
"""The checkpoint of a name without ":"."""


def pocket_folder() -> Path:
    """The directory of the shipped pocket encoder, a small LanguageBind model trained by
    `train/retrieval/encoder.py`."""
    return Path(__file__).parent / "pocket"


def pocket_asp_folder() -> Path:
    """The directory of the shipped ASP-CLIP on the pocket encoder, trained by
    `train/retrieval/asp_pocket.py`."""
    return Path(__file__).parent / "pocket_asp"


def load_encoder(spec: str, device: str | None = None, *, dtype: str = AUTO_DTYPE) -> VideoTextEncoder:
    """Load a video-text encoder.

    `spec`: "pocket", "pocket-asp", or one of languagebind, clip, siglip2, pe_video, optionally followed by
    ":" and a directory or hub name of another checkpoint than the default; or "asp-clip:" and a directory,
    since none is on the hub. `device` None: the first accelerator, else the CPU. `dtype`:
    float32, bfloat16, float16, or "auto" (`resolve_dtype`). Raises `ConfigError` for an unknown `spec` or
    `dtype`, `ModelError` for a checkpoint that cannot be loaded.
    """
    kind, _, source = spec.partition(":")
    kinds = [*CHECKPOINTS, "asp-clip", "pocket", "pocket-asp"]
    if kind not in kinds or (kind in ("pocket", "pocket-asp") and source):
        raise ConfigError(
            f"encoder {spec!r} is not known; {did_you_mean(kind, kinds)} (a checkpoint "
            "follows a colon, as in languagebind:LanguageBind/LanguageBind_Video_FT)"
        )
    check_dtype("dtype", dtype)
    dtype = resolve_dtype(dtype, device)
    if kind == "asp-clip" and not source:
        raise ConfigError(
            "encoder 'asp-clip' needs the directory that train/retrieval/asp_clip.py wrote, as in "
            "asp-clip:runs/asp_clip/model"
        )
    if kind == "pocket":
        source = _shipped(pocket_folder(), "model.safetensors", "the pocket encoder", "encoder.py")
    elif kind == "pocket-asp":
        source = _shipped(pocket_asp_folder(), "asp_clip.safetensors", "pocket-asp", "asp_pocket.py")
    source = source or CHECKPOINTS[kind]
    if kind in ("asp-clip", "pocket-asp"):
        return _load_asp_clip(Path(source).expanduser(), spec, device, dtype)
    if kind in ("languagebind", "pocket"):
        from videopro.modules.models.encoders.languagebind import LanguageBindEncoder

        return LanguageBindEncoder(source, name=spec, device=device, dtype=dtype)
    if kind == "pe_video":
        from videopro.modules.models.encoders.images import PeVideoTextEncoder

        return PeVideoTextEncoder(source, name=spec, device=device, dtype=dtype)
    from videopro.modules.models.encoders.images import ImageTextEncoder

    return ImageTextEncoder(source, kind=kind, name=spec, device=device, dtype=dtype)


def _shipped(folder: Path, weights: str, encoder: str, trainer: str) -> str:
    """The directory of an encoder that comes with the repository. Raises ModelError if it is not there."""
    if not (folder / weights).is_file():
        raise ModelError(
            f"{encoder} is not in {folder}: clone the whole repository, or train it with "
            f"train/retrieval/{trainer}"
        )
    return str(folder)


def _load_asp_clip(folder: Path, name: str, device: str | None, dtype: str) -> VideoTextEncoder:
    from videopro.modules.models.encoders.asp_clip import AspClipConfig, AspClipEncoder
    from videopro.modules.models.encoders.images import ImageTextEncoder
    from videopro.modules.models.encoders.languagebind import LanguageBindEncoder

    base = AspClipConfig.read(folder).base
    loaded = load_encoder(f"clip:{folder}" if base == "." else base, device, dtype=dtype)
    if not isinstance(loaded, ImageTextEncoder | LanguageBindEncoder):
        raise ModelError(
            f"{name}: {folder} is built on {base!r}, which has no features of single frames; bases are clip, "
            "siglip2, languagebind and pocket"
        )
    return AspClipEncoder(folder, loaded, name=name, dtype=dtype)


def load_text_encoder(spec: str, device: str | None = None) -> TextEncoder:
    """Load a text encoder: a sentence-transformers model by hub name or directory, such as BAAI/bge-m3.

    Raises `MissingExtra` if sentence-transformers is not installed, `ModelError` if the model cannot be
    loaded.
    """
    from videopro.modules.models.encoders.images import SentenceEncoder

    return SentenceEncoder(spec, device=device)
