"""LongVideoBench: referring reasoning over videos of 8 s to an hour, with subtitles.

    lvb_val.json, lvb_test_wo_gt.json     questions, test without answers (or the hub's parquet files)
    videos/ID.mp4, subtitles/ID_en.json

Format, frames and prompt: longvideobench/longvideobench_dataset.py of
github.com/longvideobench/LongVideoBench. It shows min(256, whole seconds) frames, at i * duration / n, with
the subtitle lines between them. A model with a smaller frame budget gets fewer frames (--backbone
frames=256).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from videopro.benchmarks.base import Item
from videopro.benchmarks.fields import file_name, index, known_groups, number, text, texts
from videopro.benchmarks.hub import manifest
from videopro.benchmarks.protocol import AnswerPrompt, Metric, Protocol
from videopro.benchmarks.registry import BenchmarkSpec
from videopro.benchmarks.sources import BenchmarkRecords, Source
from videopro.errors import BenchmarkError
from videopro.question import LETTERS, Question

MANIFEST = manifest("longvideobench")
FILES = {
    split: (*MANIFEST.paths(split, "questions"), f"{name}-00000-of-00001.parquet")
    for split, (_, name) in MANIFEST.rows.items()
}
# duration_group, as papers name it.
DURATIONS = {15: "(8, 15]", 60: "(15, 60]", 600: "(180, 600]", 3600: "(900, 3600]"}
# Padding of the options in the hub's parquet files.
PADDING = "N/A"

PROMPT = AnswerPrompt(
    source="longvideobench/LongVideoBench, longvideobench/longvideobench_dataset.py, commit 2aa4f91",
    text=(
        "{subtitles}Question: {question}\n{options}\n"
        "Answer with the option's letter from the given choices directly."
    ),
    subtitles="{lines}\n",
)
_GROUPS = ("duration", "category", "level")
_METRICS = tuple(Metric(name, over="duration", of=(name,)) for name in DURATIONS.values())

_OFFICIAL = Protocol(
    "longvideobench", name="subtitles", answer_prompt=PROMPT, reply="text", reply_tokens=32,
    subtitles="interleaved", sampling="starts", fps=1.0, max_frames=256, groups=_GROUPS, metrics=_METRICS,
)  # fmt: skip

PROTOCOLS = (
    _OFFICIAL,
    replace(_OFFICIAL, name="no_subtitles", subtitles="none"),
    Protocol("videopro", name="videopro", groups=_GROUPS, metrics=_METRICS),
)


def read(source: Source, split: str) -> BenchmarkRecords:
    """The questions of a split."""
    records = BenchmarkRecords()
    rows = source.rows(*FILES[split], hub=MANIFEST.rows[split])
    records.read(rows, partial(_item, source=source, split=split))
    return records


def _item(record: Mapping[str, Any], where: str, *, source: Source, split: str) -> Item:
    identifier, video = text(record, "id"), file_name(record, "video_path")
    choices = _choices(record)
    answer = None
    if split != "test":
        answer = LETTERS[index(record, "correct_choice", len(choices))]
    subtitles = None
    if record.get("subtitle_path") and source.files.folder("subtitles"):
        # The file is listed, so if it is missing, the download is incomplete: asking the question fails.
        subtitles = source.root / "subtitles" / file_name(record, "subtitle_path")
    offset = record.get("starting_timestamp_for_subtitles")
    groups = known_groups(record, category="question_category", level="level", topic="topic_category")
    if record.get("duration_group") is not None:
        seconds = int(number(record, "duration_group"))
        groups["duration"] = DURATIONS.get(seconds, str(seconds))
    return Item(
        id=identifier,
        video=source.files.video(video, "videos"),
        video_key=video.rsplit(".", 1)[0],
        question=Question(text(record, "question"), tuple(choices)),
        answer=answer,
        subtitles=subtitles,
        subtitle_offset=number(record, "starting_timestamp_for_subtitles") if offset is not None else 0.0,
        groups=groups,
    )


def _choices(record: Mapping[str, Any]) -> list[str]:
    if "candidates" in record:
        return texts(record, "candidates")
    options = [record.get(f"option{position}") for position in range(5)]
    if options[0] is None:
        raise BenchmarkError("field 'candidates' is missing; pass an annotation file of LongVideoBench")
    return [str(option) for option in options if option is not None and option != PADDING]


SPEC = BenchmarkSpec(
    "longvideobench",
    tuple(FILES),
    PROTOCOLS,
    read,
    "lvb_val.json, videos/ and subtitles/",
    subtitle_folders=("subtitles",),
)
