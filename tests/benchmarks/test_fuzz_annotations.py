"""Fuzz tests of what reads annotations: one bad record among good ones, in every benchmark. Long run: see
`tests.support.fuzzing`."""

import contextlib
import csv
import io
import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.benchmark_world import LVB, MME, TSV, cg, mlvu
from tests.support.fuzzing import FUZZ, json_bytes, mutated, odd_text
from videopro.benchmarks import load
from videopro.benchmarks.base import NO_OPTION
from videopro.errors import BenchmarkError

ASKED = {"question": "What?", "answer": "B"}
OWN = {
    **ASKED,
    "id": "q1",
    "video": "a.mp4",
    "choices": ["a ball", "a car"],
    "subtitles": "a.srt",
    "evidence": [[1.0, 2.5]],
    "family": "count",
    "groups": {"topic": "sport"},
}
CG = {key: value for key, value in cg(1, [[0, 10.5]], "B").items() if key not in ("answer", "duration")}
ABOUT = {"question_type": ["reasoning"], "time_reference": "00:15-01:02:19"}
QA = {"uid": "1", **ASKED, "question": "What?\n(A) a cup\n(B) a hat", **ABOUT}
LVBENCH = {"key": "Cm73ma6Ibcs", "type": "cartoon", "qa": [QA]}
MLVU = mlvu("a.mp4", ["x", "y"], "x", "count", question_id="count_1")
EGO = {"q_uid": "uid-1", "question": "Why?", **{f"option {k}": f"reason {k}" for k in range(5)}}
# Name, split, file, a valid record, the field that distinguishes another record from it.
JSON = (
    ("cg_bench", "mini", "cgbench_mini.json", CG, "qid"),
    ("longvideobench", "val", "lvb_val.json", LVB[0], "id"),
    ("mlvu", "test", "test_multi_choice_tasks.json", MLVU, "question_id"),
    ("egoschema", "full", "questions.json", EGO, "q_uid"),
)
LINES = (
    ("jsonl", "", "questions.jsonl", OWN, "id"),
    ("videomme", "all", "Video-MME.jsonl", MME[0], "question_id"),
    ("lvbench", "test", "video_info.meta.jsonl", LVBENCH, "key"),
)
NEXTQA = {
    "video": "111",
    "frame_count": "300",
    "question": "what",
    "answer": "2",
    "qid": "0",
    "type": "CW",
    **{f"a{k}": f"thing {k}" for k in range(5)},
}
HEADS, FIRST = (line.split("\t") for line in TSV.splitlines()[:2])
MMBENCH = dict(zip(HEADS, FIRST, strict=True))


def again(record: dict[str, Any], field: str) -> dict[str, Any]:
    """The record as another question."""
    other = json.loads(json.dumps(record))
    other[field] = 77 if isinstance(other[field], int) else f"{other[field]}x"
    for question in other.get("qa", ()):
        question["uid"] += "x"
    return other


def joined(file: str, *parts: bytes) -> bytes:
    return b"\n".join(parts) if file.endswith(".jsonl") else b"[" + b",".join(parts) + b"]"


@contextlib.contextmanager
def written(name: str, file: str, content: bytes) -> Iterator[dict[str, Any]]:
    """Where a benchmark is loaded from whose file holds this."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file
        path.write_bytes(content)
        (Path(folder) / "subtitles").mkdir()
        yield {"root": Path(folder) if name == "jsonl" else path}


def check(name: str, split: str, file: str, content: bytes, good: int) -> None:
    """Load a benchmark whose file holds this: its good records are all asked, and the only error is
    BenchmarkError."""
    with written(name, file, content) as where:
        message, whole = file, True
        try:
            load(name, split=split, **where)
        except BenchmarkError as error:
            message, whole = str(error), False
        assert file in message, "the file is named"
        assert len(message) < 10_000
        found = load(name, split=split, skip_broken=True, **where)
        assert len(found.items) >= good
        assert len(found.items) + len(found.broken) >= good + (not whole)
        for item in found.items:
            assert item.answer in (None, NO_OPTION, *item.question.letters)
            assert math.isfinite(item.subtitle_offset)
            assert all(0 <= start <= end < math.inf for start, end in item.evidence)
            assert all(isinstance(text, str) for pair in item.groups.items() for text in pair)
            for place in (item.video, item.subtitles):
                assert place is None or not place.exists()
            repr(item).encode()


@pytest.mark.parametrize(("name", "split", "file", "record", "field"), JSON + LINES)
@FUZZ
@given(data=st.data())
def test_a_bad_record_is_named_and_the_others_are_asked(
    name: str, split: str, file: str, record: dict[str, Any], field: str, data: st.DataObject
) -> None:
    good = [json.dumps(row).encode() for row in (record, again(record, field))]
    values = mutated(again(again(record, field), field))
    bad = data.draw(json_bytes(values) if file.endswith(".jsonl") else values.map(dumped))
    check(name, split, file, joined(file, good[0], bad.replace(b"\n", b" "), good[1]), len(good))


def dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize("name", ["n" * 300, "\u00e9" * 130, "a\0b", "a/" * 3000])
@pytest.mark.parametrize(
    ("benchmark", "split", "file", "record", "video", "field"),
    [
        (*JSON[0][:4], "video_uid", "qid"),
        (*JSON[1][:4], "video_path", "id"),
        (*JSON[1][:4], "subtitle_path", "id"),
        (*JSON[2][:4], "video", "question_id"),
        (*JSON[3][:4], "q_uid", "q_uid"),
        (*LINES[0][:4], "video", "id"),
        (*LINES[0][:4], "subtitles", "id"),
        (*LINES[1][:4], "videoID", "question_id"),
        (*LINES[2][:4], "key", "key"),
    ],
)
def test_a_name_that_no_file_can_have_breaks_its_record_alone(
    benchmark: str, split: str, file: str, record: dict[str, Any], video: str, field: str, name: str
) -> None:
    rows = (record, {**again(record, field), video: name})
    with written(benchmark, file, joined(file, *map(dumped, rows))) as where:
        with pytest.raises(BenchmarkError, match=f"field {video!r} is"):
            load(benchmark, split=split, **where)
        found = load(benchmark, split=split, skip_broken=True, **where)
    assert (len(found.items), len(found.broken)) == (1, 1)


@pytest.mark.parametrize(
    ("name", "split", "file", "record", "field"),
    [
        ("nextqa", "val", "val.csv", NEXTQA, "qid"),
        ("mmbench_video", "test", "MMBench-Video.tsv", MMBENCH, "index"),
    ],
)
@FUZZ
@given(data=st.data())
def test_a_bad_row_of_a_table_is_named(
    name: str, split: str, file: str, record: dict[str, str], field: str, data: st.DataObject
) -> None:
    odd = odd_text.map(lambda text: text.encode("utf-8", "replace").decode())
    changes = data.draw(st.dictionaries(st.sampled_from(sorted(record)), odd, max_size=3))
    text = io.StringIO()
    writer = csv.DictWriter(text, sorted(record), delimiter="\t" if file.endswith("tsv") else ",")
    writer.writeheader()
    writer.writerows([record, {**record, field: "1", **changes}, {**record, field: "2"}])
    check(name, split, file, text.getvalue().encode(), 2 if changes.get(field) != "2" else 1)


@FUZZ
@given(st.binary(max_size=60), st.sampled_from([case[:3] for case in (*JSON, *LINES)]))
@example(b"", JSON[0][:3])
@example(b"[" * 100_000, JSON[1][:3])
@example(b'[{"a": 1}, {"b"', JSON[1][:3])
def test_an_invalid_file_is_named(content: bytes, bench: tuple[str, str, str]) -> None:
    name, split, file = bench
    with written(name, file, content) as where, pytest.raises(BenchmarkError):
        load(name, split=split, skip_broken=True, **where)
