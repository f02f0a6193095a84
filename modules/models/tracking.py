"""Following named things through frames: SAM 3's video model, or a detector's finds linked frame by frame.

SAM 3 plays the part that DEVA has in the paper. Boxes are fractions of the picture.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

from PIL import Image

from videopro.errors import ConfigError
from videopro.modules.errors import ModelError
from videopro.modules.models.detection import Corners, Detection, Detector
from videopro.modules.models.hub import device_of, load_pretrained
from videopro.video import Frame

# How far a thing may go between two frames, in diagonals of its box.
_FARTHEST = 2.0


@dataclass(frozen=True)
class Track:
    """One thing through the frames."""

    boxes: tuple[Corners | None, ...]
    """One for each frame; None where it is not seen. At least one is a box."""
    score: float
    """0 to 1: the best score of its finds."""


class Tracker(ABC):
    """Follows things by name; thread safe."""

    @abstractmethod
    def identity(self) -> object:
        """What its results rest on, JSON-able."""

    def frame_size(self, height: int, width: int) -> tuple[int, int] | None:
        """(height, width) at which it wants whole frames of (height, width) pixels; None: as they are."""
        return None

    @abstractmethod
    def track(self, frames: Sequence[Frame], text: str) -> list[Track]:
        """Things called `text` in frames of one size, in order of time; the ones seen first come first."""


class Sam3Tracker(Tracker):
    """SAM 3 (`facebook/sam3`) over a video, prompted with words, by transformers."""

    def __init__(self, name: str, *, device: str | None = None) -> None:
        """`name`: hub name or folder. ModelError for one that cannot be loaded."""
        from transformers import Sam3VideoModel, Sam3VideoProcessor

        self._name = name
        self._device = device_of(device)
        self._model, self._processor = load_pretrained(name, "tracker", Sam3VideoModel, Sam3VideoProcessor)
        self._model.to(self._device).eval()
        self._lock = threading.Lock()

    def identity(self) -> object:
        return ["sam3", self._name]

    def track(self, frames: Sequence[Frame], text: str) -> list[Track]:
        import torch

        height, width = frames[0].image.shape[:2]
        boxes: dict[int, list[Corners | None]] = {}
        scores: dict[int, float] = {}
        with self._lock, torch.inference_mode():
            # The frames wait on the CPU: hundreds at the model's 1008 x 1008 would fill an accelerator.
            session = self._processor.init_video_session(
                video=[Image.fromarray(frame.image) for frame in frames],
                inference_device=self._device,
                processing_device="cpu",
                video_storage_device="cpu",
                dtype=self._model.dtype,
            )
            session = self._processor.add_text_prompt(session, text)
            for output in self._model.propagate_in_video_iterator(session):
                shown = self._processor.postprocess_outputs(session, output)
                for number, score, (x0, y0, x1, y1) in zip(
                    shown["object_ids"].tolist(),
                    shown["scores"].tolist(),
                    shown["boxes"].tolist(),
                    strict=True,
                ):
                    # Bounds of a mask are pixels that belong to it.
                    box = (x0 / width, y0 / height, (x1 + 1) / width, (y1 + 1) / height)
                    boxes.setdefault(number, [None] * len(frames))[output.frame_idx] = box
                    scores[number] = max(scores.get(number, 0.0), float(score))
        return _first_seen_first([Track(tuple(boxes[number]), scores[number]) for number in boxes])


class DetectionTracker(Tracker):
    """A detector in every frame, its finds linked by how near they are: for frames a second apart or so,
    where nothing knows masks."""

    def __init__(self, detector: Detector, *, box_threshold: float = 0.5) -> None:
        self._detector = detector
        self._threshold = box_threshold

    def identity(self) -> object:
        return ["linked", self._threshold, self._detector.identity()]

    def frame_size(self, height: int, width: int) -> tuple[int, int] | None:
        return self._detector.frame_size(height, width)

    def track(self, frames: Sequence[Frame], text: str) -> list[Track]:
        found = [
            self._detector.detect(frame, text, box_threshold=self._threshold, text_threshold=0.25)
            for frame in frames
        ]
        return _first_seen_first(link_detections(found))


def link_detections(found: Sequence[Sequence[Detection]]) -> list[Track]:
    """Finds of consecutive frames as tracks: nearest pairs first, each find in one track, none farther than
    two diagonals of its box for every frame since the track was last seen."""
    chains: list[dict[int, Detection]] = []
    for number, detections in enumerate(found):
        pairs = sorted(
            (distance, i, j)
            for i, chain in enumerate(chains)
            for j, detection in enumerate(detections)
            if (distance := _distance(chain[max(chain)].box, detection.box))
            <= _FARTHEST * (number - max(chain))
        )
        taken_chains: set[int] = set()
        taken: set[int] = set()
        for _, i, j in pairs:
            if i not in taken_chains and j not in taken:
                chains[i][number] = detections[j]
                taken_chains.add(i)
                taken.add(j)
        chains += [{number: detection} for j, detection in enumerate(detections) if j not in taken]
    return [
        Track(
            tuple(chain[number].box if number in chain else None for number in range(len(found))),
            max(detection.score for detection in chain.values()),
        )
        for chain in chains
    ]


def _distance(a: Corners, b: Corners) -> float:
    """Between the middles of two boxes, in mean diagonals."""
    dx = (a[0] + a[2] - b[0] - b[2]) / 2
    dy = (a[1] + a[3] - b[1] - b[3]) / 2
    diagonal = (hypot(a[2] - a[0], a[3] - a[1]) + hypot(b[2] - b[0], b[3] - b[1])) / 2
    return hypot(dx, dy) / diagonal


def _first_seen_first(tracks: list[Track]) -> list[Track]:
    def when(track: Track) -> tuple[int, float]:
        return next(i for i, box in enumerate(track.boxes) if box), -track.score

    return sorted(tracks, key=when)


def load_tracker(spec: str, detector: Detector | None, *, device: str | None = None) -> Tracker:
    """ "sam3:HUB_OR_FOLDER", or "detector" for linked finds of the detector that is given. ConfigError for
    anything else, ModelError for "detector" without one."""
    kind, _, name = spec.partition(":")
    if kind == "sam3" and name:
        return Sam3Tracker(name, device=device)
    if spec == "detector":
        if detector is None:
            raise ModelError("tracker 'detector' needs a detector; set one up, or use sam3:facebook/sam3")
        return DetectionTracker(detector)
    raise ConfigError(f"tracker {spec!r}: write 'detector' or sam3:NAME, as in sam3:facebook/sam3")
