"""The models of the paper's modules, and which are available on this machine.

Section 4 names LanguageBind_Video for clips, Easy-OCR, DEVA and Whisper; the release adds Grounding DINO and
BGE-M3, and has no tracking. DEVA has no package: the boxes of Grounding DINO are linked instead, and SAM 3 is
a setting.
"""

from __future__ import annotations

from collections.abc import Mapping

from videopro.cli import is_here

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


def find_whisper() -> str | None:
    """The best Whisper checkpoint that is on this machine, as a setting of `speech`; None if there is none.
    Nothing is downloaded."""
    name = next((name for name in WHISPER if is_here(name)), None)
    return None if name is None else f"whisper:{name}"


def paper_notes(settings: Mapping[str, str]) -> list[str]:
    """Notes where the resulting settings differ from the paper."""
    notes = []
    if settings["tracker"] == PAPER["tracker"]:
        notes.append(
            "preset paper: DEVA has no package, so tracking links the detector's boxes instead "
            "(tracker=sam3:facebook/sam3 is closer)"
        )
    if settings["speech"] == PAPER["speech"] and find_whisper() is None:
        notes.append(
            "preset paper: Whisper is not on this machine, so videos without subtitles have no transcript; "
            f"fetch {WHISPER[0]} with `hf download {WHISPER[0]}`, or set speech=whisper:FOLDER"
        )
    if settings["speech"] == "none":
        notes.append(
            "preset paper: no video is transcribed (speech=none, or a protocol without subtitles); set "
            "speech=whisper to transcribe videos without subtitles"
        )
    return notes
