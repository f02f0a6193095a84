"""Finding the subtitle lines that fit a query: by meaning with a text encoder, by words with BM25.

BM25 is bm25s.
"""

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
    """The lines of one video, searched; thread safe. What a search needs is made at the first one."""

    def __init__(self, subtitles: Subtitles, encoder: TextEncoder | None = None) -> None:
        self.lines = subtitles.lines
        self._encoder = encoder
        self._vectors: np.ndarray | None = None
        self._bm25: Any = None
        self._lock = threading.Lock()

    def identity(self) -> object:
        """What results rest on besides the lines."""
        return "bm25" if self._encoder is None else self._encoder.identity()

    def rank(self, query: str) -> list[tuple[int, float]]:
        """(number of a line, score), best first, earlier lines first among equals. By words, lines that
        share none with the query are left out; by meaning every line is there."""
        if not self.lines:
            return []
        with self._lock:
            scores = self._by_words(query) if self._encoder is None else self._by_meaning(query)
        order = np.argsort(-scores, kind="stable")
        lowest = 0.0 if self._encoder is None else -np.inf
        return [(int(i), float(scores[i])) for i in order if scores[i] > lowest]

    def _by_meaning(self, query: str) -> np.ndarray:
        assert self._encoder is not None
        if self._vectors is None:
            self._vectors = self._encoder.encode_texts([line.text for line in self.lines])
        (wanted,) = self._encoder.encode_queries([query])
        scores: np.ndarray = self._vectors @ wanted
        return scores

    def _by_words(self, query: str) -> np.ndarray:
        if self._bm25 is None:
            self._bm25 = _indexed([search_tokens(line.text) for line in self.lines])
        known = [
            word for word in search_tokens(query) if self._bm25 is not None and word in self._bm25.vocab_dict
        ]
        if not known:
            return np.zeros(len(self.lines), dtype=np.float32)
        scores: np.ndarray = self._bm25.get_scores(known)
        return scores


def search_tokens(text: str) -> list[str]:
    """The words of a text, lower case; scripts without spaces go character by character.

    All words, without a list of stop words: BM25 itself gives little to common ones, and "who" or "not" may
    be what counts. Without stemming, which would tie the search to one language.
    """
    return _WORD.findall(text.lower())


def _indexed(lines: list[list[str]]) -> Any:
    """A BM25 index, or None where no line has a word."""
    if not any(lines):
        return None
    import bm25s

    retriever = bm25s.BM25()
    retriever.index(lines, show_progress=False)
    return retriever
