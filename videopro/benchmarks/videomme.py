"""Video-MME: 900 videos in three groups of length with three questions each, with and without subtitles.

    videomme/test-00000-of-00001.parquet   one question per row (or the authors' JSON, one video per record)
    data/VIDEOID.mp4, subtitle/VIDEOID.srt

Format, prompt and scorer: README.md and evaluation/ of github.com/BradyFU/Video-MME. Its licence forbids
redistributing any part of it, so none of its data is included here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from videopro.benchmarks.base import Item
from videopro.benchmarks.fields import file_name, known_groups, text, texts
from videopro.benchmarks.protocol import AnswerPrompt, Metric, Protocol
from videopro.benchmarks.registry import BenchmarkSpec
from videopro.benchmarks.sources import BenchmarkRecords, LocatedRecord, Source, UnreadableRecord
from videopro.errors import BenchmarkError
from videopro.question import Question

LENGTHS = ("short", "medium", "long")
FILES = (
    "videomme/test-00000-of-00001.parquet",
    "test-00000-of-00001.parquet",
    "Video-MME.json",
    "output_test_template.json",
)
VIDEO_FOLDERS = ("data", "videos", "video")
SUBTITLE_FOLDERS = ("subtitle", "subtitles")
_LABEL = re.compile(r"^\s*\(?([A-D])[.):]\s*(?=\S)")

PROMPT = AnswerPrompt(
    source="BradyFU/Video-MME, README.md (evaluation pipeline), commit 07d7282",
    text=(
        "{subtitles}Select the best answer to the following multiple-choice question based on the video. "
        "Respond with only the letter (A, B, C, or D) of the correct option.\n"
        "{question}\n{options}\nThe best answer is:"
    ),
    subtitles="This video's subtitles are listed below:\n{lines}\n",
)
_GROUPS = ("duration", "task", "domain")
_METRICS = tuple(Metric(name.capitalize(), over="duration", of=(name,)) for name in LENGTHS)

# The authors' scorer leaves out replies that it cannot parse.
_OFFICIAL = Protocol(
    "videomme_afd52cf", official_unparsed="left out", name="no_subtitles", answer_prompt=PROMPT, reply="text",
    reply_tokens=16, subtitles="none", groups=_GROUPS, metrics=_METRICS,
)  # fmt: skip

PROTOCOLS = (
    _OFFICIAL,
    replace(_OFFICIAL, name="subtitles", subtitles="frames_until"),
    Protocol("videopro", name="videopro", groups=_GROUPS, metrics=_METRICS),
)


def read(source: Source, split: str) -> BenchmarkRecords:
    """The questions about videos of one duration group, or all of them."""
    found = BenchmarkRecords()
    rows = _flat(source.rows(*FILES, hub=("videomme", "test")))
    found.read(rows, partial(_item, source=source, split=split))
    return found


def _flat(rows: Sequence[LocatedRecord]) -> Iterator[LocatedRecord]:
    """One row per question, from either format, with the parquet's field names."""
    for where, record in rows:
        if isinstance(record, UnreadableRecord) or "questions" not in record:
            yield where, record
            continue
        about = {
            "video_id": record.get("video_id"),
            "videoID": record.get("videoID") or _url_id(record.get("url")) or record.get("video_id"),
            "duration": record.get("duration_category", record.get("duration")),
            "domain": record.get("video_category", record.get("domain")),
            "sub_category": record.get("video_subcategory", record.get("video_sub_category")),
        }
        questions = record["questions"]
        if not isinstance(questions, list) or not all(isinstance(question, dict) for question in questions):
            problem = ("field 'questions' is not a list of objects", "download the file again")
            yield where, UnreadableRecord(*problem)
            continue
        for place, question in enumerate(questions, start=1):
            options = {"options": question.get("choices", question.get("options"))}
            yield f"{where}, question {place}", {**about, **question, **options}


def _url_id(url: Any) -> str:
    match = re.search(r"(?:v=|youtu\.be/|shorts/)([\w-]{11})", url) if isinstance(url, str) else None
    return match[1] if match else ""


def _item(record: Mapping[str, Any], where: str, *, source: Source, split: str) -> Item | None:
    length = text(record, "duration").lower()
    if length not in LENGTHS:
        raise BenchmarkError(f"field 'duration' is {length!r}; it must be one of {', '.join(LENGTHS)}")
    if split not in ("all", length):
        return None
    video = file_name(record, "videoID" if record.get("videoID") else "video_id")
    choices = _unlabelled(texts(record, "options"))
    question = Question(text(record, "question"), choices)
    answer = text(record, "answer")
    question.choice(answer)
    identifier = text(record, "question_id")
    return Item(
        id=identifier,
        video=source.files.video(video, *VIDEO_FOLDERS),
        video_key=video,
        question=question,
        answer=answer,
        # 744 of the 900 videos have subtitles: those with a file in the folder.
        subtitles=source.files.optional_file(f"{video}.srt", *SUBTITLE_FOLDERS),
        groups={
            **known_groups(record, task="task_type", domain="domain", subcategory="sub_category"),
            "duration": length,
        },
    )


def _unlabelled(options: Sequence[str]) -> tuple[str, ...]:
    """Options without their leading letters: "A. Black." becomes "Black."."""
    labels = [found[1] if (found := _LABEL.match(option)) else "" for option in options]
    if "".join(labels) != "ABCDEFGHIJ"[: len(options)]:
        return tuple(options)
    return tuple(_LABEL.sub("", option) for option in options)


SPEC = BenchmarkSpec(
    "videomme",
    ("all", *LENGTHS),
    PROTOCOLS,
    read,
    "videomme/test-00000-of-00001.parquet, data/ and subtitle/",
    subtitle_folders=SUBTITLE_FOLDERS,
)
