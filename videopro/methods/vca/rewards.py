"""Rewards that ask no language model: image similarity (Table 5) and annotated evidence (Table 6)."""

from __future__ import annotations

from collections.abc import Sequence

from videopro.modules.models.encoders import VideoTextEncoder
from videopro.video import Frame


def frame_similarity(encoder: VideoTextEncoder, text: str, frames: Sequence[Frame]) -> list[float]:
    """The cosine similarity of each frame to a text, in percent and at least 0. An encoder of clips is shown
    a clip that stands still."""
    clips = [[frame] * encoder.clip_frames for frame in frames]
    (similarities,) = encoder.score_clips([text], clips)
    return [100.0 * max(0.0, float(similarity)) for similarity in similarities]


def evidence_scores(
    spans: Sequence[tuple[float, float]], evidence: Sequence[tuple[float, float]]
) -> list[float] | None:
    """The share (in percent) of the annotated evidence that each span (s) holds; None without evidence. An
    instant counts as a hundredth of a second."""
    wide = [(start, max(end, start + 0.01)) for start, end in evidence]
    total = sum(end - start for start, end in wide)
    if not total:
        return None
    return [
        100.0 * sum(max(0.0, min(end, last) - max(start, first)) for first, last in wide) / total
        for start, end in spans
    ]
