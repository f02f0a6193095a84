"""The context of a video's modules, and of a single call.

A `VideoContext` is created once per video and shared by all programs on it; a `CallContext` belongs to one
module call and records the frames that the call uses.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from cachetools import LRUCache

from videopro.backbones import Backbone
from videopro.errors import result_of
from videopro.modules.calls.arguments import MAX_CONTEXT, Scope
from videopro.modules.calls.handles import ClipHandle, FrameHandle, VideoHandle
from videopro.modules.calls.registry import PLUGIN_MODULES, Module, modules_for
from videopro.modules.search import SubtitleSearch
from videopro.traces import FrameRef
from videopro.video import Frame, Subtitles, Video, distinct_frames

if TYPE_CHECKING:
    from videopro.modules.models import Detector, Ocr, Tracker
    from videopro.modules.models.encoders import TextEncoder
    from videopro.modules.search import ClipIndex

ClipTimes = Literal["video", "clip"]
"""The origin of times in the trims of a clip: the start of the video, or of the clip."""

# Crops are cut from full-resolution frames; at most this many such frames are in memory at once.
_CROP_BATCH = 8


@dataclass(eq=False)
class VideoContext:
    """One video and the models that its modules use. Thread-safe.

    Modules that need a part that is None are not offered. If `backbone` is a
    `videopro.backbones.wrappers.batching.BatchingBackbone`, it answers with any planner adapter off and
    batches the calls of several programs.
    """

    video: Video
    backbone: Backbone
    _: KW_ONLY
    subtitles: Subtitles | None = None
    index: ClipIndex | None = None
    text_encoder: TextEncoder | None = None
    """Finds subtitle lines by meaning; None: BM25 finds them by their words."""
    ocr: Ocr | None = None
    detector: Detector | None = None
    tracker: Tracker | None = None
    can_summarize: bool = True
    """Whether the backbone can write a summary; if not, the lines themselves are returned."""
    without: Collection[str] = ()
    """Module families to leave out."""
    notes: tuple[str, ...] = ()
    """Notes for the results of its questions."""
    clip_times: ClipTimes = "video"
    extra: Collection[str] = ()
    """The names of plug-in modules that are offered too."""

    def __post_init__(self) -> None:
        if self.subtitles is not None and not self.subtitles.lines:
            # A subtitle file without lines has nothing to search or to summarize.
            self.subtitles = None
        self.without, self.notes = frozenset(self.without), tuple(self.notes)
        self.search = None if self.subtitles is None else SubtitleSearch(self.subtitles, self.text_encoder)
        self.handle = VideoHandle(self.video)
        """The program's `video`."""
        # A character is a token at most in most scripts, and a longer prompt takes a local model minutes.
        longest = min(MAX_CONTEXT, self.backbone.context_tokens or MAX_CONTEXT)
        self.scope = Scope(self.handle, self.backbone.frames, longest)
        self._identities: dict[str, str] = {}
        self._lock = threading.Lock()

    def has(self, need: str) -> bool:
        """Whether a need (a key of `videopro.modules.calls.registry.NEEDS`) is met."""
        return getattr(self, need) is not None

    def modules(self, *, is_open: bool) -> dict[str, Module]:
        """The modules that programs may name, by name, also those that lack something on this video."""
        return {**modules_for(is_open=is_open), **{name: PLUGIN_MODULES[name] for name in self.extra}}

    def identity(self, family: str) -> str:
        """A hash of everything but the arguments that the results of a module family depend on: the video,
        models and settings."""
        with self._lock:
            if family not in self._identities:
                parts = json.dumps(self._identity_parts(family), sort_keys=True, default=str)
                self._identities[family] = hashlib.sha256(parts.encode()).hexdigest()
            return self._identities[family]

    def _identity_parts(self, family: str) -> dict[str, object]:
        parts: dict[str, object] = {"video": self.video.id}
        lines = self.subtitles.lines if self.subtitles is not None else ()
        # Only what a family uses: another detector must not empty the cache of searches.
        if family in ("retrieval", "localization", "context"):
            parts["subtitles"] = [(line.start, line.end, line.text) for line in lines]
        if family in ("retrieval", "context"):
            parts["search"] = self.search.identity() if self.search is not None else None
        if family == "retrieval" and self.index is not None:
            parts["index"] = self.index.identity()
        if family in ("localization", "extraction", "context", "answering"):
            parts["backbone"] = self.backbone.identity()
        if family == "extraction":
            for name, model in (("ocr", self.ocr), ("detector", self.detector), ("tracker", self.tracker)):
                parts[name] = model.identity() if model is not None else None
        if family == "context":
            parts["can_summarize"] = self.can_summarize
        return parts

    @property
    def lines_confidence(self) -> float | None:
        """The confidence of what is said: 1.0 for subtitles, which are data; None for a model's
        transcript."""
        return None if self.subtitles is None or self.subtitles.is_transcribed else 1.0

    def frame(self, time: float) -> FrameHandle:
        """The frame at `time` seconds, with the subtitles shown then."""
        lines = self.subtitles.at(time) if self.subtitles is not None else ()
        return FrameHandle(self.video, time, None, "\n".join(line.text for line in lines))

    def clip(self, start: float, end: float, score: float | None = None) -> ClipHandle:
        """The clip from `start` to `end` seconds, with its subtitles."""
        lines = self.subtitles.between(start, end) if self.subtitles is not None else ()
        return ClipHandle(self.video, start, end, score, "\n".join(line.text for line in lines))


@dataclass
class CallContext:
    """One module call: the video's context, and the frames that the call uses."""

    context: VideoContext
    use_frames: Callable[[int], None] = lambda count: None
    """Called with the number of frames about to be used; raises if that exceeds the program's budget."""
    frame_refs: list[FrameRef] = field(default_factory=list)
    frames_used: int = 0
    """The frames reported to `use_frames` so far."""
    confidence: float | None = None
    """How sure the result is, 0 to 1, set by a module that knows: the score of its model, or 1.0 for what is
    read from data. An answer has its own (Eq. 2); a search for clips has none, as its scores are no
    probabilities."""

    def load_frames(
        self, handles: Sequence[FrameHandle], *, size: tuple[int, int] | None = None
    ) -> list[Frame]:
        """Decode the frames of handles, sorted by time and without duplicates. Records and counts them.

        Full frames have `size` (height, width; None: the video's own), crops the video's resolution.
        """
        pictures = self.decode(handles, size)
        frames = distinct_frames(pictures.values())
        self.frame_refs += frame_refs(frames)
        return frames

    def decode(
        self, handles: Sequence[FrameHandle], size: tuple[int, int] | None = None
    ) -> dict[FrameHandle, Frame]:
        """The picture of each of the distinct frames, in order of time, as `load_frames`. Two times may show
        the same picture. Counts them; what a trace stores of them is the caller's to say."""
        distinct = sorted({handle.key: handle for handle in handles}.values(), key=lambda each: each.time)
        # Before decoding, which is what the budget is to prevent.
        self.use_frames(len(distinct))
        self.frames_used += len(distinct)
        full = [handle for handle in distinct if handle.box is None]
        crops = [handle for handle in distinct if handle.box is not None]
        groups = [(full, size)] if full else []
        groups += [(crops[at : at + _CROP_BATCH], None) for at in range(0, len(crops), _CROP_BATCH)]
        pictures: dict[FrameHandle, Frame] = {}
        for group, group_size in groups:
            decoded = self.context.video.frames([handle.time for handle in group], size=group_size)
            for handle, frame in zip(group, decoded, strict=True):
                pictures[handle] = handle.pixels(frame)
        return {handle: pictures[handle] for handle in distinct}

    def load_frames_for_backbone(self, handles: Sequence[FrameHandle]) -> list[Frame]:
        """Decode the frames at the backbone's frame size; evenly spaced ones if there are more than it takes
        in one call."""
        ordered = sorted({handle.key: handle for handle in handles}.values(), key=lambda handle: handle.time)
        budget = self.context.backbone.frames
        if len(ordered) > budget:
            step = len(ordered) / budget
            ordered = [ordered[int((i + 0.5) * step)] for i in range(budget)]
        video = self.context.video
        size = self.context.backbone.frame_size(video.height, video.width, len(ordered))
        return self.load_frames(ordered, size=size)


def frame_refs(frames: Iterable[Frame]) -> tuple[FrameRef, ...]:
    """What a trace stores of frames; for a frame that replaces several damaged ones, a reference for each."""
    refs: list[FrameRef] = []
    for frame in frames:
        ref = (round(frame.time, 3), *map(float, frame.image.shape[:2]), *(frame.box or ()))
        refs += [(*ref, round(time, 3)) for time in frame.wanted] or [ref]
    return tuple(refs)


T = TypeVar("T")


class CallCache(Generic[T]):
    """An LRU cache of at most `max_entries` results; thread-safe. Concurrent requests for the same key share
    one computation. Failures are not cached.

    Results are returned without copying and must not be modified.
    """

    def __init__(self, max_entries: int = 20_000) -> None:
        self._results: LRUCache[Hashable, Future[T]] = LRUCache(max_entries)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._results)

    def get(self, key: Hashable, compute: Callable[[], T]) -> tuple[T, bool]:
        """The result for a key, and whether it was cached. Exceptions of `compute` are raised unchanged."""
        with self._lock:
            future = self._results.get(key)
            if is_first := future is None:
                # Put there under the lock and filled without it: equal calls wait for this one, others
                # continue.
                future = self._results[key] = Future()
        if not is_first:
            try:
                return result_of(future), True
            except _ComputationFailed:
                # The other caller failed, perhaps for its own reason, such as its budget: try here.
                return compute(), False
        try:
            result = compute()
        except BaseException:
            with self._lock:
                # It may have been evicted, and the key computed by another caller since.
                if self._results.get(key) is future:
                    del self._results[key]
            # Not the error itself: it may hold frames, or be of this caller's budget.
            future.set_exception(_ComputationFailed())
            raise
        future.set_result(result)
        return result, False

    def clear(self) -> None:
        """Remove all results."""
        with self._lock:
            self._results.clear()


class _ComputationFailed(Exception):
    """The computation that this caller waited for has failed."""
