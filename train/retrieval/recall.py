"""Measures how often an encoder finds the clip with a question's evidence: recall@3 by question family of the
pocket world.

    python -m videopro.train.retrieval.recall --encoder pocket --split test

The query is the question itself. A clip has the evidence if at least half of it lies within the evidence's
intervals; if no clip does, the one that overlaps them most counts.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from videopro.cli import exit_status
from videopro.command_line import CommandLine
from videopro.modules.models.encoders import load_encoder
from videopro.modules.search import build_index, default_root
from videopro.pocket import world
from videopro.scoring import clustered_interval
from videopro.settings import setting
from videopro.video import Video
from videopro.work import counted


@dataclass(frozen=True)
class RecallSettings:
    """What to measure."""

    encoder: str = field(
        default="pocket", metadata=setting("pocket, or another encoder that load_encoder accepts")
    )
    split: str = field(default="test", metadata=setting("split of the pocket world"))
    root: Path | None = field(
        default=None, metadata=setting("folder for the indexes; unset: the user's cache")
    )
    limit: int | None = field(default=None, metadata=setting("maximum number of videos"))


COMMAND = CommandLine(
    "videopro.train.retrieval.recall",
    RecallSettings,
    summary="Measure how often an encoder finds the clip with a question's evidence.",
)


TOP = 3
# The families that clip retrieval should serve: the evidence is visible, in a part of the video, and the
# question names what to look for. For the others it is the whole video, or what the narrator says.
SERVED = ("attribute", "action", "order", "count", "sign")


def evidence_clips(clips: Sequence[tuple[float, float]], evidence: Sequence[Sequence[float]]) -> list[int]:
    """The indices of the clips that have the evidence, as defined above."""
    shared = [
        sum(max(0.0, min(end, to) - max(start, since)) for since, to in evidence) for start, end in clips
    ]
    held = [i for i, (start, end) in enumerate(clips) if shared[i] >= (end - start) / 2]
    return held or [max(range(len(clips)), key=shared.__getitem__)]


def recall(encoder: str, split: str, root: Path, limit: int | None = None) -> dict[str, object]:
    """recall@3 by family, and over all families that retrieval serves, with 95 % intervals clustered by
    video.

    `encoder`: as in `load_encoder`. `root`: folder for the indexes. `limit`: maximum number of videos.
    """
    model = load_encoder(encoder, "cpu")
    folder = world.ensure(split, videos=())
    questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    by_video: dict[str, list[dict]] = defaultdict(list)
    for question in questions:
        if question["family"] in SERVED:
            by_video[question["video"]].append(question)
    names = list(by_video)[:limit]
    world.ensure(split, videos={Path(name).stem for name in names})
    hits: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for name in counted(names, f"recall on {split}"):
        index = build_index(Video.open(folder / name), model, root=root)
        for question in by_video[name]:
            found = {number for number, _ in index.search(question["question"], TOP)}
            hit = not found.isdisjoint(evidence_clips(index.clips, question["evidence"]))
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


def print_recall(given: RecallSettings) -> None:
    """Measure, and print a line for each group of questions."""
    figures = recall(given.encoder, given.split, given.root or default_root(), given.limit)
    for group, found in figures.items():
        print(group, json.dumps(found))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status("stopped; indexes that are done are kept") as status:
        print_recall(COMMAND.parse(argv))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
