"""LVBench: 1,549 questions about 103 videos of half an hour to two hours; each tests one or more of six
abilities.

    video_info.meta.jsonl     one video per line, with its questions; a question's text includes its options
    videos/KEY.mp4            YouTube ids, or the numbered files of the authors' scripts/download.sh

Format: github.com/THUDM/LVBench, whose scorer compares one letter. It comes without subtitles; some videos
are no longer on YouTube. manifest/lvbench.yaml names the hub's repository; lmms-lab/LVBench has one row per
question (--annotations hf:lmms-lab/LVBench).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from videopro.benchmarks.base import Item
from videopro.benchmarks.fields import file_name, known_groups, split_options, text, texts
from videopro.benchmarks.hub import manifest
from videopro.benchmarks.protocol import AnswerPrompt, Metric, Protocol
from videopro.benchmarks.record_files import LocatedRecord, UnreadableRecord
from videopro.benchmarks.registry import BenchmarkSpec
from videopro.benchmarks.sources import BenchmarkRecords, Source
from videopro.errors import BenchmarkError
from videopro.question import Question
from videopro.traces.scoring import GROUP_SEPARATOR

MANIFEST = manifest("lvbench")
(_FILE,) = MANIFEST.paths("test", "questions")
FILES = (_FILE, f"data/{_FILE}")
VIDEO_FOLDERS = ("videos", "all_videos", "scripts/videos", "script/videos", "data/videos")
# scripts/test_acc.py, commit 95577c1
ABILITIES = {
    "key information retrieval": "KIR",
    "event understanding": "EU",
    "summarization": "Sum",
    "entity recognition": "ER",
    "reasoning": "Rea",
    "temporal grounding": "TG",
}
_CLOCK = re.compile(r"(?<!\d)(?:(\d{1,4}):)?(\d{1,4}):(\d{1,4})(?!\d)")

PROMPT = AnswerPrompt(
    source="EvolvingLMMs-Lab/lmms-eval, lmms_eval/tasks/lvbench/lvbench.yaml, commit 4be7ee0 "
    "(THUDM/LVBench publishes none)",
    text="{question}\n{options}\nAnswer the question with the option letter",
    option="({letter}) {text}",
)
_METRICS = tuple(Metric(name, over="ability", of=(name,)) for name in ABILITIES.values())

PROTOCOLS = (
    Protocol(
        "lvbench", name="official", answer_prompt=PROMPT, reply="text", reply_tokens=16, subtitles="none",
        groups=("ability", "type"), metrics=_METRICS,
    ),
    Protocol("videopro", name="videopro", groups=("ability", "type"), metrics=_METRICS),
)  # fmt: skip


def read(source: Source, split: str) -> BenchmarkRecords:
    """All questions; there is one split."""
    records = BenchmarkRecords()
    rows = _flat(source.rows(*FILES, hub=MANIFEST.rows[split]))
    records.read(rows, partial(_item, source=source))
    return records


def _flat(rows: Sequence[LocatedRecord]) -> Iterator[LocatedRecord]:
    """One row per question; lmms-lab/LVBench already has such rows."""
    for where, record in rows:
        if "qa" not in record and "question" in record:
            yield where, record
            continue
        if isinstance(record, UnreadableRecord) or not isinstance(record.get("qa"), list):
            problem = ("field 'qa' is not a list", "pass video_info.meta.jsonl of LVBench")
            yield where, record if isinstance(record, UnreadableRecord) else UnreadableRecord(*problem)
            continue
        for position, question in enumerate(record["qa"], start=1):
            there = f"{where}, question {position}"
            if isinstance(question, dict):
                yield there, {**question, "key": record.get("key"), "type": record.get("type")}
            else:
                yield there, UnreadableRecord("is not an object", "download the file again")


def _item(record: Mapping[str, Any], where: str, *, source: Source) -> Item:
    identifier = text(record, "uid")
    video = file_name(record, "key" if record.get("key") else "video_path")
    body, choices = split_options(record, "question")
    question = Question(body, tuple(choices))
    answer = text(record, "answer")
    question.choice(answer)
    kinds = texts(record, "question_type")
    unknown = [kind for kind in kinds if kind not in ABILITIES]
    # An unknown ability would be left out of every table without a word.
    if not kinds or unknown:
        raise BenchmarkError(
            f"field 'question_type' contains {unknown or 'nothing'}; known: {', '.join(ABILITIES)}"
        )
    file = source.files.video(video, *VIDEO_FOLDERS, "")
    return Item(
        id=identifier,
        video=file,
        video_key=Path(video).stem if record.get("key") is None else video,
        question=question,
        answer=answer,
        # The benchmark has none; the user's own are offered to methods that search subtitles.
        subtitles=source.files.subtitles(video, "subtitles", video=file),
        groups={
            **known_groups(record, type="type"),
            "ability": GROUP_SEPARATOR.join(ABILITIES[kind] for kind in kinds),
        },
        evidence=_evidence(record.get("time_reference")),
    )


def _evidence(value: Any) -> tuple[tuple[float, float], ...]:
    """ "00:15-00:19" in seconds; other values are ignored, as evidence is for analysis only."""
    times = [
        int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds)
        for hours, minutes, seconds in _CLOCK.findall(value if isinstance(value, str) else "")
    ]
    if len(times) != 2 or times[0] > times[1]:
        return ()
    return ((float(times[0]), float(times[1])),)


SPEC = BenchmarkSpec("lvbench", ("test",), PROTOCOLS, read, "video_info.meta.jsonl and videos/")
