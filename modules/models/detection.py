"""Object detection by name: Grounding DINO from transformers, or a backbone's own grounding.

Boxes are fractions of the picture.
"""

from __future__ import annotations

import math
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from videopro.backbones import Backbone, GenerateRequest, Generation, Sampling
from videopro.errors import ConfigError, acquired
from videopro.modules.errors import ModelError, written_text
from videopro.modules.models.hub import device_of, load_pretrained
from videopro.question import prompts
from videopro.video import Frame, pad_picture, without_margin

_PICTURES = 8
"""Pictures of a pass of Grounding DINO."""
Corners = tuple[float, float, float, float]
"""x0, y0, x1, y1 as fractions (0 to 1) of the picture."""


@dataclass(frozen=True)
class Detection:
    """One detected object."""

    box: Corners
    score: float
    """The detector's score, 0 to 1."""
    label: str


class Detector(ABC):
    """Detects objects by name; thread-safe."""

    @abstractmethod
    def identity(self) -> object:
        """What its results depend on, as JSON-serializable data."""

    def frame_size(self, height: int, width: int) -> tuple[int, int] | None:
        """The (height, width) to which a frame of (height, width) pixels is decoded; None: the video's
        own."""
        return None

    def detect(
        self, picture: Frame, text: str, *, box_threshold: float, text_threshold: float
    ) -> list[Detection]:
        """Detect objects called `text`, best first: those with a score above `box_threshold`, labelled with
        the words that score above `text_threshold`."""
        (detections,) = self.detect_batch(
            [picture], text, box_threshold=box_threshold, text_threshold=text_threshold
        )
        return detections

    def detect_batch(
        self, pictures: Sequence[Frame], text: str, *, box_threshold: float, text_threshold: float
    ) -> list[list[Detection]]:
        """The detections in each of several pictures of one size; see `detect`."""
        padded = [pad_picture(picture.image) for picture in pictures]
        # Without their boxes, so that a crop is treated as a whole picture.
        whole = [
            Frame(image, picture.time, picture.video) for image, picture in zip(padded, pictures, strict=True)
        ]
        found = self._detect(whole, text, box_threshold=box_threshold, text_threshold=text_threshold)
        return [
            detections if image is picture.image else _without_margins(detections, picture.image, image)
            for detections, image, picture in zip(found, padded, pictures, strict=True)
        ]

    @abstractmethod
    def _detect(
        self, pictures: Sequence[Frame], text: str, *, box_threshold: float, text_threshold: float
    ) -> list[list[Detection]]:
        """As `detect_batch`, for pictures with the margin that they need; boxes are fractions of that."""


class GroundingDino(Detector):
    """Grounding DINO (the paper's release uses `IDEA-Research/grounding-dino-base`) or MM Grounding DINO,
    from transformers."""

    def __init__(self, name: str, *, device: str | None = None) -> None:
        """`name`: a hub name or a local directory. Raises ModelError if it cannot be loaded."""
        from transformers import AutoModelForZeroShotObjectDetection, AutoProcessor

        self._name = name
        self._model, self._processor = load_pretrained(
            name, "detector", AutoModelForZeroShotObjectDetection, AutoProcessor
        )
        self._device = device_of(device)
        self._model.to(self._device).eval()
        self._lock = threading.Lock()

    @property
    def _is_narrow(self) -> bool:
        """Whether matrix products are computed in bf16. On a GPU in fp32 they take several times as long."""
        return self._device.startswith("cuda")

    def identity(self) -> object:
        return ["grounding-dino", self._name, *(["bfloat16"] if self._is_narrow else [])]

    def _detect(
        self, pictures: Sequence[Frame], text: str, *, box_threshold: float, text_threshold: float
    ) -> list[list[Detection]]:
        import torch

        # As in the model's training: lower case, a full stop after each name.
        query = text.lower().strip().removesuffix(".") + "."
        found: list[list[Detection]] = []
        for start in range(0, len(pictures), _PICTURES):
            images = [Image.fromarray(picture.image) for picture in pictures[start : start + _PICTURES]]
            with acquired(self._lock), torch.inference_mode():
                inputs = self._processor(
                    images=images, text=[query] * len(images), return_tensors="pt", truncation=True
                ).to(self._device)
                kind = torch.device(self._device).type
                # Not converted as a whole: positions and boxes need all their digits.
                with torch.autocast(kind, torch.bfloat16, enabled=self._is_narrow):
                    outputs = self._model(**inputs)
                # Boxes and scores as float32, which NumPy and its users have.
                outputs.logits, outputs.pred_boxes = outputs.logits.float(), outputs.pred_boxes.float()
                # Without the pictures' sizes, boxes stay shares of the picture.
                results = self._processor.post_process_grounded_object_detection(
                    outputs,
                    inputs["input_ids"],
                    threshold=box_threshold,
                    text_threshold=text_threshold,
                )
            found += [_read_result(result, text) for result in results]
        return found


class BackboneDetector(Detector):
    """A VideoLLM that is prompted for boxes (`prompts.locate`) in Qwen-VL's format.

    The score of every box is the confidence of the whole reply (Eq. 2).
    """

    def __init__(self, backbone: Backbone) -> None:
        """Raises ModelError for Qwen2-VL, whose boxes are in another format."""
        self._backbone = backbone
        self._coordinates = _coordinates_of(backbone)

    def identity(self) -> object:
        return ["backbone", self._coordinates, self._backbone.identity()]

    def frame_size(self, height: int, width: int) -> tuple[int, int] | None:
        return self._backbone.frame_size(height, width, 1)

    def _detect(
        self, pictures: Sequence[Frame], text: str, *, box_threshold: float, text_threshold: float
    ) -> list[list[Detection]]:
        if self._coordinates == "pixels":
            pictures = [self._resized(picture) for picture in pictures]
        requests = [GenerateRequest([picture], prompts.locate(text)) for picture in pictures]
        replies = self._backbone.generate_batch(requests, Sampling(512))
        return [
            self._read(reply, picture, text, box_threshold)
            for reply, picture in zip(replies, pictures, strict=True)
        ]

    def _resized(self, picture: Frame) -> Frame:
        # Boxes are pixels of what the model sees: pass a size that its processor does not change.
        height, width = picture.image.shape[:2]
        height, width = self._backbone.frame_size(height, width, 1) or _qwen25_size(height, width)
        resized = Image.fromarray(picture.image).resize((width, height), Image.Resampling.BICUBIC)
        return Frame(np.asarray(resized), picture.time, picture.video)

    def _read(self, reply: Generation, picture: Frame, text: str, box_threshold: float) -> list[Detection]:
        # Before the threshold: a reply that was cut off is an error, and none without boxes.
        text_of_boxes = written_text(reply)
        # The reply's own confidence is the only score there is.
        if reply.confidence <= box_threshold:
            return []
        height, width = picture.image.shape[:2] if self._coordinates == "pixels" else (1000, 1000)
        boxes = [
            clipped((x0 / width, y0 / height, x1 / width, y1 / height))
            for x0, y0, x1, y1 in parse_boxes(text_of_boxes)
        ]
        # A model that cannot stop repeats the same box.
        return [Detection(box, reply.confidence, text) for box in dict.fromkeys(boxes) if has_area(box)]


def _read_result(result: Any, text: str) -> list[Detection]:
    """The detections of Grounding DINO's processor in a picture, best first."""
    # If nothing is found, there is one empty label.
    found = zip(result["boxes"].tolist(), result["scores"].tolist(), result["text_labels"], strict=False)
    detections = [Detection(clipped(box), score, _clean_label(label, text)) for box, score, label in found]
    with_area = [detection for detection in detections if has_area(detection.box)]
    return sorted(with_area, key=lambda detection: detection.score, reverse=True)


def _without_margins(
    detections: Sequence[Detection], image: np.ndarray, padded: np.ndarray
) -> list[Detection]:
    within = [replace(one, box=clipped(without_margin(one.box, image, padded))) for one in detections]
    return [detection for detection in within if has_area(detection.box)]


def load_detector(spec: str, backbone: Backbone, *, device: str | None = None) -> Detector:
    """Load a detector: "backbone" (its own grounding) or "grounding-dino:NAME", a hub name or a directory.
    Raises ConfigError for another `spec`."""
    kind, _, name = spec.partition(":")
    if spec == "backbone":
        return BackboneDetector(backbone)
    if kind == "grounding-dino" and name:
        return GroundingDino(name, device=device)
    raise ConfigError(
        f"detector {spec!r}: write 'backbone' or grounding-dino:NAME, as in "
        "grounding-dino:IDEA-Research/grounding-dino-base"
    )


_FOUR_NUMBERS = re.compile(r"\[\s*(-?\d+(?:\.\d+)?(?:\s*,\s*-?\d+(?:\.\d+)?){3})\s*\]")


def parse_boxes(reply: str) -> list[Corners]:
    """The boxes in a reply, in its own units and order: every four numbers in brackets. That is Qwen-VL's
    JSON ({"bbox_2d": [x0, y0, x1, y1], "label": ...}, one or a list), also where it is broken, cut off, or in
    prose."""
    boxes: list[Corners] = []
    for match in _FOUR_NUMBERS.findall(reply):
        x0, y0, x1, y1 = map(float, match.split(","))
        # Digits without end are infinite.
        if all(map(math.isfinite, (x0, y0, x1, y1))):
            boxes.append((min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)))
    return boxes


def _clean_label(label: str, text: str) -> str:
    """The label without separators; the whole query if no word scored high enough."""
    return " ".join(label.replace("[SEP]", " ").replace("[CLS]", " ").replace(".", " ").split()) or text


def clipped(box: Corners) -> Corners:
    """The box, cut at the edges of the picture."""
    x0, y0, x1, y1 = (min(max(value, 0.0), 1.0) for value in box)
    return x0, y0, x1, y1


def has_area(box: Corners) -> bool:
    """Whether anything is in the box."""
    return box[2] > box[0] and box[3] > box[1]


def _coordinates_of(backbone: Backbone) -> str:
    """In what a VideoLLM writes boxes: "relative", from 0 to 1000 (Qwen3-VL and later), or "pixels" of the
    picture that it sees (Qwen2.5-VL)."""
    identity = backbone.identity()
    names = f"{backbone.name} {identity.get('class', '')}".lower()
    if re.search(r"qwen2[._]?5[-_]?vl", names):
        return "pixels"
    if re.search(r"qwen-?2-?vl", names):
        raise ModelError(
            f"backbone {backbone.name!r} (Qwen2-VL) writes boxes in a format that is not supported; use "
            "grounding-dino as the detector"
        )
    return "relative"


def _qwen25_size(height: int, width: int) -> tuple[int, int]:
    """(height, width) that Qwen2.5-VL's processor does not change: multiples of 28, at most 1280 tokens."""
    from transformers.models.qwen2_vl.image_processing_qwen2_vl import smart_resize

    tall, wide = smart_resize(height, width, factor=28, min_pixels=4 * 28 * 28, max_pixels=1280 * 28 * 28)
    return int(tall), int(wide)
