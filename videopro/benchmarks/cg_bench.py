"""CG-Bench: questions about long videos with the intervals that hold the clue, the training source of the
paper.

    cgbench.json, cgbench_mini.json        the questions: splits "full" and "mini"
    cg_videos_720p/UID.mp4                 the videos
    cg_subtitles/UID.srt                   subtitles of those videos that have any

Format: github.com/CG-Bench/CG-Bench. Knows the files' shape; its clue metrics are not here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from videopro.benchmarks.base import ROBUST, Benchmark, Item, Protocol
from videopro.config import near
from videopro.errors import BenchmarkError, QuestionError
from videopro.question import Question

FILES = {"full": "cgbench.json", "mini": "cgbench_mini.json"}


def load_cg_bench(root: Path, split: str = "") -> Benchmark:
    """The questions of a split ("full" without one). `root` is the folder, or one annotation file in it,
    whatever its name.

    Raises BenchmarkError, naming file, record, field and mend.
    """
    split = split or "full"
    if root.is_file():
        path = root
    elif split in FILES:
        path = root / FILES[split]
    else:
        raise BenchmarkError(f"cg_bench: has no split {split!r}; {near(split, list(FILES))}")
    records = read_records(path)
    items = [
        _item(record, path.parent, f"{path}, record {number}")
        for number, record in enumerate(records, start=1)
    ]
    return Benchmark("cg_bench", split, items, Protocol(parser=ROBUST), breakdowns=("family", "domain"))


def read_records(path: Path) -> list[Mapping[str, Any]]:
    """The records of an annotation file, unchecked but for being objects. Raises BenchmarkError."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BenchmarkError(
            f"cg_bench: {path} does not exist; give the folder that holds {' or '.join(FILES.values())} "
            "with --root, or such a file itself"
        ) from error
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"cg_bench: {path} cannot be read: {error}") from error
    if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
        raise BenchmarkError(f"cg_bench: {path} must hold a list of objects")
    return content


def _item(record: Mapping[str, Any], folder: Path, where: str) -> Item:
    for name in ("qid", "video_uid", "question", "choices", "right_answer"):
        if name not in record:
            raise BenchmarkError(
                f"{where}: field {name!r} is missing; is this an annotation file of CG-Bench?"
            )
    choices, uid = record["choices"], record["video_uid"]
    if not isinstance(choices, list):
        raise BenchmarkError(f"{where}: field 'choices' must be a list of texts, not {choices!r}")
    if not isinstance(uid, str) or not uid or "/" in uid:
        raise BenchmarkError(f"{where}: field 'video_uid' is {uid!r}; it must be a video's name")
    try:
        question = Question(record["question"], tuple(choices))
        question.choice(record["right_answer"])
    except QuestionError as error:
        raise BenchmarkError(f"{where}: {error}") from error
    subtitles = folder / "cg_subtitles" / f"{uid}.srt"
    groups = {"family": record.get("sub_category"), "domain": record.get("domain")}
    return Item(
        id=str(record["qid"]),
        video=folder / "cg_videos_720p" / f"{uid}.mp4",
        video_key=uid,
        question=question,
        answer=record["right_answer"],
        # The annotations do not say which videos have subtitles; the folder does.
        subtitles=subtitles if subtitles.exists() else None,
        groups={name: value for name, value in groups.items() if isinstance(value, str)},
        evidence=_clues(record.get("clue_intervals", []), where),
    )


def _clues(value: Any, where: str) -> tuple[tuple[float, float], ...]:
    clues = []
    for pair in value if isinstance(value, list) else [value]:
        numbers = isinstance(pair, list) and len(pair) == 2 and all(isinstance(x, int | float) for x in pair)
        if not numbers or not 0 <= pair[0] <= pair[1]:
            raise BenchmarkError(
                f"{where}: field 'clue_intervals' holds {pair!r}; it must be a list of [start, end] in "
                "seconds"
            )
        clues.append((float(pair[0]), float(pair[1])))
    return tuple(clues)
