"""NExT-QA: causal, temporal and descriptive questions about everyday videos of 30 to 180 s; five options.

    val.csv, test.csv          questions (dataset/nextqa/ of the repository)
    map_vid_vidorID.json       the file of each video: {"4010069381": "1164/4010069381", ...}
    NExTVideo/FOLDER/ID.mp4    or videos/, or all files in one folder

Format and scorer: eval_mc.py of github.com/doc-doc/NExT-QA (TP counts as TN). The scorer compares indices and
does not parse replies: they are parsed as in lmms-eval's task `nextqa_mc_test`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from videopro.benchmarks.base import Item
from videopro.benchmarks.fields import file_name, index, text
from videopro.benchmarks.protocol import AnswerPrompt, Metric, Protocol
from videopro.benchmarks.registry import BenchmarkSpec
from videopro.benchmarks.sources import BenchmarkRecords, Source
from videopro.errors import BenchmarkError
from videopro.question import LETTERS, Question

MAP = "map_vid_vidorID.json"
VIDEO_FOLDERS = ("NExTVideo", "videos", "video", "")
TYPES = ("CW", "CH", "TN", "TC", "DC", "DL", "DO")

PROMPT = AnswerPrompt(
    source="EvolvingLMMs-Lab/lmms-eval, lmms_eval/tasks/nextqa/utils.py (nextqa_doc_to_text_mc), commit "
    "0a589d6, with that suite's usual last line (doc-doc/NExT-QA publishes no prompt)",
    text="{question}\n{options}\nAnswer with the option's letter from the given choices directly.",
)
PROTOCOLS = (
    Protocol(
        "nextqa", name="official", answer_prompt=PROMPT, subtitles="none", groups=("type",),
        metrics=(
            Metric("Acc@C", over="type", of=("CW", "CH")),
            Metric("Acc@T", over="type", of=("TN", "TC")),
            Metric("Acc@D", over="type", of=("DC", "DL", "DO")),
            Metric("Acc@All"),
        ),
    ),
)  # fmt: skip


def read(source: Source, split: str) -> BenchmarkRecords:
    """The questions of a split."""
    found = BenchmarkRecords()
    rows = source.rows(
        f"{split}.csv", f"dataset/nextqa/{split}.csv", f"nextqa/{split}.csv", hub=("MC", split)
    )
    found.read(rows, partial(_item, source=source, files=_map(source)))
    return found


def _map(source: Source) -> Mapping[str, Any]:
    """The file of each video; empty without the map (files may be named after the video ids)."""
    try:
        path = source.file(MAP, f"dataset/nextqa/{MAP}", f"nextqa/{MAP}")
    except BenchmarkError:
        return {}
    return source.object(path, "video ids and files")


def _item(record: Mapping[str, Any], where: str, *, source: Source, files: Mapping[str, Any]) -> Item:
    video, qid = file_name(record, "video"), text(record, "qid")
    choices = tuple(text(record, f"a{place}") for place in range(5))
    kind = text(record, "type")
    kind = "TN" if kind == "TP" else kind
    if kind not in TYPES:
        raise BenchmarkError(f"field 'type' is {kind!r}; it must be one of TP, {', '.join(TYPES)}")
    return Item(
        id=f"{video}_{qid}",
        video=source.files.video(file_name(files, video) if video in files else video, *VIDEO_FOLDERS),
        video_key=video,
        question=Question(text(record, "question"), choices),
        answer=LETTERS[index(record, "answer", len(choices))],
        groups={"type": kind},
    )


SPEC = BenchmarkSpec(
    "nextqa", ("val", "test"), PROTOCOLS, read, "val.csv, map_vid_vidorID.json and NExTVideo/"
)
