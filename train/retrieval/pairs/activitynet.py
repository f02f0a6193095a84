"""ActivityNet Captions (Krishna et al. 2017): `train.json`, from a video's name to its duration, timestamps
and sentences. Videos in `videos/` or the folder itself, under the same names ("v_QOlSCBRmfWY")."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from videopro.benchmarks import VideoFiles
from videopro.errors import DatasetError
from videopro.train.retrieval.pairs.caption_pairs import (
    CaptionPairs,
    Units,
    annotation_file,
    file_name,
    moment,
    named,
    read_json,
    span,
)


def load_activitynet(root: Path, units: Units) -> CaptionPairs:
    """A pair for each sentence of the training split, with its segment or the whole video. Raises
    DatasetError for a missing or unreadable file."""
    path = annotation_file(root, "activitynet", "train.json", "captions/train.json")
    content = read_json(path, "activitynet")
    if not isinstance(content, dict):
        raise DatasetError(f"activitynet: {path} must contain an object of videos; download it again")

    def captions(entry: tuple[str, Any]) -> tuple[str, list[tuple[str, float, float | None]]]:
        name, record = entry
        times, sentences = named(record, "timestamps", "sentences")
        if not isinstance(times, list) or not isinstance(sentences, list) or len(times) != len(sentences):
            raise DatasetError("'timestamps' and 'sentences' are not lists of one length")
        if units == "videos":
            return file_name(name), [(sentence, 0.0, None) for sentence in sentences]
        if not all(isinstance(pair, list) and len(pair) == 2 for pair in times):
            raise DatasetError("'timestamps' is not a list of [start, end]")
        # Some start and end are swapped in the official file.
        spans = [span(*sorted((moment(pair[0]), moment(pair[1])))) for pair in times]
        return file_name(name), [(text, *at) for text, at in zip(sentences, spans, strict=True)]

    pairs = CaptionPairs()
    rows = [(f"{path}, {name!r}", (name, record)) for name, record in content.items()]
    pairs.read(VideoFiles(root), ("videos", "."), rows, captions)
    return pairs
