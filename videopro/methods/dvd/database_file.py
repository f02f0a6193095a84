"""The file of a database: a JSON line for each captioned clip, and for what is made of all of them, each with
its cost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from videopro.backbones.wrappers import Meter
from videopro.errors import writing
from videopro.methods.dvd.registry import Subject, SubjectReply
from videopro.modules.models.encoders import TextEncoder
from videopro.modules.search import DamagedIndex, SubtitleSearch, read_vectors, write_vectors
from videopro.storage import InvalidJson, JsonLinesLog, parse_json
from videopro.traces import Cost
from videopro.video import SubtitleLine, Subtitles


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid")
    cost: Cost
    """Without its stages."""


class CaptionedClip(_Line):
    """A clip of the database."""

    clip: int
    """Its number, from 0."""
    start: float
    end: float
    caption: str
    """Empty if the captioner's reply could not be parsed."""
    spoken: str = ""
    """The subtitle lines that begin in the clip."""
    subjects: list[SubjectReply] = []
    fault: str = ""
    """Why there is no caption."""
    stand_ins: tuple[tuple[float, float], ...] = ()
    """Of its frames, those that stand in for damaged ones: (time asked for, its own time) in s."""

    @property
    def text(self) -> str:
        """What is searched and shown: the caption, enriched by what is spoken."""
        spoken = f"Spoken: {self.spoken}" if self.spoken else ""
        return " ".join(part for part in (self.caption, spoken) if part)

    @property
    def mentions(self) -> list[Subject]:
        """The subjects that are seen in this clip."""
        return [Subject.seen(subject, self.start, self.end) for subject in self.subjects]


class MergedRegistry(_Line):
    """The registry of a database whose clips were captioned in parallel."""

    registry: list[Subject]
    fault: str = ""
    """Why the subjects were not merged."""


class EmbeddedCaptions(_Line):
    """The captions were embedded by an encoder; the vectors are in a file of their own."""

    encoder: str
    """Hash of the encoder's identity."""
    width: int


@dataclass
class Lines:
    """What a database's file holds. A later line replaces an earlier one of the same kind."""

    clips: dict[int, CaptionedClip] = field(default_factory=dict)
    registry: MergedRegistry | None = None
    embedded: dict[str, EmbeddedCaptions] = field(default_factory=dict)
    damaged: int = 0
    """Lines that cannot be read, or do not fit the clips."""

    def add(self, clip: CaptionedClip) -> None:
        """Add a clip. What was made of all clips before no longer fits."""
        self.clips[clip.clip] = clip
        self.registry = None
        self.embedded.clear()


_ANY_LINE: TypeAdapter[CaptionedClip | MergedRegistry | EmbeddedCaptions] = TypeAdapter(
    CaptionedClip | MergedRegistry | EmbeddedCaptions
)


def read_lines(path: Path, bounds: Sequence[tuple[float, float]]) -> Lines:
    """The lines of a database with these clips."""
    lines = Lines()
    # What follows the last newline is a line that a killed process left half-written.
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            content = _ANY_LINE.validate_python(parse_json(line))
        except (InvalidJson, ValidationError):
            lines.damaged += 1
            continue
        if isinstance(content, MergedRegistry):
            lines.registry = content
        elif isinstance(content, EmbeddedCaptions):
            lines.embedded[content.encoder] = content
        elif content.clip in range(len(bounds)) and bounds[content.clip] == (content.start, content.end):
            lines.add(content)
        else:
            lines.damaged += 1
    return lines


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
        cost = replace(meter.take(), stages={})
        with writing("the embeddings of captions", path.parent, then="run the same command again"):
            write_vectors(file, owner, vectors)
        embedded = EmbeddedCaptions(encoder=key, width=int(vectors.shape[1]), cost=cost)
        lines.embedded[key] = embedded
        log.append(embedded.model_dump(mode="json"))
    return CaptionSearch(captioned, encoder, vectors)


def encoder_key(encoder: TextEncoder) -> str:
    """Names an encoder in file names and keys."""
    return hashlib.sha256(json.dumps(encoder.identity(), sort_keys=True).encode()).hexdigest()[:8]
