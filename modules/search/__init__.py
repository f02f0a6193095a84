"""Search in a video: the index of its clips, and its subtitles."""

from videopro.modules.search.clip_index import CLIP_SECONDS as CLIP_SECONDS
from videopro.modules.search.clip_index import ClipIndex as ClipIndex
from videopro.modules.search.clip_index import IndexBusy as IndexBusy
from videopro.modules.search.clip_index import build_index as build_index
from videopro.modules.search.clip_index import clip_bounds as clip_bounds
from videopro.modules.search.clip_index import default_root as default_root
from videopro.modules.search.clip_index import index_path as index_path
from videopro.modules.search.clip_index import prepare_index as prepare_index
from videopro.modules.search.subtitles import SubtitleSearch as SubtitleSearch
from videopro.modules.search.subtitles import search_tokens as search_tokens
