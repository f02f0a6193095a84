"""Video-MME: 900 videos in three groups of length with three questions each, with and without subtitles.

    videomme/test-00000-of-00001.parquet   one question per row (or the authors' JSON, one video per record)
    data/VIDEOID.mp4, subtitle/VIDEOID.srt

Format, prompt and scorer: README.md and evaluation/ of github.com/BradyFU/Video-MME. Its licence forbids
redistributing any part of it, so none of its data is included here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from videopro.benchmarks.base import Item
from videopro.benchmarks.fields import file_name, known_groups, text, texts, without_labels
from videopro.benchmarks.hub import manifest
from videopro.benchmarks.protocol import AnswerPrompt, Metric, Protocol
from videopro.benchmarks.record_files import LocatedRecord, UnreadableRecord, read_records
from videopro.benchmarks.registry import BenchmarkSpec
from videopro.benchmarks.sources import BenchmarkRecords, Source
from videopro.benchmarks.video_files import youtube_id
from videopro.errors import BenchmarkError
from videopro.question import Question

LENGTHS = ("short", "medium", "long")
MANIFEST = manifest("videomme")
(_FILE,) = MANIFEST.paths("all", "questions")
HUB_FILES = (_FILE, _FILE.rpartition("/")[2])
FILES = (*HUB_FILES, "Video-MME.json", "output_test_template.json")
VIDEO_FOLDERS = ("data", "videos", "video")
SUBTITLE_FOLDERS = ("subtitle", "subtitles")

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
    """The questions about videos of one duration group, or all."""
    records = BenchmarkRecords()
    rows = _flat(source.rows(*FILES, hub=MANIFEST.rows[split]), partial(_youtube_ids, source))
    records.read(rows, partial(_item, source=source, split=split))
    return records


def _youtube_ids(source: Source) -> Mapping[str, str]:
    """The YouTube id of each video, which names the hub's files; empty without its parquet file."""
    try:
        path = source.file(*HUB_FILES)
    except BenchmarkError:
        return {}
    rows = (record for _, record in read_records(path, source.name))
    return {str(record.get("video_id")): str(record.get("videoID")) for record in rows}


def _flat(
    rows: Sequence[LocatedRecord], youtube_ids: Callable[[], Mapping[str, str]]
) -> Iterator[LocatedRecord]:
    """One row per question, from either format, with the parquet's field names."""
    named: Mapping[str, str] | None = None
    for where, record in rows:
        if isinstance(record, UnreadableRecord) or "questions" not in record:
            yield where, record
            continue
        video = record.get("videoID") or youtube_id(record.get("url"))
        if not video:
            # The authors' template names videos by number alone.
            named = youtube_ids() if named is None else named
            video = named.get(str(record.get("video_id")), record.get("video_id"))
        about = {
            "video_id": record.get("video_id"),
            "videoID": video,
            "duration": record.get("duration_category", record.get("duration")),
            "domain": record.get("video_category", record.get("domain")),
            "sub_category": record.get("video_subcategory", record.get("video_sub_category")),
        }
        questions = record["questions"]
        if not isinstance(questions, list) or not all(isinstance(question, dict) for question in questions):
            problem = ("field 'questions' is not a list of objects", "download the file again")
            yield where, UnreadableRecord(*problem)
            continue
        for position, question in enumerate(questions, start=1):
            options = {"options": question.get("choices", question.get("options"))}
            yield f"{where}, question {position}", {**about, **question, **options}


def _item(record: Mapping[str, Any], where: str, *, source: Source, split: str) -> Item | None:
    length = text(record, "duration").lower()
    if length not in LENGTHS:
        raise BenchmarkError(f"field 'duration' is {length!r}; it must be one of {', '.join(LENGTHS)}")
    if split not in ("all", length):
        return None
    video = file_name(record, "videoID" if record.get("videoID") else "video_id")
    choices = without_labels(texts(record, "options"))
    question = Question(text(record, "question"), choices)
    answer = text(record, "answer")
    question.choice(answer)
    identifier = text(record, "question_id")
    file = source.files.video(video, *VIDEO_FOLDERS)
    return Item(
        id=identifier,
        video=file,
        video_key=video,
        question=question,
        answer=answer,
        # 744 of the 900 videos have subtitles: those with a file in the folder.
        subtitles=source.files.subtitles(video, *SUBTITLE_FOLDERS, video=file),
        groups={
            **known_groups(record, task="task_type", domain="domain", subcategory="sub_category"),
            "duration": length,
        },
    )


SPEC = BenchmarkSpec(
    "videomme",
    ("all", *LENGTHS),
    PROTOCOLS,
    read,
    "videomme/test-00000-of-00001.parquet, data/ and subtitle/",
    subtitle_folders=SUBTITLE_FOLDERS,
)
