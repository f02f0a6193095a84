"""Search in a video: the index of its clips, and its subtitles."""

from videopro.modules.search.clip_index import (
    CLIP_SECONDS,
    ClipIndex,
    IndexBusy,
    build_index,
    clip_bounds,
    default_root,
    index_path,
)
from videopro.modules.search.index_file import DamagedIndex, read_vectors, write_vectors
from videopro.modules.search.preparation import prepare_index
from videopro.modules.search.subtitles import SubtitleSearch, search_tokens

__all__ = [
    "CLIP_SECONDS",
    "ClipIndex",
    "DamagedIndex",
    "IndexBusy",
    "SubtitleSearch",
    "build_index",
    "clip_bounds",
    "default_root",
    "index_path",
    "prepare_index",
    "read_vectors",
    "search_tokens",
    "write_vectors",
]
