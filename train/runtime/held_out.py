"""Held-out questions for the evaluations of a training run, with the mode that each should be answered in.

They come from a `grpo.jsonl` (its rows of kind "plan"), a folder with `questions.jsonl`, or a split of the
pocket world.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from videopro import benchmarks
from videopro.benchmarks import ROBUST, Benchmark, Item, Protocol
from videopro.errors import DatasetError
from videopro.storage import read_json_lines
from videopro.traces.scoring import Mode
from videopro.train.rewards import read_row


@dataclass(frozen=True)
class EvalQuestions:
    """Questions by video, and the oracle mode (A.3) of those that came with one."""

    items: tuple[Item, ...]
    protocol: Protocol
    oracle: Mapping[str, Mode]

    def by_video(self) -> list[list[Item]]:
        """The questions grouped by video, in the order in which the videos first appear."""
        groups: dict[str, list[Item]] = {}
        for item in self.items:
            groups.setdefault(item.video_key, []).append(item)
        return list(groups.values())


def load_eval_questions(spec: str, *, limit: int | None, seed: int) -> EvalQuestions:
    """The questions that a setting names: FILE.jsonl, a folder, or "pocket:SPLIT". At most `limit` are taken,
    by whole videos in a random order given by `seed`. Raises DatasetError or BenchmarkError, naming the fix.
    """
    oracle: dict[str, Mode] = {}
    if spec.startswith("pocket:"):
        benchmark = benchmarks.load("pocket", split=spec.removeprefix("pocket:"))
    elif Path(spec).is_dir():
        benchmark = benchmarks.load("jsonl", root=Path(spec))
    else:
        benchmark, oracle = _read(Path(spec))
    items = benchmark.select(limit=limit, seed=seed)
    nameless = next((item for item in items if item.answer is None), None)
    if nameless is not None and nameless.question.is_open:
        raise DatasetError(
            f"{spec}: question {nameless.id!r} is open; planners are trained and evaluated on questions with "
            "options, so give it 'choices' and 'answer', or leave it out"
        )
    if nameless is not None:
        raise DatasetError(f"{spec}: question {nameless.id!r} has no answer; held-out questions need one")
    if benchmark.fetch is not None:
        benchmark.fetch(items)
    return EvalQuestions(tuple(items), benchmark.protocol, oracle)


def _read(path: Path) -> tuple[Benchmark, dict[str, Mode]]:
    items: list[Item] = []
    oracle: dict[str, Mode] = {}
    for _, where, record in read_json_lines(
        path, "a grpo.jsonl, a folder with questions.jsonl, or pocket:SPLIT"
    ):
        if record.get("kind", "plan") != "plan":
            continue
        if "question" not in record:
            raise DatasetError(
                f"{where}: has no column 'question'; eval_questions takes a grpo.jsonl of videopro "
                "synthesize, or rows with its columns id, video, question, choices and answer"
            )
        row = read_row({"kind": "plan", **record}, where, folder=path.parent)
        items.append(
            Item(
                id=row.id,
                video=row.video,
                video_key=record["video"],
                question=row.question,
                answer=row.answer,
                subtitles=row.subtitles,
                subtitle_track=row.subtitle_track,
                groups={"family": record["family"]} if record.get("family") else {},
            )
        )
        if row.oracle_mode is not None:
            oracle[row.id] = row.oracle_mode
    if not items:
        raise DatasetError(f"{path}: has no questions of kind 'plan'")
    return Benchmark(name=str(path), split="", items=items, protocol=Protocol(parser=ROBUST)), oracle
