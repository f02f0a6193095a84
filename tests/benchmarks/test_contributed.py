"""What is special about the benchmarks in `videopro/benchmarks/contributed`: files, prompts, broken records.

The questions are those of test_official_scores.py, which compares the scores with official ones.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.official_scorers import data
from tests.support.benchmark_world import Hub, touch, traces_of, write_json
from videopro.benchmarks import Benchmark, load
from videopro.errors import BenchmarkError
from videopro.runs import summarize


def with_videos(root: Path, name: str) -> Benchmark:
    """The benchmark in a folder, to which its videos are added."""
    for item in load(name, root=root).items:
        touch(root, str(item.video.relative_to(root)))
    return load(name, root=root)


def test_sets_without_all_their_questions_do_not_count(tmp_path: Path) -> None:
    data.videomme_v2().write(tmp_path)
    benchmark = with_videos(tmp_path, "videomme_v2")
    assert len(benchmark.items[0].question.choices) == 8
    traces = traces_of(benchmark, {item.id: item.answer or "" for item in benchmark.items})
    # Of the first two videos, three questions are left.
    part = [trace for trace in traces if trace.question_id not in ("001-2", "002-1")]
    value = summarize(part, benchmark.protocol, {})["metrics"]["score"]
    assert (value["n"], value["official"]) == (1000 - 8, 1.0)


def test_a_sentence_whose_video_is_missing_does_not_count(tmp_path: Path) -> None:
    lines = "V1 1.0 3.0##a person sits.\nV2 0.0 4.0##a person runs.\n"
    (tmp_path / "charades_sta_test.txt").write_text(lines)
    benchmark = with_videos(tmp_path, "charades_sta")
    benchmark.items[1].video.unlink()
    traces = traces_of(benchmark, {item.id: "1.0 - 3.0" for item in benchmark.items})
    value = summarize(traces, benchmark.protocol, {})["metrics"]["mIoU"]
    assert (value["n"], value["robust"], value["official"]) == (1, 1.0, 1.0)


def test_charades_sta_and_tempcompass_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    time = {"video": "AO8RW.mp4", "caption": "a person opens a door.", "timestamp": [0.0, 6.9]}
    yes_no = {"video_id": "1034", "dim": "order", "question": "Is it?", "answer": "no"}
    charades, tempcompass = "lmms-eval/charades_sta", "lmms-eval/TempCompass"
    Hub(monkeypatch, {(charades, None, "test"): [time], (tempcompass, "yes_no", "test"): [yes_no] * 2})
    (item,) = load("charades_sta", root=tmp_path, annotations=f"hf:{charades}").items
    assert (item.video_key, item.question.text) == ("AO8RW", "a person opens a door.")
    assert item.evidence == ((0.0, 6.9),)
    first, second = load("tempcompass", split="yes_no", root=tmp_path, annotations=f"hf:{tempcompass}").items
    assert (first.answer, first.groups, first.video_key) == ("B", {"aspect": "order"}, "1034")
    assert first.id != second.id


def test_annotations_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--annotations` replaces the official file, or names a dataset of the hub, also where a benchmark has
    many files or a form of its own."""
    world = data.mvbench()
    world.write(tmp_path)
    own = tmp_path / "own/object_shuffle.json"
    write_json(own, world.files["json/object_shuffle.json"][:2])
    found = load("mvbench", root=tmp_path, annotations=str(own)).items
    assert [item.id for item in found] == ["object_shuffle/1", "object_shuffle/2"]
    repo = "OpenGVLab/MVBench"
    rows = {(repo, Path(name).stem, "train"): found[:1] for name, found in world.files.items()}
    Hub(monkeypatch, rows)
    assert len(load("mvbench", root=tmp_path, annotations=f"hf:{repo}").items) == 20
    lines = tmp_path / "own.txt"
    for bad in ("no line", "V1 one 2.5##person", "V1 1.0.5 2.5##person"):
        lines.write_text(f"V1 1.0 2.5##person sits down.\n\n{bad}\n")
        with pytest.raises(
            BenchmarkError, match=r"own.txt, line 3: must have the form VIDEO START " "END##SENTENCE"
        ):
            load("charades_sta", root=tmp_path, annotations=str(lines))
    (item,) = load("charades_sta", root=tmp_path, annotations=str(lines), skip_broken=True).items
    assert item.evidence == ((1.0, 2.5),)
    with pytest.raises(BenchmarkError, match="nextqa_atp_hard: cannot be read from hf:me/own; pass a file"):
        load("nextqa_atp_hard", root=tmp_path, annotations="hf:me/own")


@pytest.mark.parametrize(
    ("name", "file", "change", "expected"),
    [
        ("mvbench", "json/object_shuffle.json", {"answer": "none of them"}, "one of the candidates"),
        ("videomme_v2", "test.parquet", {"group_type": "logic", "group_structure": "[1, [2"}, "list such as"),
        ("videomme_v2", "test.parquet", {"question_id": "first"}, "it must end in a number"),
        ("videomme_v2", "test.parquet", {"options": None}, "field 'options' is None"),
    ],
)
def test_a_broken_record_can_be_skipped(
    name: str, file: str, change: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    made = {"mvbench": data.mvbench, "videomme_v2": data.videomme_v2}[name]()
    rows = made.files[file][:2]
    path = tmp_path / "object_shuffle.json"
    write_json(path, [rows[0] | change, rows[1]])
    with pytest.raises(BenchmarkError, match=rf"{path}, record 1: .*{expected}"):
        load(name, root=tmp_path, annotations=str(path))
    assert len(load(name, root=tmp_path, annotations=str(path), skip_broken=True).items) == 1


def test_a_broken_answer_of_tempcompass(tmp_path: Path) -> None:
    asked = [{"question": "Is it?", "answer": "perhaps"}, {"question": "Is it?", "answer": "no"}]
    write_json(tmp_path / "questions/yes_no.json", {"1034": {"order": asked}})
    with pytest.raises(BenchmarkError, match=r"1034/order/1: field 'answer' is 'perhaps'; it must be one of"):
        load("tempcompass", split="yes_no", root=tmp_path)
    (item,) = load("tempcompass", split="yes_no", root=tmp_path, skip_broken=True).items
    assert item.answer == "B"
