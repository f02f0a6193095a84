"""Reading text in a picture: RapidOCR, whose models come with the package and need no network, or EasyOCR."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from videopro.errors import ConfigError
from videopro.modules.errors import ModelError
from videopro.storage import encodable

# Signs and captions of small videos are too small for the detectors' training: enlarged to this side first.
_SHORTEST_SIDE = 480


@dataclass(frozen=True)
class TextRegion:
    """One piece of text, as it stands in the picture."""

    text: str
    box: tuple[float, float, float, float]
    """x0, y0, x1, y1 in 0..1 of the picture."""
    score: float
    """0 to 1, by the reader's own measure."""


class Ocr(ABC):
    """Reads text; thread safe."""

    @abstractmethod
    def identity(self) -> object:
        """What its results rest on, JSON-able."""

    def read(self, image: np.ndarray) -> list[TextRegion]:
        """The texts in a picture ((height, width, 3) uint8 RGB), from top to bottom, then left to right; an
        empty list where there is none."""
        height, width = image.shape[:2]
        factor = _SHORTEST_SIDE / min(height, width)
        if factor > 1:
            # Bounded, so that a thin strip does not become a picture of millions of pixels.
            factor = min(factor, max(1.0, 4096 / max(height, width)))
            size = (round(width * factor), round(height * factor))
            image = np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BICUBIC))
        return sort_reading_order(self._read(np.ascontiguousarray(image)))

    @abstractmethod
    def _read(self, image: np.ndarray) -> list[TextRegion]:
        """The texts, in any order."""


def sort_reading_order(words: list[TextRegion]) -> list[TextRegion]:
    """By rows, top to bottom; pieces whose middles lie within half their height of each other share a row."""
    left = sorted(words, key=lambda line: (line.box[1] + line.box[3]) / 2)
    ordered: list[TextRegion] = []
    while left:
        first = left[0]
        middle, height = (first.box[1] + first.box[3]) / 2, first.box[3] - first.box[1]
        row = [line for line in left if (line.box[1] + line.box[3]) / 2 - middle <= height / 2]
        ordered += sorted(row, key=lambda line: line.box[0])
        left = [line for line in left if line not in row]
    return ordered


class RapidOcr(Ocr):
    """RapidOCR with the models inside its package (PP-OCR, Chinese and English)."""

    def __init__(self, threads: int = 1) -> None:
        """`threads` of ONNX Runtime for one picture."""
        from rapidocr import RapidOCR

        self._engine: Any = RapidOCR(
            params={
                "Global.log_level": "error",
                # Its own default would enlarge every picture once more, to 736: twice the time, and no more
                # signs of pocket read (22 of 24 either way).
                "Det.limit_side_len": _SHORTEST_SIDE,
                "EngineConfig.onnxruntime.intra_op_num_threads": threads,
                "EngineConfig.onnxruntime.inter_op_num_threads": threads,
            }
        )
        self._lock = threading.Lock()

    def identity(self) -> object:
        from importlib.metadata import version

        return ["rapidocr", version("rapidocr"), _SHORTEST_SIDE]

    def _read(self, image: np.ndarray) -> list[TextRegion]:
        with self._lock:
            found = self._engine(image[:, :, ::-1])
        if found.boxes is None:
            return []
        height, width = image.shape[:2]
        return [
            _text_region(text, np.asarray(corners), float(score), height, width)
            for corners, text, score in zip(found.boxes, found.txts, found.scores, strict=True)
        ]


class EasyOcr(Ocr):
    """EasyOCR, in any of its languages; it fetches its models at the first use."""

    def __init__(self, languages: tuple[str, ...] = ("en",)) -> None:
        """`languages` by EasyOCR's codes ("en", "ch_sim"). ModelError where the extra or a model is
        missing."""
        try:
            import easyocr
        except ImportError as error:
            raise ModelError("OCR by EasyOCR needs its package: pip install videopro[easyocr]") from error
        try:
            self._reader: Any = easyocr.Reader(list(languages), verbose=False)
        except (ValueError, OSError) as error:
            raise ModelError(
                f"EasyOCR cannot read {', '.join(languages)}: {error}; check the codes of the languages and "
                "that its models can be fetched, or use rapidocr, which needs no network"
            ) from error
        self._languages = languages
        self._lock = threading.Lock()

    def identity(self) -> object:
        return ["easyocr", *self._languages]

    def _read(self, image: np.ndarray) -> list[TextRegion]:
        with self._lock:
            found = self._reader.readtext(image)
        height, width = image.shape[:2]
        return [
            _text_region(text, np.asarray(corners), float(score), height, width)
            for corners, text, score in found
        ]


def load_ocr(spec: str) -> Ocr:
    """ "rapidocr", or "easyocr" with its languages: "easyocr:en,ch_sim". ConfigError for anything else."""
    kind, _, languages = spec.partition(":")
    if spec == "rapidocr":
        return RapidOcr()
    if kind == "easyocr":
        return EasyOcr(tuple(languages.split(",")) if languages else ("en",))
    raise ConfigError(f"ocr {spec!r}: write 'rapidocr' or 'easyocr:en'")


def _text_region(text: str, corners: np.ndarray, score: float, height: int, width: int) -> TextRegion:
    """From the four corners of a piece of text, which may be slanted."""
    x0, y0 = corners.min(axis=0)
    x1, y1 = corners.max(axis=0)
    return TextRegion(
        encodable(text), (float(x0 / width), float(y0 / height), float(x1 / width), float(y1 / height)), score
    )
