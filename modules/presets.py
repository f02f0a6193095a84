"""The models of the paper's own modules, and what of them can be had on this machine.

Section 4 names LanguageBind_Video for clips, Easy-OCR, DEVA and Whisper; the release adds Grounding DINO and
BGE-M3, and has no tracking. DEVA has no package: the boxes of Grounding DINO are linked instead, and SAM 3 is
a setting.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from pathlib import Path

from videopro.errors import ConfigError
from videopro.extras import MissingExtra, check_extra

PAPER: Mapping[str, str] = {
    "encoder": "languagebind",
    "text_encoder": "BAAI/bge-m3",
    "ocr": "easyocr:en",
    "detector": "grounding-dino:IDEA-Research/grounding-dino-base",
    "tracker": "detector",
    "speech": "whisper",
}
"""The preset "paper", by the settings of `ModuleSettings`."""
PAPER_FRAMES = 64
"""Frames a call (section 4)."""

WHISPER = tuple(
    f"openai/whisper-{size}" for size in ("large-v3-turbo", "large-v3", "large-v2", "medium", "small")
)
"""The checkpoints that speech "whisper" looks for, best first."""
NO_WHISPER = "no transcript: Whisper is not on this machine"
"""The note on a question whose video could not be transcribed for that reason."""

_NAMES = {
    "encoder": "LanguageBind_Video_FT",
    "text_encoder": "BGE-M3",
    "ocr": "EasyOCR",
    "detector": "Grounding DINO",
}
_HUB = {
    "encoder": "LanguageBind/LanguageBind_Video_FT",
    "text_encoder": "BAAI/bge-m3",
    "detector": "IDEA-Research/grounding-dino-base",
}
_FOLDERS = {
    "encoder": "languagebind:FOLDER",
    "text_encoder": "FOLDER",
    "ocr": "easyocr:en@FOLDER",
    "detector": "grounding-dino:FOLDER",
}
"""How a setting names a part that is in a folder."""
_EXTRAS = {"text_encoder": ("encoders", "sentence_transformers"), "ocr": ("easyocr", "easyocr")}
"""The extra and the package that a part needs."""


def find_whisper() -> str | None:
    """The best Whisper checkpoint that is on this machine, as a setting of `speech`; None if there is none.
    Nothing is downloaded."""
    name = next((name for name in WHISPER if is_here(name)), None)
    return None if name is None else f"whisper:{name}"


def is_here(name: str) -> bool:
    """Whether a checkpoint is a folder, or in the cache of the hub with its config and weights."""
    if Path(name).is_dir():
        return True
    from huggingface_hub import try_to_load_from_cache

    weights = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
    return isinstance(try_to_load_from_cache(name, "config.json"), str) and any(
        isinstance(try_to_load_from_cache(name, file), str) for file in weights
    )


def paper_notes(settings: Mapping[str, str]) -> list[str]:
    """What of the preset is not as in the paper, given the resulting settings, without stopping a run."""
    notes = []
    if settings["tracker"] == PAPER["tracker"]:
        notes.append(
            "preset paper: DEVA has no package; tracking links the boxes of the detector instead "
            "(tracker=sam3:facebook/sam3 comes nearer)"
        )
    if settings["speech"] == PAPER["speech"] and find_whisper() is None:
        notes.append(
            "preset paper: Whisper is not on this machine, so videos without subtitles have no transcript; "
            f"fetch {WHISPER[0]} with `hf download {WHISPER[0]}`, or name one with speech=whisper:FOLDER"
        )
    if settings["speech"] == "none":
        notes.append(
            "preset paper: no video is transcribed (speech=none, or a protocol without subtitles); "
            "speech=whisper transcribes those without subtitles"
        )
    return notes


def check_paper_parts(settings: Mapping[str, str], flag: str) -> None:
    """Raise ConfigError, naming each, for parts of the preset that can neither be found on this machine nor
    be downloaded. Parts for which another model is named are not checked. `flag`: how the command at hand
    leaves out a part, as in `ModuleModels`."""
    problems = {
        part: why for part in _NAMES if settings[part] == PAPER[part] and (why := _problem(part)) is not None
    }
    if problems:
        parts = []
        for part, why in problems.items():
            without = flag.format(part=part, option=part.replace("_", "-"))
            folder = without.replace("none", _FOLDERS[part])
            parts.append(f"  {_NAMES[part]}: {why} (from a folder: {folder}; without it: {without})")
        listed = "\n".join([*parts, *paper_notes(settings)])
        raise ConfigError(f"preset paper: these of its parts cannot be had here:\n{listed}")


def _problem(part: str) -> str | None:
    """Why a part cannot be had; None if it can."""
    if part in _EXTRAS:
        try:
            check_extra(_EXTRAS[part][0], "it", _EXTRAS[part][1])
        except MissingExtra as error:
            return str(error)
    if part == "ocr":
        return _easyocr_problem()
    name = _HUB[part]
    if is_here(name):
        return None
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return f"{name} is not in the cache, and HF_HUB_OFFLINE is set"
    return _unreachable(f"{constants.ENDPOINT}/api/models/{name}", name)


def _easyocr_problem() -> str | None:
    from easyocr import config

    models = (
        config.detection_models["craft"],
        config.recognition_models["gen2"]["english_g2"],
    )
    folder = Path(config.MODULE_PATH) / "model"
    for model in models:
        if not (folder / model["filename"]).is_file() and (
            why := _unreachable(model["url"], str(model["filename"]))
        ):
            return f"{why}; put it into {folder}"
    return None


def _unreachable(url: str, what: str) -> str | None:
    """Why something that is not on this machine cannot be downloaded."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=5):
            return None
    except OSError as error:
        host = url.split("/")[2]
        return (
            f"{what} is not on this machine, and {host} does not give it ({getattr(error, 'reason', error)})"
        )
