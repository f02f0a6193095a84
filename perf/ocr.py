"""Where the time goes in which RapidOCR reads a picture: in ONNX Runtime, which holds no lock of Python, or
outside, where engines in threads of one process keep each other waiting, and those in processes would not.

    python -m perf.ocr [--pictures 12] [--output perf/ocr.json]

CPU seconds of the thread that reads, with one thread of ONNX Runtime, so that other work of the machine
counts little. The pictures (640x360) have one line of text, six or twenty, in equal parts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from onnxruntime import InferenceSession  # type: ignore[import-untyped]
from PIL import Image, ImageDraw, ImageFont

from perf import ROOT
from perf.command import run_command
from perf.recording import write_record
from videopro.cli import setting
from videopro.modules.models.ocr import RapidOcr

LINES = (1, 6, 20)
"""Lines of text in a picture."""
_SIZE = (640, 360)


@dataclass(frozen=True)
class OcrSettings:
    """Measure where the time goes that OCR takes."""

    pictures: int = field(default=12, metadata=setting("pictures to read"))
    output: Path = field(default=ROOT / "perf" / "ocr.json", metadata=setting("file for the results"))


def make_picture(number: int) -> np.ndarray:
    """A picture like no other: what was read is remembered."""
    image = Image.new("RGB", _SIZE, (235, 235 - number % 40, 225))
    draw, lines = ImageDraw.Draw(image), LINES[number % len(LINES)]
    size = 14 if lines > 6 else 28
    for line in range(lines):
        corner = (20 + number % 60, 8 + line * (size + 3))
        text = f"Gate {number} row {line} EXIT"
        draw.text(corner, text, font=ImageFont.load_default(size), fill=(20, 20, 30))
    return np.asarray(image)


def measure(settings: OcrSettings) -> None:
    """Read the pictures, and write what it took."""
    pictures = [make_picture(number) for number in range(settings.pictures)]
    reader, run, spent = RapidOcr(), InferenceSession.run, [0.0]

    def timed_run(session: InferenceSession, *given: Any, **named: Any) -> Any:
        began = time.thread_time()
        result = run(session, *given, **named)
        spent[0] += time.thread_time() - began
        return result

    for number in range(len(LINES)):
        reader.read(make_picture(settings.pictures + number))
    with patch.object(InferenceSession, "run", timed_run):
        began = time.thread_time()
        regions = [reader.read(picture) for picture in pictures]
        seconds = time.thread_time() - began
    result = {
        "pictures": len(pictures),
        "texts": sum(map(len, regions)),
        "cpu_ms_a_picture": round(1000 * seconds / len(pictures)),
        "outside_onnx_runtime": round(1 - spent[0] / seconds, 3),
    }
    write_record(settings.output, result)
    print(result)


if __name__ == "__main__":
    run_command(OcrSettings, measure)
