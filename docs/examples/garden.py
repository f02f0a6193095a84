"""Garden: which bird is at the feeder?

    val.csv, test.csv     id,video,question,a,b,c,answer,season; test.csv has no answers
    videos/NAME.mp4

An invented benchmark, the example in CONTRIBUTING.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from videopro.benchmarks.base import Item
from videopro.benchmarks.fields import file_name, known_groups, text
from videopro.benchmarks.protocol import ROBUST, AnswerPrompt, Metric, Protocol
from videopro.benchmarks.registry import BenchmarkSpec
from videopro.benchmarks.sources import BenchmarkRecords, Source
from videopro.question import Question

PROMPT = AnswerPrompt(
    source="this example; a real one names the authors' repository, file and commit",
    text="{question}\n{options}\nAnswer with the letter of the bird.",
)
PROTOCOLS = (
    Protocol(
        ROBUST,
        name="official",
        answer_prompt=PROMPT,
        subtitles="none",
        groups=("season",),
        metrics=(Metric("Winter", over="season", of=("winter",)),),
    ),
)


def read(source: Source, split: str) -> BenchmarkRecords:
    """The questions of a split."""
    found = BenchmarkRecords()
    found.read(source.rows(f"{split}.csv"), partial(_item, source=source))
    return found


def _item(record: Mapping[str, Any], where: str, *, source: Source) -> Item:
    """The question of a row. Raises BenchmarkError or QuestionError, which mark the row as broken."""
    video = file_name(record, "video")
    question = Question(text(record, "question"), tuple(text(record, option) for option in "abc"))
    answer = record.get("answer") or None
    if answer is not None:
        question.choice(answer)
    return Item(
        id=text(record, "id"),
        video=source.files.video(video, "videos"),
        video_key=video,
        question=question,
        answer=answer,
        groups=known_groups(record, season="season"),
    )


SPEC = BenchmarkSpec("garden", ("val", "test"), PROTOCOLS, read, "val.csv, test.csv and videos/")
