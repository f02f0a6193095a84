"""NExT-QA: causal, temporal and descriptive questions about everyday videos of 30 to 180 s; five options.

    val.csv, test.csv          questions (dataset/nextqa/ of the repository)
    map_vid_vidorID.json       the file of each video: {"4010069381": "1164/4010069381", ...}
    NExTVideo/FOLDER/ID.mp4    or videos/, or all files in one folder
    atp-hard-ct4.txt           optional: the ATP-hard subset, as row numbers of val.csv (from 0), one per line

The subset contains causal and temporal questions that one frame does not answer (Buch et al., CVPR 2022); its
list is on that paper's site, stanfordvl.github.io/atp-revisit-video-lang. With the list, split "atp_hard" has
only the subset, and split "val" marks its questions with the group "atp_hard", whose value is the type.

Format and scorer: eval_mc.py of github.com/doc-doc/NExT-QA (TP counts as TN). The scorer compares indices and
does not parse replies: they are parsed as in lmms-eval's task `nextqa_mc_test`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from videopro.benchmarks.base import Item
from videopro.benchmarks.fields import file_name, index, quoted, text
from videopro.benchmarks.protocol import AnswerPrompt, Metric, Protocol
from videopro.benchmarks.record_files import LocatedRecord
from videopro.benchmarks.registry import BenchmarkSpec
from videopro.benchmarks.sources import BenchmarkRecords, Source
from videopro.errors import BenchmarkError, reading_file
from videopro.question import LETTERS, Question

MAP = "map_vid_vidorID.json"
ATP_LIST = "atp-hard-ct4.txt"
ATP_SPLIT = "atp_hard"
VIDEO_FOLDERS = ("NExTVideo", "videos", "video", "")
TYPES = ("CW", "CH", "TN", "TC", "DC", "DL", "DO")

PROMPT = AnswerPrompt(
    source="EvolvingLMMs-Lab/lmms-eval, lmms_eval/tasks/nextqa/utils.py (nextqa_doc_to_text_mc), commit "
    "0a589d6, with that suite's usual last line (doc-doc/NExT-QA publishes no prompt)",
    text="{question}\n{options}\nAnswer with the option's letter from the given choices directly.",
)
PROTOCOLS = (
    Protocol(
        "nextqa", name="official", answer_prompt=PROMPT, reply="text", reply_tokens=128,
        subtitles="none", groups=("type",),
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
    records = BenchmarkRecords()
    name = "val" if split == ATP_SPLIT else split
    # The list counts rows of the official file.
    is_official = not source.annotations or Path(source.annotations).name == "val.csv"
    if split == ATP_SPLIT and not is_official:
        raise BenchmarkError(
            f"nextqa: split {ATP_SPLIT!r} needs val.csv, not {source.annotations}; pass val.csv"
        )
    rows = source.rows(f"{name}.csv", f"dataset/nextqa/{name}.csv", f"nextqa/{name}.csv", hub=("MC", name))
    hard = _atp_hard(source, rows, split) if name == "val" and is_official else set()
    if split == ATP_SPLIT:
        rows = [(where, record) for where, record in rows if where in hard]
    records.read(rows, partial(_item, source=source, files=_map(source), hard=hard))
    return records


def _atp_hard(source: Source, rows: Sequence[LocatedRecord], split: str) -> set[str]:
    """The locations of the ATP-hard subset's questions; empty without the list, if the split is "val". Raises
    BenchmarkError if a required list is missing, or the list does not match the rows."""
    try:
        path = source.file(ATP_LIST, f"dataset/nextqa/{ATP_LIST}", f"nextqa/{ATP_LIST}")
    except BenchmarkError as error:
        if split == "val":
            return set()
        raise BenchmarkError(
            f"nextqa: split {ATP_SPLIT!r} needs {ATP_LIST} next to val.csv; download it from "
            "stanfordvl.github.io/atp-revisit-video-lang"
        ) from error
    with reading_file(f"nextqa: {path}", "download it again", BenchmarkError):
        lines = path.read_text(encoding="utf-8").split()
    wrong = next((line for line in lines if not re.fullmatch(r"[0-9]{1,9}", line)), None)
    if wrong is not None:
        raise BenchmarkError(
            f"nextqa: {path} must list row numbers, one per line, not {quoted(wrong)}; download it again"
        )
    numbers = [int(line) for line in lines]
    outside = next((number for number in numbers if number >= len(rows)), None)
    if outside is not None:
        raise BenchmarkError(
            f"nextqa: {path} lists row {outside}, but there are {len(rows)} rows (from 0); use the list of "
            "this val.csv"
        )
    return {rows[number][0] for number in numbers}


def _map(source: Source) -> Mapping[str, Any]:
    """The file of each video; empty without the map (files may be named after the video ids)."""
    try:
        path = source.file(MAP, f"dataset/nextqa/{MAP}", f"nextqa/{MAP}")
    except BenchmarkError:
        return {}
    return source.object(path, "video ids and files")


def _item(
    record: Mapping[str, Any], where: str, *, source: Source, files: Mapping[str, Any], hard: Collection[str]
) -> Item:
    video, qid = file_name(record, "video"), text(record, "qid")
    choices = tuple(text(record, f"a{position}") for position in range(5))
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
        groups={"type": kind, **({ATP_SPLIT: kind} if where in hard else {})},
    )


SPEC = BenchmarkSpec(
    "nextqa", ("val", "test", ATP_SPLIT), PROTOCOLS, read, "val.csv, map_vid_vidorID.json and NExTVideo/"
)
