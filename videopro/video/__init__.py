"""A video file: frames with their true times, sampling, crops, and subtitles."""

from videopro.video.decoding import check_no_url, content_id, content_if_readable, made_ahead
from videopro.video.finding import (
    FILM_ENDINGS,
    SUBTITLE_ENDINGS,
    SubtitleFiles,
    files_below,
    names_of,
)
from videopro.video.frame_store import FrameStore, shared_store
from videopro.video.sampling import SampleRule, clue_times, frame_times
from videopro.video.shapes import LARGEST_RATIO, pad_picture, padded_size, size_to_decode, without_margin
from videopro.video.subtitle_files import subtitles_of
from videopro.video.subtitles import (
    SubtitleLine,
    Subtitles,
    embedded_subtitles,
    has_embedded_subtitles,
    is_container,
    load_subtitles,
)
from videopro.video.video import (
    NEAREST_INTACT_HELP,
    Frame,
    Video,
    check_nearest_intact,
    distinct_frames,
    fps_times,
    may_stand_in,
    stand_ins_in,
    uniform_times,
)

__all__ = [
    "FILM_ENDINGS",
    "SUBTITLE_ENDINGS",
    "LARGEST_RATIO",
    "NEAREST_INTACT_HELP",
    "Frame",
    "FrameStore",
    "SampleRule",
    "SubtitleFiles",
    "SubtitleLine",
    "Subtitles",
    "Video",
    "check_nearest_intact",
    "check_no_url",
    "clue_times",
    "content_id",
    "content_if_readable",
    "distinct_frames",
    "embedded_subtitles",
    "has_embedded_subtitles",
    "is_container",
    "files_below",
    "fps_times",
    "frame_times",
    "load_subtitles",
    "made_ahead",
    "may_stand_in",
    "names_of",
    "subtitles_of",
    "pad_picture",
    "padded_size",
    "shared_store",
    "stand_ins_in",
    "size_to_decode",
    "uniform_times",
    "without_margin",
]
