"""Search in the captions of a database: by the cosine of embeddings, or by words (BM25) without an encoder.

Embeddings are made once, and stored in a file beside the captions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from videopro.backbones.wrappers import Meter
from videopro.errors import writing
from videopro.methods.dvd.database_file import CaptionedClip, EmbeddedCaptions, LineCost, Lines
from videopro.modules.models.encoders import TextEncoder
from videopro.modules.search import DamagedIndex, SubtitleSearch, read_vectors, write_vectors
from videopro.storage import JsonLinesLog
from videopro.video import SubtitleLine, Subtitles


class CaptionSearch:
    """Search in the clips that have a caption or speech. Thread-safe."""

    def __init__(
        self, clips: Sequence[CaptionedClip], encoder: TextEncoder | None, vectors: np.ndarray | None
    ) -> None:
        """`vectors`: (clips, d), of the texts of `clips`."""
        self._clips = clips
        lines = tuple(SubtitleLine(clip.start, clip.end, clip.text) for clip in clips)
        self._search = SubtitleSearch(Subtitles(lines, "captions"), encoder, vectors)

    def best(self, query: str, top_k: int) -> list[tuple[CaptionedClip, float]]:
        """The `top_k` best clips with their scores, best first; ties by time. BM25 finds only clips that
        share a word with the query."""
        return [(self._clips[index], score) for index, score in self._search.rank(query)[:top_k]]


def embed_captions(
    clips: Sequence[CaptionedClip],
    encoder: TextEncoder | None,
    path: Path,
    lines: Lines,
    log: JsonLinesLog,
) -> CaptionSearch:
    """Search in the captions, whose embeddings are read from the file beside `path`, or made and stored there
    with their cost in `lines` and `log`. Raises RunError for a file that cannot be written."""
    captioned = [clip for clip in clips if clip.text]
    if encoder is None or not captioned:
        return CaptionSearch(captioned, None, None)
    texts = [clip.text for clip in captioned]
    key = encoder_key(encoder)
    file = path.with_name(f"{path.stem}.{key}.safetensors")
    # Names what the vectors are of: a file of other texts is not read.
    owner = hashlib.sha256(json.dumps([key, texts]).encode()).hexdigest()
    vectors = None
    if stored := lines.embedded.get(key):
        try:
            vectors = read_vectors(file, owner, (len(captioned), stored.width))
        except DamagedIndex:
            # Made again: it depends on nothing but the captions.
            vectors = None
    if vectors is None:
        meter = Meter()
        vectors = encoder.encode_texts(texts)
        cost = LineCost.of(meter.take())
        with writing("the embeddings of captions", path.parent, then="run the same command again"):
            write_vectors(file, owner, vectors)
        embedded = EmbeddedCaptions(encoder=key, width=int(vectors.shape[1]), cost=cost)
        lines.embedded[key] = embedded
        log.append(embedded.model_dump(mode="json"))
    return CaptionSearch(captioned, encoder, vectors)


def encoder_key(encoder: TextEncoder) -> str:
    """Names an encoder in file names and keys."""
    return hashlib.sha256(json.dumps(encoder.identity(), sort_keys=True).encode()).hexdigest()[:8]
