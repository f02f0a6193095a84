"""What is special about the benchmarks in `videopro/benchmarks/contributed`: files, prompts, broken records.

The questions are those of test_official_scores.py, which compares the scores with official ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.official_scorers import data_contributed
from tests.support.benchmark_world import metrics, score, touch, traces_of, write_json
from videopro.benchmarks import BENCHMARKS, Benchmark, load
from videopro.benchmarks.metrics import set_score
from videopro.benchmarks.registry import CONTRIBUTED
from videopro.errors import BenchmarkError
from videopro.question import Question
from videopro.runs import summarize


def with_videos(root: Path, name: str) -> Benchmark:
    """The benchmark in a folder, to which its videos are added."""
    for item in load(name, root=root).items:
        touch(root, str(item.video.relative_to(root)))
    return load(name, root=root)


def official(summary: dict[str, Any]) -> dict[str, float | None]:
    return {name: value for name, (_, value) in metrics(summary).items()}


def test_each_is_found_by_its_name_and_names_its_source() -> None:
    assert set(CONTRIBUTED) <= set(BENCHMARKS)
    for name in CONTRIBUTED:
        plugin = BENCHMARKS.find(name)
        spec = plugin.value
        # A file of this package is no part of a run's key.
        assert (spec.name, plugin.version) == (name, "")
        for protocol in spec.protocols:
            assert protocol.answer_prompt is not None
            assert "commit" in protocol.answer_prompt.source


def test_sets_without_all_their_questions_do_not_count(tmp_path: Path) -> None:
    data_contributed.videomme_v2().write(tmp_path)
    benchmark = with_videos(tmp_path, "videomme_v2")
    assert len(benchmark.items[0].question.choices) == 8
    traces = traces_of(benchmark, {item.id: item.answer or "" for item in benchmark.items})
    # Of the first two videos, three questions are left.
    part = [trace for trace in traces if trace.question_id not in ("001-2", "002-1")]
    value = summarize(part, benchmark.protocol, {})["metrics"]["score"]
    assert (value["n"], value["official"]) == (1000 - 8, 1.0)


def test_words_are_listed_where_they_are(tmp_path: Path) -> None:
    data_contributed.videomme_v2().write(tmp_path)
    (tmp_path / "subtitle").mkdir()
    (tmp_path / "subtitle" / "002.jsonl").touch()
    items = load("videomme_v2", root=tmp_path, protocol="interleaved").items
    assert [item.subtitles for item in items[3:5]] == [None, tmp_path / "subtitle" / "002.jsonl"]


def test_a_set_of_questions_by_hand() -> None:
    assert set_score([True] * 3 + [False]) == 9 / 16
    # A chain ends at its first wrong step.
    assert set_score([False, True, True, True], (1, 1, 1, 1)) == 0
    assert set_score([True, True, False, True], (1, 1, 1, 1)) == 4 / 16
    # [[1, 2], 3, 4] weighs 1, 1, 3 and 5.
    assert set_score([False, True, True, True], (2, 1, 1)) == 1 / 10
    assert set_score([True, True, True, False], (2, 1, 1)) == 5 / 10


@pytest.mark.parametrize(
    ("split", "last"),
    [
        ("multi-choice", "\nPlease directly give the best option:"),
        ("yes_no", "\nPlease answer yes or no:"),
        ("caption_matching", "\nPlease directly give the best option:"),
    ],
)
def test_prompts_of_tempcompass(split: str, last: str, tmp_path: Path) -> None:
    world = data_contributed.tempcompass(split)
    world.write(tmp_path)
    benchmark = load("tempcompass", split=split, root=tmp_path)
    prompt = benchmark.protocol.answer_prompt
    assert prompt is not None
    first = world.files[f"questions/{split}.json"]["1000"]["action"][0]
    # As run_qwen2_vl.py asks: the question with its options, and the last line.
    assert prompt.fill(benchmark.items[0].question) == first["question"] + last


def test_nextqa_has_the_same_hard_questions(tmp_path: Path) -> None:
    world = data_contributed.nextqa_atp_hard()
    world.write(tmp_path)
    own = load("nextqa_atp_hard", root=tmp_path).items
    assert [item.id for item in own] == list(world.ids)
    same = load("nextqa", split="atp_hard", root=tmp_path).items
    assert [item.id for item in same] == list(world.ids)


def test_times_of_charades_sta(tmp_path: Path) -> None:
    lines = [f"V{number} 3.3 6.8##person opens a door {number}." for number in range(4)]
    (tmp_path / "charades_sta_test.txt").write_text("\n".join(lines))
    benchmark = with_videos(tmp_path, "charades_sta")
    # IoUs of 1, 7 / 10 and 3 / 7, and nothing to read. lmms-eval's `iou` has 0.6999999999999998 for 7 / 10.
    written = ("3.3s - 6.8s", "It happens in the 3.3 - 8.3 seconds", "3.8 to 5.3", "It happens at 3 s.")
    replies = dict(zip((item.id for item in benchmark.items), written, strict=True))
    traces = traces_of(benchmark, replies)
    assert [trace.official_intervals for trace in traces] == [
        ((3.3, 6.8),),
        ((3.3, 8.3),),
        ((3.8, 5.3),),
        None,
    ]
    found = official(score(benchmark, replies))
    assert found.pop("mIoU") == pytest.approx((1 + 7 / 10 + 3 / 7) / 4)
    assert found == {"R@0.3": 3 / 4, "R@0.5": 2 / 4, "R@0.7": 1 / 4}
    first = benchmark.items[0]
    assert first.question.is_open
    prompt = benchmark.protocol.answer_prompt
    assert prompt is not None
    asked = prompt.fill(Question.open("person opens a door"))
    assert asked.endswith("sentence: person opens a door. Please return its start time and end time.")


def test_charades_sta_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    row = {"video": "AO8RW.mp4", "caption": "a person opens a door.", "timestamp": [0.0, 6.9]}
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: [row])
    (item,) = load("charades_sta", root=tmp_path, annotations="hf:lmms-eval/charades_sta").items
    assert (item.video_key, item.question.text) == ("AO8RW", "a person opens a door.")
    assert item.evidence == ((0.0, 6.9),)


def test_annotations_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--annotations` replaces the official file, or names a dataset of the hub, also where a benchmark has
    many files or a form of its own."""
    world = data_contributed.mvbench()
    world.write(tmp_path)
    own = tmp_path / "own/object_shuffle.json"
    write_json(own, world.files["json/object_shuffle.json"][:2])
    found = load("mvbench", root=tmp_path, annotations=str(own)).items
    assert [item.id for item in found] == ["object_shuffle/1", "object_shuffle/2"]
    asked = []

    def rows(repo: str, config: str, *, split: str) -> list[Any]:
        asked.append((repo, config, split))
        return world.files[f"json/{config}.json"][:1]  # type: ignore[no-any-return]

    monkeypatch.setattr(pytest.importorskip("datasets"), "load_dataset", rows)
    assert len(load("mvbench", root=tmp_path, annotations="hf:OpenGVLab/MVBench").items) == 20
    assert ("OpenGVLab/MVBench", "object_shuffle", "train") in asked
    lines = tmp_path / "own.txt"
    for bad in ("no line", "V1 one 2.5##person", "V1 1.0.5 2.5##person"):
        lines.write_text(f"V1 1.0 2.5##person sits down.\n\n{bad}\n")
        with pytest.raises(BenchmarkError, match=r"own.txt, line 3: is not VIDEO START END##SENTENCE"):
            load("charades_sta", root=tmp_path, annotations=str(lines))
    (item,) = load("charades_sta", root=tmp_path, annotations=str(lines), skip_broken=True).items
    assert item.evidence == ((1.0, 2.5),)
    with pytest.raises(BenchmarkError, match="nextqa_atp_hard: is not read from hf:me/own; give a file"):
        load("nextqa_atp_hard", root=tmp_path, annotations="hf:me/own")


def test_tempcompass_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"video_id": "1034", "dim": "order", "question": "Is it?", "answer": "no"}
    rows = {"yes_no": [row, row]}
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets, "load_dataset", lambda repo, config, split: rows[config])
    hub = "hf:lmms-eval/TempCompass"
    first, second = load("tempcompass", split="yes_no", root=tmp_path, annotations=hub).items
    assert (first.answer, first.groups, first.video_key) == ("B", {"aspect": "order"}, "1034")
    assert first.id != second.id


@pytest.mark.parametrize(
    ("name", "file", "change", "expected"),
    [
        (
            "mvbench",
            "json/object_shuffle.json",
            {"answer": "none of them"},
            "it must be one of the candidates",
        ),
        (
            "videomme_v2",
            "test.parquet",
            {"group_type": "logic", "group_structure": "[1, [2"},
            "it must be a list such as [1, [2, 3], 4]",
        ),
        ("videomme_v2", "test.parquet", {"question_id": "first"}, "it must end in a number, as in 001-1"),
        ("videomme_v2", "test.parquet", {"options": None}, "field 'options' is None; it must be a list"),
    ],
)
def test_a_broken_record_can_be_skipped(
    name: str, file: str, change: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    made = {"mvbench": data_contributed.mvbench, "videomme_v2": data_contributed.videomme_v2}[name]()
    rows = made.files[file][:2]
    rows[0].update(change)
    path = tmp_path / "object_shuffle.json"
    write_json(path, rows)
    with pytest.raises(BenchmarkError) as raised:
        load(name, root=tmp_path, annotations=str(path))
    assert f"{path}, record 1: " in str(raised.value)
    assert expected in str(raised.value)
    assert len(load(name, root=tmp_path, annotations=str(path), skip_broken=True).items) == 1


def test_a_broken_answer_of_tempcompass(tmp_path: Path) -> None:
    asked = [{"question": "Is it?", "answer": "perhaps"}, {"question": "Is it?", "answer": "no"}]
    write_json(tmp_path / "questions/yes_no.json", {"1034": {"order": asked}})
    with pytest.raises(BenchmarkError, match=r"1034/order/1: field 'answer' is 'perhaps'; it must be one of"):
        load("tempcompass", split="yes_no", root=tmp_path)
    (item,) = load("tempcompass", split="yes_no", root=tmp_path, skip_broken=True).items
    assert item.answer == "B"


@pytest.mark.parametrize("lines", ["", "one\n"])
def test_a_broken_list_of_atp_hard(lines: str, tmp_path: Path) -> None:
    data_contributed.nextqa_atp_hard().write(tmp_path)
    (tmp_path / "atp-hard-ct4.txt").write_text(lines)
    with pytest.raises(
        BenchmarkError, match=r"atp-hard-ct4.txt: must list row numbers, one a line; download"
    ):
        load("nextqa_atp_hard", root=tmp_path)
