"""Object tracking by name: SAM 3's video model, or a detector's boxes linked frame by frame.

SAM 3 replaces the paper's DEVA. Boxes are fractions of the picture.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

from PIL import Image

from videopro.errors import ConfigError, acquired
from videopro.modules.errors import ModelError
from videopro.modules.models.detection import Corners, Detection, Detector, clipped, has_area
from videopro.modules.models.hub import device_of, load_pretrained
from videopro.video import Frame, pad_picture

# How far an object may move between two frames, in diagonals of its box.
_MAX_MOVE = 2.0


@dataclass(frozen=True)
class Track:
    """One object across the frames."""

    boxes: tuple[Corners | None, ...]
    """One entry per frame; None where the object is not seen. At least one is a box."""
    score: float
    """The best score of its detections, 0 to 1."""


class Tracker(ABC):
    """Tracks objects by name; thread-safe."""

    @abstractmethod
    def identity(self) -> object:
        """What its results depend on, as JSON-serializable data."""

    def frame_size(self, height: int, width: int) -> tuple[int, int] | None:
        """The (height, width) to which frames of (height, width) pixels are decoded; None: the video's
        own."""
        return None

    @abstractmethod
    def track(self, frames: Sequence[Frame], text: str) -> list[Track]:
        """Track objects called `text` in frames of one size, sorted by time; objects in order of
        appearance."""


class Sam3Tracker(Tracker):
    """SAM 3 (`facebook/sam3`) for videos with a text prompt, in transformers."""

    def __init__(self, name: str, *, device: str | None = None) -> None:
        """`name`: a hub name or a local directory. Raises ModelError if it cannot be loaded."""
        import torch
        from transformers import Sam3VideoModel, Sam3VideoProcessor

        self._name = name
        self._device = device_of(device)
        self._model, self._processor = load_pretrained(name, "tracker", Sam3VideoModel, Sam3VideoProcessor)
        self._model.to(self._device, torch.bfloat16 if self._is_narrow else torch.float32).eval()
        self._lock = threading.Lock()

    @property
    def _is_narrow(self) -> bool:
        """Whether it computes in bf16, as a detector does on a GPU."""
        return self._device.startswith("cuda")

    def identity(self) -> object:
        return ["sam3", self._name, *(["bfloat16"] if self._is_narrow else [])]

    def track(self, frames: Sequence[Frame], text: str) -> list[Track]:
        import torch

        height, width = frames[0].image.shape[:2]
        pictures = [pad_picture(frame.image) for frame in frames]
        boxes: dict[int, list[Corners | None]] = {}
        scores: dict[int, float] = {}
        with acquired(self._lock), torch.inference_mode():
            # Frames stay on the CPU: hundreds at the model's 1008 x 1008 would fill an accelerator.
            session = self._processor.init_video_session(
                video=[Image.fromarray(picture) for picture in pictures],
                inference_device=self._device,
                processing_device="cpu",
                video_storage_device="cpu",
                dtype=self._model.dtype,
            )
            session = self._processor.add_text_prompt(session, text)
            for output in self._model.propagate_in_video_iterator(session):
                objects = self._processor.postprocess_outputs(session, output)
                for number, score, (x0, y0, x1, y1) in zip(
                    objects["object_ids"].tolist(),
                    objects["scores"].tolist(),
                    objects["boxes"].tolist(),
                    strict=True,
                ):
                    # A mask's bounds are inclusive pixels; it may reach into the margin.
                    box = clipped((x0 / width, y0 / height, (x1 + 1) / width, (y1 + 1) / height))
                    if has_area(box):
                        boxes.setdefault(number, [None] * len(frames))[output.frame_idx] = box
                        scores[number] = max(scores.get(number, 0.0), score)
        return _by_appearance([Track(tuple(boxes[number]), scores[number]) for number in boxes])


class DetectionTracker(Tracker):
    """Runs a detector on every frame and links its boxes by distance. Meant for frames about a second apart;
    needs no tracking model."""

    def __init__(self, detector: Detector, *, box_threshold: float = 0.5) -> None:
        self._detector = detector
        self._threshold = box_threshold

    def identity(self) -> object:
        return ["linked", self._threshold, self._detector.identity()]

    def frame_size(self, height: int, width: int) -> tuple[int, int] | None:
        return self._detector.frame_size(height, width)

    def track(self, frames: Sequence[Frame], text: str) -> list[Track]:
        detections = self._detector.detect_batch(
            frames, text, box_threshold=self._threshold, text_threshold=0.25
        )
        return _by_appearance(link_detections(detections))


def link_detections(by_frame: Sequence[Sequence[Detection]]) -> list[Track]:
    """Link the detections of consecutive frames to tracks, nearest pairs first. Each detection is in one
    track, and a track moves at most two diagonals of its box for every frame since it was last seen."""
    # By frame: a track may miss some of them and continue.
    chains: list[dict[int, Detection]] = []
    for number, detections in enumerate(by_frame):
        # Nearest first, over all tracks: a track must not take the box of a nearer one.
        pairs = sorted(
            (distance, i, j)
            for i, chain in enumerate(chains)
            for j, detection in enumerate(detections)
            if (distance := _distance(chain[max(chain)].box, detection.box))
            <= _MAX_MOVE * (number - max(chain))
        )
        taken_chains: set[int] = set()
        linked: set[int] = set()
        for _, i, j in pairs:
            if i not in taken_chains and j not in linked:
                chains[i][number] = detections[j]
                taken_chains.add(i)
                linked.add(j)
        chains += [{number: detection} for j, detection in enumerate(detections) if j not in linked]
    return [
        Track(
            tuple(chain[number].box if number in chain else None for number in range(len(by_frame))),
            max(detection.score for detection in chain.values()),
        )
        for chain in chains
    ]


def _distance(a: Corners, b: Corners) -> float:
    """The distance between the centers of two boxes, in units of their mean diagonal."""
    dx = (a[0] + a[2] - b[0] - b[2]) / 2
    dy = (a[1] + a[3] - b[1] - b[3]) / 2
    diagonal = (hypot(a[2] - a[0], a[3] - a[1]) + hypot(b[2] - b[0], b[3] - b[1])) / 2
    return hypot(dx, dy) / diagonal


def _by_appearance(tracks: list[Track]) -> list[Track]:
    # Of those that appear together the surest first, so that their numbers mean the same in each run.
    return sorted(tracks, key=lambda track: ([box is None for box in track.boxes].index(False), -track.score))


def load_tracker(spec: str, detector: Detector | None, *, device: str | None = None) -> Tracker:
    """Load a tracker: "sam3:NAME", a hub name or a directory, or "detector" to link the boxes of `detector`.
    Raises ConfigError for another `spec`, ModelError for "detector" without a detector."""
    kind, _, name = spec.partition(":")
    if kind == "sam3" and name:
        return Sam3Tracker(name, device=device)
    if spec == "detector":
        if detector is None:
            raise ModelError("tracker 'detector' needs a detector; set one up, or use sam3:facebook/sam3")
        return DetectionTracker(detector)
    raise ConfigError(f"tracker {spec!r}: write 'detector' or sam3:NAME, as in sam3:facebook/sam3")
