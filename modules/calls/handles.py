"""The objects that programs hold: a video, clips, lines, frames, boxes, tracks and answers.

A program gets opaque handles with a few plain fields (`__program_fields__`); modules resolve them on the
host. A frame is a reference (video, time, box), not pixels: it is decoded when a module uses it.
`videopro.modules.calls.prelude` defines how handles behave inside a program. Planners read the docstrings of
the handle classes: they are part of the API reference.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from videopro.question import Answer
from videopro.video import Frame, Video

PixelBox = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels; right and bottom are exclusive."""


class HostHandle:
    """Base class of handles. Two handles with equal `key`s refer to the same thing."""

    # Not the host's names: planners were trained on these, and traces show them.
    __program_kind__: ClassVar[str]
    __program_fields__: ClassVar[tuple[str, ...]]

    @property
    def key(self) -> Hashable:
        """Equal for handles of the same thing; part of the cache key of module calls."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, repr=False)
class VideoHandle(HostHandle):
    """The whole video."""

    __program_kind__ = "Video"
    __program_fields__ = ("start", "end", "duration", "fps", "width", "height")

    video: Video

    # Modules take the video and a clip of it alike.
    start: ClassVar[float] = 0.0

    @property
    def end(self) -> float:
        """Seconds."""
        return self.video.duration

    @property
    def duration(self) -> float:
        """Seconds."""
        return self.video.duration

    @property
    def fps(self) -> float:
        """Frames per second."""
        return self.video.fps

    @property
    def width(self) -> int:
        """Pixels."""
        return self.video.width

    @property
    def height(self) -> int:
        """Pixels."""
        return self.video.height

    @property
    def key(self) -> Hashable:
        return ("Video", self.video.id)

    def __repr__(self) -> str:
        return f"Video({self.duration:.1f} s)"


@dataclass(frozen=True, eq=False, repr=False)
class ClipHandle(HostHandle):
    """A stretch of the video, `start` to `end` seconds, with what is said in it; unpacks as (start, end)."""

    __program_kind__ = "Clip"
    __program_fields__: ClassVar[tuple[str, ...]] = ("start", "end", "duration", "score", "subtitles")

    video: Video
    start: float
    end: float
    score: float | None = None
    """The retriever's score for the query; higher is better."""
    subtitles: str = ""

    @property
    def duration(self) -> float:
        """Seconds."""
        return self.end - self.start

    @property
    def key(self) -> Hashable:
        # Without score and subtitles: the same stretch, found by another query, is the same clip.
        return (type(self).__program_kind__, self.video.id, self.start, self.end)

    def __repr__(self) -> str:
        return f"{type(self).__program_kind__}({self.start:.1f}-{self.end:.1f} s)"


@dataclass(frozen=True, eq=False, repr=False)
class LineHandle(ClipHandle):
    """A subtitle line and when it is on; unpacks as (start, end) and reads as its text."""

    __program_kind__ = "Line"
    __program_fields__ = (*ClipHandle.__program_fields__, "text")

    @property
    def text(self) -> str:
        """What is said."""
        return self.subtitles

    def __repr__(self) -> str:
        return f"Line({self.start:.1f}-{self.end:.1f} s, {abbreviate(self.text, 60)!r})"


@dataclass(frozen=True, eq=False, repr=False)
class FrameHandle(HostHandle):
    """The picture shown at `time` seconds, or the part of it within a crop, with the subtitles on at that
    time."""

    __program_kind__ = "Frame"
    __program_fields__ = ("time", "timestamp", "width", "height", "size", "subtitles")

    video: Video
    time: float
    box: PixelBox | None = None
    """The crop in pixels of the full frame; None for a full frame."""
    subtitles: str = ""

    @property
    def timestamp(self) -> float:
        """Seconds; an alias of `time`."""
        return self.time

    @property
    def width(self) -> int:
        """Pixels at the video's own resolution."""
        return self.video.width if self.box is None else self.box[2] - self.box[0]

    @property
    def height(self) -> int:
        """Pixels at the video's own resolution."""
        return self.video.height if self.box is None else self.box[3] - self.box[1]

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels."""
        return self.width, self.height

    @property
    def key(self) -> Hashable:
        return ("Frame", self.video.id, self.time, self.box)

    def part(self, x0: float, y0: float, x1: float, y1: float) -> FrameHandle:
        """Crop to a box in pixels of this frame, rounded outwards. The box must be inside the frame and have
        an area."""
        left, top, _, _ = self.box or (0, 0, 0, 0)
        box = (
            # A millionth of a pixel counts as rounding.
            left + math.floor(x0 + 1e-6),
            top + math.floor(y0 + 1e-6),
            left + math.ceil(x1 - 1e-6),
            top + math.ceil(y1 - 1e-6),
        )
        return FrameHandle(self.video, self.time, box, self.subtitles)

    def pixels(self, full: Frame) -> Frame:
        """Crop `full`, the full frame at the video's resolution, to this handle's box."""
        # In shares of the picture: it may have been decoded at another size.
        if self.box is None:
            return full
        x0, y0, x1, y1 = self.box
        width, height = self.video.width, self.video.height
        return full.crop((x0 / width, y0 / height, x1 / width, y1 / height))

    def __repr__(self) -> str:
        part = "" if self.box is None else ", part {}".format(",".join(map(str, self.box)))
        return f"Frame({self.time:.2f} s{part})"


@dataclass(frozen=True, eq=False, repr=False)
class BoxHandle(HostHandle):
    """Where a thing is in a frame: x0, y0, x1, y1 in pixels of that frame; unpacks as these four numbers."""

    __program_kind__ = "Box"
    __program_fields__ = ("x0", "y0", "x1", "y1", "label", "score")

    x0: float
    y0: float
    x1: float
    y1: float
    label: str
    score: float

    @property
    def key(self) -> Hashable:
        # Without the label: what a crop shows depends on the corners alone.
        return ("Box", self.x0, self.y0, self.x1, self.y1)

    def __repr__(self) -> str:
        return (
            f"Box({self.x0:.0f}, {self.y0:.0f}, {self.x1:.0f}, {self.y1:.0f}, {self.label!r}, "
            f"score {self.score:.2f})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class TrackHandle(HostHandle):
    """One object through several frames: `times` in seconds and `boxes`, one a frame: [x0, y0, x1, y1] in
    pixels of the frame, or None where the object is not seen."""

    __program_kind__ = "Track"
    __program_fields__ = ("object", "label", "score", "times", "boxes", "start", "end")

    object: int
    """The object's number, from 1."""
    label: str
    score: float
    times: tuple[float, ...]
    boxes: tuple[tuple[float, float, float, float] | None, ...]

    @property
    def start(self) -> float:
        """Seconds: when it is first seen."""
        # There is one: a tracker gives no track of what it never saw.
        return next(time for time, box in zip(self.times, self.boxes, strict=True) if box)

    @property
    def end(self) -> float:
        """Seconds: when it is last seen."""
        return [time for time, box in zip(self.times, self.boxes, strict=True) if box][-1]

    @property
    def key(self) -> Hashable:
        return ("Track", self.object, self.label, self.times, self.boxes)

    def __repr__(self) -> str:
        seen = sum(box is not None for box in self.boxes)
        return f"Track({self.object}, {self.label!r}, {self.start:.1f}-{self.end:.1f} s, {seen} frames)"


@dataclass(frozen=True, eq=False, repr=False)
class AnswerHandle(HostHandle):
    """An answer with its confidence: unpacks as (answer, confidence), indexes as a mapping with "answer",
    "confidence", "raw_output" and "metadata", compares with a text ("B", "Yes") and reads as its answer."""

    __program_kind__ = "Answer"
    __program_fields__ = ("answer", "confidence", "raw_output", "metadata", "mode")

    reply: Answer
    """The model's answer; for `make_result`, what the program claims."""
    mode: str
    """One of "native", "mc", "yes_no", "count", "frames" and "words" (in words), or "result" (from
    `make_result`)."""
    choices: tuple[str, ...] = ()
    """The options, if the answer is the letter of an option."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """The other arguments of `make_result`."""
    source: AnswerHandle | None = None
    """For `make_result`: the answer that was passed to it, if any."""

    @property
    def answer(self) -> str:
        """A letter, "Yes" or "No", a number in digits, or free text; "" if the reply could not be parsed."""
        # A reply in words has no letter: it is the answer itself.
        return self.reply.raw.strip() if self.mode in ("frames", "words") else self.reply.letter or ""

    @property
    def confidence(self) -> float:
        """0 to 1: Eq. 2 for an answering call, the program's claim for `make_result`."""
        return self.reply.confidence

    @property
    def raw_output(self) -> str:
        """The model's reply."""
        return self.reply.raw

    @property
    def letters(self) -> Mapping[str, float]:
        """Probability of each letter (or of Yes and No); may be empty."""
        return self.reply.letters

    @property
    def is_claim(self) -> bool:
        """Whether it comes from the program (`make_result`) and not from a model."""
        return self.mode == "result"

    @property
    def metadata(self) -> dict[str, Any]:
        """The mode, the letters' probabilities, and `extra`."""
        return {"mode": self.mode, **({"letters": dict(self.letters)} if self.letters else {}), **self.extra}

    @property
    def key(self) -> Hashable:
        return ("Answer", self.answer, self.confidence, self.raw_output, self.mode)

    def __repr__(self) -> str:
        return f"Answer({abbreviate(self.answer, 200)!r}, confidence {self.confidence:.3f})"


HANDLES: tuple[type[HostHandle], ...] = (
    VideoHandle,
    ClipHandle,
    LineHandle,
    FrameHandle,
    BoxHandle,
    TrackHandle,
    AnswerHandle,
)


def abbreviate(text: str, length: int) -> str:
    """The text, cut to at most `length` characters including an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"


def show(value: Any, length: int = 300) -> str:
    """A short representation of a module's argument or result for logs and traces."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        parts = list(value)
        # Hundreds of frames would fill a log with numbers that nobody reads.
        if len(parts) > 4 and all(isinstance(part, FrameHandle) for part in parts):
            text = f"[{len(parts)} frames, {parts[0].time:.2f}-{parts[-1].time:.2f} s]"
        else:
            text = ", ".join(show(part, length) for part in parts[:12])
            text += f", … {len(parts) - 12} more" if len(parts) > 12 else ""
            text = f"({text})" if isinstance(value, tuple) else f"[{text}]"
    elif isinstance(value, float):
        text = f"{value:.6g}"
    elif isinstance(value, str):
        # Cut before quoting, so that a text of megabytes is not quoted in full.
        text = repr(abbreviate(value, length))
    else:
        text = repr(value)
    return abbreviate(text, length)
