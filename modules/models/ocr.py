"""Reading text in a picture: RapidOCR, whose models are part of its package, or EasyOCR."""

from __future__ import annotations

import hashlib
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from cachetools import LRUCache
from PIL import Image

from videopro.cli import cache_root, needs_extra
from videopro.errors import ConfigError, acquired
from videopro.modules.errors import ModelError
from videopro.modules.models.hub import device_of
from videopro.storage import encodable, lock_file
from videopro.video import pad_picture, without_margin

# Text in small videos is smaller than what the models were trained on: enlarge to this shorter side first.
_SHORTEST_SIDE = 480
# RapidOCR's detector enlarges the shorter side, so that a tall strip takes gigabytes: one that is taller than
# this many times its width gets a wider margin, as RapidOCR gives to wide ones by itself.
_TALLEST = 8
# Pictures whose texts are kept: still scenes and repeated frames have the same pixels at several times.
_KEPT_PICTURES = 4096
# Cut-out texts of a pass of EasyOCR's recognizer on a GPU; by itself it takes one at a time.
_TEXTS_PER_PASS = 16
# Engines of a process, one for every two cores; the other half is left to decoding and programs. Threads are
# enough: ONNX Runtime holds no lock of Python while it computes. Each engine holds a picture's activations.
_MOST_ENGINES = 8


def _engines() -> int:
    return max(1, min(_MOST_ENGINES, len(os.sched_getaffinity(0)) // 2))


@dataclass(frozen=True)
class TextRegion:
    """One piece of text in a picture."""

    text: str
    box: tuple[float, float, float, float]
    """x0, y0, x1, y1 as fractions (0 to 1) of the picture."""
    score: float
    """The OCR model's score, 0 to 1."""


class Ocr(ABC):
    """Reads text; thread-safe."""

    def __init__(self) -> None:
        self._results: LRUCache[bytes, list[TextRegion]] = LRUCache(_KEPT_PICTURES)
        self._keeping = threading.Lock()

    @abstractmethod
    def identity(self) -> object:
        """What its results depend on, as JSON-serializable data."""

    def read(self, image: np.ndarray) -> list[TextRegion]:
        """The texts in a picture ((height, width, 3) uint8 RGB) by rows from top to bottom, left to right in
        a row; an empty list if there is none. A picture with the same pixels is read once."""
        key = hashlib.sha256(repr(image.shape).encode() + np.ascontiguousarray(image).data).digest()
        with self._keeping:
            regions = self._results.get(key)
        if regions is None:
            regions = self._read_padded(image)
            with self._keeping:
                self._results[key] = regions
        return list(regions)

    def _read_padded(self, image: np.ndarray) -> list[TextRegion]:
        height, width = image.shape[:2]
        padded = pad_picture(image, ratio=_TALLEST) if height > _TALLEST * width else pad_picture(image)
        regions = self._read_enlarged(padded)
        if padded is image:
            return regions
        return [replace(region, box=without_margin(region.box, image, padded)) for region in regions]

    def _read_enlarged(self, image: np.ndarray) -> list[TextRegion]:
        height, width = image.shape[:2]
        factor = _SHORTEST_SIDE / min(height, width)
        if factor > 1:
            # Bounded: a thin strip would become a huge picture.
            factor = min(factor, max(1.0, 4096 / max(height, width)))
            size = (round(width * factor), round(height * factor))
            image = np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BICUBIC))
        return sort_reading_order(self._read(np.ascontiguousarray(image)))

    @abstractmethod
    def _read(self, image: np.ndarray) -> list[TextRegion]:
        """The texts in any order."""


def sort_reading_order(regions: list[TextRegion]) -> list[TextRegion]:
    """Sort by rows, top to bottom. Texts whose middles are at most half a height apart share a row."""
    remaining = sorted(regions, key=_middle)
    ordered: list[TextRegion] = []
    while remaining:
        first = remaining[0]
        height = first.box[3] - first.box[1]
        row = [word for word in remaining if _middle(word) - _middle(first) <= height / 2]
        ordered += sorted(row, key=lambda word: word.box[0])
        remaining = [word for word in remaining if word not in row]
    return ordered


def _middle(word: TextRegion) -> float:
    return (word.box[1] + word.box[3]) / 2


class RapidOcr(Ocr):
    """RapidOCR with the models in its package (PP-OCR, Chinese and English); needs no network."""

    def __init__(self, threads: int = 1) -> None:
        """`threads`: threads of ONNX Runtime per picture."""
        super().__init__()
        self._threads = threads
        # An engine reads one picture at a time; programs about many videos wait for it.
        self._engine_slots = threading.BoundedSemaphore(_engines())
        self._free: deque[Any] = deque([self._engine()])

    def _engine(self) -> Any:
        from rapidocr import RapidOCR

        return RapidOCR(
            params={
                "Global.log_level": "error",
                # The default enlarges every picture again, to 736: twice the time, and no more of drawn
                # signs are read (22 of 24 either way).
                "Det.limit_side_len": _SHORTEST_SIDE,
                # Without it each picture's memory is taken from the system anew, a quarter of the time.
                "EngineConfig.onnxruntime.enable_cpu_mem_arena": True,
                "EngineConfig.onnxruntime.intra_op_num_threads": self._threads,
                "EngineConfig.onnxruntime.inter_op_num_threads": self._threads,
            }
        )

    def identity(self) -> object:
        from importlib.metadata import version

        # The version stands for the models, which are in its package.
        return ["rapidocr", version("rapidocr"), _SHORTEST_SIDE]

    def _read(self, image: np.ndarray) -> list[TextRegion]:
        with acquired(self._engine_slots):
            try:
                engine = self._free.pop()
            except IndexError:
                engine = self._engine()
            try:
                # RapidOCR takes OpenCV's order of colours.
                result = engine(image[:, :, ::-1])
            finally:
                self._free.append(engine)
        if result.boxes is None:
            return []
        return _regions(zip(result.boxes, result.txts, result.scores, strict=True), image)


@contextmanager
def _download_turn() -> Iterator[None]:
    """One process after the other, where the disk has locks: every download of EasyOCR has the same temporary
    name, and what another process still writes is taken for damaged."""
    folder = cache_root()
    with ExitStack() as stack:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            lock_file(stack.enter_context((folder / "easyocr.lock").open("w")).fileno())
        yield


class EasyOcr(Ocr):
    """EasyOCR, in any of its languages: a CRAFT detector and CRNN recognizers."""

    def __init__(
        self, languages: tuple[str, ...] = ("en",), *, folder: str | None = None, device: str | None = None
    ) -> None:
        """`languages`: EasyOCR's codes ("en", "ch_sim"). `folder`: its weight files, under the names that
        EasyOCR gives them; None: those in its own cache, downloaded at the first use. Raises MissingExtra
        without the package, ModelError without a model."""
        super().__init__()
        with needs_extra("easyocr", "ocr=easyocr"):
            import easyocr
        if folder is not None and not Path(folder).is_dir():
            # EasyOCR would make it.
            raise ModelError(f"EasyOCR: no such folder {folder!r}; pass one with its weight files")
        try:
            with _download_turn() if folder is None else nullcontext():
                self._reader: Any = easyocr.Reader(
                    list(languages),
                    gpu=device_of(device),
                    model_storage_directory=folder,
                    # With a user's folder, a missing file is an error and not downloaded.
                    download_enabled=folder is None,
                    verbose=False,
                )
        # A download that was cut off is no zip file, or does not have the sum that EasyOCR asserts.
        except (ValueError, OSError, RuntimeError, BadZipFile, AssertionError) as error:
            raise ModelError(
                f"EasyOCR cannot read {', '.join(languages)}: {error}; check the language codes and that its "
                "models can be downloaded or are in the folder, or use rapidocr, which works offline"
            ) from error
        if self._reader.device != "cpu":
            # It spreads both over all GPUs, where they run only if theirs is the first.
            self._reader.detector = self._reader.detector.module
            self._reader.recognizer = self._reader.recognizer.module
        self._languages = languages
        self._folder = folder
        # On a CPU EasyOCR takes one, whatever it is asked for.
        self._texts = 1 if self._reader.device == "cpu" else _TEXTS_PER_PASS
        self._lock = threading.Lock()

    def identity(self) -> object:
        folder = [self._folder] if self._folder is not None else []
        # The texts of a pass get the margin of the widest of them, which may change a score.
        return ["easyocr", *self._languages, *folder, *([self._texts] if self._texts > 1 else [])]

    def _read(self, image: np.ndarray) -> list[TextRegion]:
        with acquired(self._lock):
            return _regions(self._reader.readtext(image, batch_size=self._texts), image)


def load_ocr(spec: str, *, device: str | None = None) -> Ocr:
    """Load an OCR model: "rapidocr", or "easyocr" with its languages, as in "easyocr:en,ch_sim", and the
    folder of its weight files, as in "easyocr:en@FOLDER". Raises ConfigError for another `spec`."""
    kind, _, options = spec.partition(":")
    if spec == "rapidocr":
        return RapidOcr()
    if kind == "easyocr":
        languages, _, folder = options.partition("@")
        codes = tuple(languages.split(",")) if languages else ("en",)
        return EasyOcr(codes, folder=folder or None, device=device)
    raise ConfigError(f"ocr {spec!r}: write 'rapidocr', 'easyocr:en' or 'easyocr:en@FOLDER'")


def _regions(found: Iterable[tuple[Any, str, Any]], image: np.ndarray) -> list[TextRegion]:
    """The regions around the four corners (pixels) of texts, which may be slanted."""
    height, width = image.shape[:2]
    regions = []
    for corners, text, score in found:
        points = np.asarray(corners) / (width, height)
        (x0, y0), (x1, y1) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
        regions.append(TextRegion(encodable(text), (x0, y0, x1, y1), float(score)))
    return regions
