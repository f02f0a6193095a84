"""The clips of a video in batches for an encoder, decoded and staged ahead of their use."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import chain, islice

from videopro.modules.models.encoders import VideoTextEncoder
from videopro.modules.search.index_file import StandIns
from videopro.video import Frame, Video, made_ahead, stand_ins_in

_READY = 2
"""Batches that wait for the consumer; another is being prepared."""

Batch = tuple[Sequence[Sequence[Frame]], StandIns]
"""Clips, and the frames among theirs that stand in for damaged ones."""


def decoded_ahead(
    video: Video, encoder: VideoTextEncoder, clips: Sequence[tuple[float, float]], sizes: Sequence[int]
) -> Generator[Batch, None, None]:
    """The clips in batches of these sizes. A thread prepares them while the consumer works. Raises
    VideoError."""

    def batches() -> Generator[Batch, None, None]:
        frames = video.stream(
            (time for start, end in clips for time in encoder.clip_times(start, end)),
            size=encoder.frame_size(video.height, video.width),
        )
        with closing(frames):
            for size in sizes:
                batch = [list(islice(frames, encoder.clip_frames)) for _ in range(size)]
                yield encoder.stage_clips(batch), stand_ins_in(chain.from_iterable(batch))

    return made_ahead(batches(), most=_READY, name="clips")
