"""Search in subtitle lines: by meaning with a text encoder, or by words with BM25 (bm25s)."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from videopro.video import Subtitles

if TYPE_CHECKING:
    from videopro.modules.models.encoders import TextEncoder

_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")


class SubtitleSearch:
    """Search in the subtitle lines of one video; thread-safe. Its index is built by the first search."""

    def __init__(self, subtitles: Subtitles, encoder: TextEncoder | None = None) -> None:
        """`encoder` None: BM25."""
        self.lines = subtitles.lines
        self._encoder = encoder
        self._vectors: np.ndarray | None = None
        self._bm25: Any = None
        self._lock = threading.Lock()

    def identity(self) -> object:
        """What results depend on, except the lines, as JSON-serializable data."""
        return "bm25" if self._encoder is None else self._encoder.identity()

    def rank(self, query: str) -> list[tuple[int, float]]:
        """Lines as (line number, score), best first; ties by time. BM25 leaves out lines that share no word
        with the query; a text encoder ranks every line."""
        if not self.lines:
            return []
        with self._lock:
            scores = self._by_tokens(query) if self._encoder is None else self._by_meaning(query)
        order = np.argsort(-scores, kind="stable")
        lowest = 0.0 if self._encoder is None else -np.inf
        return [(int(i), float(scores[i])) for i in order if scores[i] > lowest]

    def _by_meaning(self, query: str) -> np.ndarray:
        assert self._encoder is not None
        if self._vectors is None:
            # At the first search: many questions never search the subtitles.
            self._vectors = self._encoder.encode_texts([line.text for line in self.lines])
        (query_vector,) = self._encoder.encode_queries([query])
        scores: np.ndarray = self._vectors @ query_vector
        return scores

    def _by_tokens(self, query: str) -> np.ndarray:
        if self._bm25 is None:
            self._bm25 = _bm25_index([search_tokens(line.text) for line in self.lines])
        terms = [
            word for word in search_tokens(query) if self._bm25 is not None and word in self._bm25.vocab_dict
        ]
        if not terms:
            return np.zeros(len(self.lines), dtype=np.float32)
        scores: np.ndarray = self._bm25.get_scores(terms)
        return scores


def search_tokens(text: str) -> list[str]:
    """The words of a text in lower case; scripts without spaces are split into characters.

    There is no list of stop words: BM25 gives little weight to common words, and "who" or "not" may be what
    counts. There is no stemming, which would tie the search to one language.
    """
    return _WORD.findall(text.lower())


def _bm25_index(lines: list[list[str]]) -> Any:
    """A BM25 index, or None if no line has a word."""
    if not any(lines):
        return None
    import bm25s

    retriever = bm25s.BM25()
    retriever.index(lines, show_progress=False)
    return retriever
