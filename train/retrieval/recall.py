"""Measures how often an encoder finds the clip with a question's evidence: recall@3 by question family of the
pocket world.

The query is the question itself. A clip has the evidence if at least half of it lies within the evidence's
intervals; if no clip does, the one that overlaps them most counts.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from videopro.cli import counted
from videopro.modules.models.encoders import load_encoder
from videopro.modules.search import build_index
from videopro.pocket import world
from videopro.traces.scoring import clustered_interval
from videopro.video import Video

TOP = 3
# The families that clip retrieval should serve: the evidence is visible, in a part of the video, and the
# question names what to look for. For the others it is the whole video, or what the narrator says.
SERVED = ("attribute", "action", "order", "count", "sign")


def evidence_clips(clips: Sequence[tuple[float, float]], evidence: Sequence[Sequence[float]]) -> list[int]:
    """The indices of the clips that have the evidence, as defined above."""
    shared = [
        sum(max(0.0, min(end, to) - max(start, since)) for since, to in evidence) for start, end in clips
    ]
    indices = [i for i, (start, end) in enumerate(clips) if shared[i] >= (end - start) / 2]
    return indices or [max(range(len(clips)), key=shared.__getitem__)]


def recall(encoder: str, split: str, root: Path) -> dict[str, object]:
    """recall@3 by family, and over all families that retrieval serves, with 95 % intervals clustered by
    video.

    `encoder`: as in `load_encoder`. `root`: folder for the indexes.
    """
    model = load_encoder(encoder, "cpu")
    # The questions first: of the videos, only those that they name are made.
    folder = world.ensure(split, videos=())
    questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    by_video: dict[str, list[dict]] = defaultdict(list)
    for question in questions:
        if question["family"] in SERVED:
            by_video[question["video"]].append(question)
    world.ensure(split, videos={Path(name).stem for name in by_video})
    hits: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for name in counted(list(by_video), f"recall on {split}"):
        index = build_index(Video.open(folder / name), model, root=root)
        for question in by_video[name]:
            retrieved = {number for number, _ in index.search(question["question"], TOP)}
            # One clip of the evidence is enough: a program looks at what it finds.
            hit = not retrieved.isdisjoint(evidence_clips(index.clips, question["evidence"]))
            for group in (question["family"], "all", f"all, {question['length']}"):
                hits[group][name].append(hit)
    figures: dict[str, object] = {}
    for group, outcomes in sorted(hits.items()):
        every = [hit for video_hits in outcomes.values() for hit in video_hits]
        low, high = clustered_interval(outcomes)
        figures[group] = {
            "recall": round(sum(every) / len(every), 4),
            "ci95": [round(low, 4), round(high, 4)],
            "questions": len(every),
        }
    return figures
