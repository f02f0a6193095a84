"""The clips of a video in batches for an encoder, decoded and staged ahead of their use."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Sequence
from itertools import islice

from videopro.errors import carrying_cancellation
from videopro.modules.models.encoders import VideoTextEncoder
from videopro.video import Frame, Video

_READY = 2
"""Batches that wait for the consumer; another is being prepared."""


def decoded_ahead(
    video: Video, encoder: VideoTextEncoder, clips: Sequence[tuple[float, float]], sizes: Sequence[int]
) -> Generator[Sequence[Sequence[Frame]], None, None]:
    """The clips in batches of these sizes. A thread prepares them while the consumer works. Raises
    VideoError."""
    ready: queue.Queue[Sequence[Sequence[Frame]] | BaseException] = queue.Queue(maxsize=_READY)
    stopped = threading.Event()

    def hand_over(batch: Sequence[Sequence[Frame]] | BaseException) -> None:
        while not stopped.is_set():
            try:
                # Not forever: the consumer may have stopped.
                ready.put(batch, timeout=0.2)
            except queue.Full:
                continue
            return

    def decode() -> None:
        frames = video.stream(
            (time for start, end in clips for time in encoder.clip_times(start, end)),
            size=encoder.frame_size(video.height, video.width),
        )
        try:
            for size in sizes:
                if stopped.is_set():
                    return
                batch = [list(islice(frames, encoder.clip_frames)) for _ in range(size)]
                hand_over(encoder.stage_clips(batch))
        except BaseException as failure:
            hand_over(failure)
        finally:
            frames.close()

    thread = threading.Thread(target=carrying_cancellation(decode), daemon=True, name="clips")
    thread.start()
    try:
        for _ in sizes:
            batch = ready.get()
            if isinstance(batch, BaseException):
                raise batch
            yield batch
    finally:
        stopped.set()
        thread.join()
