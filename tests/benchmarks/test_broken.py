"""Folders and files that are not the benchmark's, or are broken or torn: each is named, and the good records
run."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmark_world import MME, write_json
from videopro.benchmarks import OFFICIAL, Item, load
from videopro.benchmarks.sources import BenchmarkRecords
from videopro.errors import BenchmarkError
from videopro.question import Question


@pytest.mark.parametrize("name", sorted(OFFICIAL))
def test_a_folder_that_is_not_the_benchmark(name: str, tmp_path: Path) -> None:
    for message, settings in (
        ("needs --root, the folder that contains", {}),
        ("does not exist", {"root": tmp_path / "nowhere"}),
        (r"does not exist; .*--root.*--annotations", {"root": tmp_path}),
        ("has no split 'tset'", {"root": tmp_path, "split": "tset"}),
        ("has no protocol 'mine'", {"root": tmp_path, "protocol": "mine"}),
    ):
        with pytest.raises(BenchmarkError, match=message):
            load(name, **settings)
    other = tmp_path / "other.json"
    write_json(other, [{"caption": "something else"}])
    write_json(tmp_path / "subset_answers.json", {"uid": 0})
    if name != "egoschema":
        with pytest.raises(BenchmarkError, match="none of the 1 records is a question"):
            load(name, root=tmp_path, annotations=str(other))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"options": ["A. x"]}, "2 to 26 options"),
        ({"answer": "E"}, "'E' is not an option"),
        ({"duration": "endless"}, "'duration' is 'endless'"),
        ({"question": ""}, "'question' is ''"),
        ({"videoID": "../up"}, "must be a file name inside"),
        ({"question_id": "001-1"}, "duplicate id"),
    ],
)
def test_broken_records_are_named_and_the_good_ones_run(
    tmp_path: Path, change: dict[str, Any], expected: str
) -> None:
    path = tmp_path / "Video-MME.jsonl"
    lines = [json.dumps(record) for record in (MME[0], {**MME[1], **change}, MME[2])]
    path.write_text("\n".join([*lines, '{"video_id": "004", "dur']) + "\n")
    with pytest.raises(BenchmarkError, match="2 records are broken") as caught:
        load("videomme", root=tmp_path, annotations=str(path))
    message = str(caught.value)
    assert f"{path}, line 2" in message
    assert expected in message
    assert f"{path}, line 4: is not valid JSON" in message
    assert "--skip-broken to use the other 2 questions" in message
    good = load("videomme", root=tmp_path, annotations=str(path), skip_broken=True)
    assert [item.id for item in good.items] == ["001-1", "003-1"]
    assert len(good.broken) == 2


@pytest.mark.parametrize("field", ["groups", "choices"])
def test_a_question_of_which_no_trace_could_be_written_is_a_broken_record(field: str, tmp_path: Path) -> None:
    long = "x" * (33 << 20)
    good = {"id": "q", "video": "a.mp4", "question": "Which?", "choices": ["a", "b"], "subtitles": None}
    odd = {**good, "id": "odd", field: {"topic": long} if field == "groups" else ["a", long]}
    (tmp_path / "questions.jsonl").write_text(f"{json.dumps(good)}\n{json.dumps(odd)}\n")
    with pytest.raises(BenchmarkError, match=r"line 2: its \w+ cannot be stored \(it has 33 MiB"):
        load("jsonl", root=tmp_path)
    found = load("jsonl", root=tmp_path, skip_broken=True)
    assert ([item.id for item in found.items], len(found.broken)) == (["q"], 1)


def test_so_is_an_item_of_ones_own_benchmark() -> None:
    long = Item("q", Path("a.mp4"), "a", Question("Which?", ("a", "b")), groups={"topic": "x" * (33 << 20)})
    found = BenchmarkRecords()
    found.read([("row 1", {})], lambda record, where: long)
    assert not found.items
    assert "its groups cannot be stored" in str(found.broken[0])
