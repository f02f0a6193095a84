"""Fine-grained extraction: objects, tracks and text in frames, and crops (section 3.2, A.1).

Boxes in a program are in pixels of the frame at the video's own resolution, as in the release.
"""

from __future__ import annotations

from videopro.modules.calls import (
    Box,
    BoxHandle,
    CallContext,
    FrameHandle,
    Frames,
    SingleFrame,
    Text,
    TrackHandle,
    UnitInterval,
    module,
)
from videopro.modules.errors import ArgumentError
from videopro.modules.models import Corners


@module(family="extraction", needs=("detector",))
def detect_object(
    call: CallContext,
    frame: SingleFrame,
    text: Text,
    box_threshold: UnitInterval = 0.5,
    text_threshold: UnitInterval = 0.25,
) -> list[BoxHandle]:
    """Find the things that `text` names in one frame.

    Returns a list of boxes, best first, empty if nothing is found; a box unpacks as x0, y0, x1, y1 in pixels
    and has a label and a score.
    """
    detector = call.context.detector
    assert detector is not None
    (picture,) = call.load_frames(
        [frame], size=detector.frame_size(call.context.video.height, call.context.video.width)
    )
    detections = detector.detect(picture, text, box_threshold=box_threshold, text_threshold=text_threshold)
    # Of nothing found there is no score.
    call.confidence = min((box.score for box in detections), default=None)
    return [
        BoxHandle(*_rounded(_in_pixels(box.box, frame)), box.label, round(box.score, 4)) for box in detections
    ]


@module(family="extraction", needs=("tracker",))
def track_object(call: CallContext, frames: Frames, text: Text) -> list[TrackHandle]:
    """Follow the things that `text` names through frames (whole frames, or one and the same crop of each).

    Returns a list of tracks, one for each thing, empty if nothing is found; a track has times, boxes (one a
    frame, None where it is not seen), start, end and a score.
    """
    tracker = call.context.tracker
    assert tracker is not None
    if len({frame.box for frame in frames}) > 1:
        raise ArgumentError("track_object(): the frames are crops of different places; give whole frames")
    size = tracker.frame_size(call.context.video.height, call.context.video.width)
    pictures = call.load_frames(frames, size=size)
    times = tuple(round(picture.time, 3) for picture in pictures)
    tracks = tracker.track(pictures, text)
    call.confidence = min((track.score for track in tracks), default=None)
    return [
        TrackHandle(
            number,
            text,
            round(track.score, 4),
            times,
            tuple(None if box is None else _rounded(_in_pixels(box, frames[0])) for box in track.boxes),
        )
        for number, track in enumerate(tracks, start=1)
    ]


@module(family="extraction", needs=("ocr",))
def run_ocr(call: CallContext, frame: SingleFrame) -> str:
    """Read the text that is written in one frame; crop first to read small text.

    Returns the text, one piece a line from top to bottom, or "" if there is none.
    """
    assert call.context.ocr is not None
    (picture,) = call.load_frames([frame])
    regions = call.context.ocr.read(picture.image)
    call.confidence = min((region.score for region in regions), default=None)
    return "\n".join(region.text for region in regions)


@module(family="extraction", cache=False)
def crop(call: CallContext, frame: SingleFrame, box: Box) -> FrameHandle:
    """Cut out the part of a frame within a box of detect_object, or [x0, y0, x1, y1] in pixels (or all from 0
    to 1, as shares of the frame).

    Returns a frame.
    """
    x0, y0, x1, y1 = box
    # No program means a box within the first pixel, so these are shares.
    if max(abs(value) for value in box) <= 1:
        x0, y0, x1, y1 = _in_pixels(box, frame)
    # Corners in any order, and cut to the frame: detectors and programs are a pixel off.
    left, top = max(min(x0, x1), 0.0), max(min(y0, y1), 0.0)
    right, bottom = min(max(x0, x1), frame.width), min(max(y0, y1), frame.height)
    has_area = left < right and top < bottom
    part = frame.part(left, top, right, bottom) if has_area else None
    # Rounded to whole pixels, it may hold none.
    if part is None or part.width < 1 or part.height < 1:
        raise ArgumentError(
            f"crop(): box [{box[0]:g}, {box[1]:g}, {box[2]:g}, {box[3]:g}] holds nothing of the frame, which "
            f"is {frame.width} wide and {frame.height} high; give x0 < x1 and y0 < y1 within it"
        )
    return part


def _register_crop(name: str, part: str, box: Corners) -> None:
    """Register a module that cuts out `box` (shares of the frame), which planners read of as `part`."""

    def crop_part(call: CallContext, frame: SingleFrame) -> FrameHandle:
        return frame.part(*_in_pixels(box, frame))

    crop_part.__name__ = crop_part.__qualname__ = name
    crop_part.__doc__ = f"Cut out the {part} of a frame.\n\nReturns a frame."
    module(family="extraction", cache=False)(crop_part)


_register_crop("crop_left", "left half", (0, 0, 0.5, 1))
_register_crop("crop_right", "right half", (0.5, 0, 1, 1))
_register_crop("crop_top", "upper half", (0, 0, 1, 0.5))
_register_crop("crop_bottom", "lower half", (0, 0.5, 1, 1))
_register_crop("crop_left_top", "upper left quarter", (0, 0, 0.5, 0.5))
_register_crop("crop_right_top", "upper right quarter", (0.5, 0, 1, 0.5))
_register_crop("crop_left_bottom", "lower left quarter", (0, 0.5, 0.5, 1))
_register_crop("crop_right_bottom", "lower right quarter", (0.5, 0.5, 1, 1))


def _in_pixels(box: Corners, frame: FrameHandle) -> Corners:
    """A box given in shares of the frame, in pixels."""
    x0, y0, x1, y1 = box
    return x0 * frame.width, y0 * frame.height, x1 * frame.width, y1 * frame.height


def _rounded(box: Corners) -> Corners:
    x0, y0, x1, y1 = box
    return round(x0, 1), round(y0, 1), round(x1, 1), round(y1, 1)
