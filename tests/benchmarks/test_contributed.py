"""The benchmarks in `videopro/benchmarks/contributed` against the official code: `official_scores/` holds
questions and replies of ours, and what the official code at the named commits made of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.benchmark_world import metrics, score, touch, traces_of, write_json, write_parquet
from videopro.benchmarks import NAMES, Benchmark, find, load
from videopro.benchmarks.own import contributed
from videopro.benchmarks.question_sets import set_score
from videopro.errors import BenchmarkError
from videopro.question import Question
from videopro.runs import summarize
from videopro.scoring import official_records_of
from videopro.traces import Trace

GOLDEN = ROOT / "tests/benchmarks/official_scores"


def golden(name: str) -> dict[str, Any]:
    content = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def world(root: Path, name: str, split: str = "") -> tuple[Benchmark, dict[str, Any]]:
    """The benchmark of the golden questions; all its videos are there."""
    content = golden(name)
    for file, records in content["files"].items():
        path = root / file
        if file.endswith(".parquet"):
            write_parquet(path, records)
        elif file.endswith(".json"):
            write_json(path, records)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(records)
    for item in load(name, root=root, split=split).items:
        touch(root, str(item.video.relative_to(root)))
    return load(name, root=root, split=split), content


def official(summary: dict[str, Any]) -> dict[str, float | None]:
    return {name: value for name, (_, value) in metrics(summary).items()}


def test_each_has_golden_data_that_names_its_source() -> None:
    assert set(contributed()) <= set(NAMES)
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(contributed())
    for name in contributed():
        spec = find(name)
        assert spec is not None
        # A file of this package is no part of a run's key.
        assert (spec.name, spec.version) == (name, "")  # type: ignore[attr-defined]
        for source in golden(name)["official"]:
            assert set(source) == {"repository", "file", "function", "commit"}
        for protocol in spec.protocols:
            assert protocol.answer_prompt is not None
            assert "commit" in protocol.answer_prompt.source


def test_videomme_v2(tmp_path: Path) -> None:
    benchmark, content = world(tmp_path, "videomme_v2")
    traces = traces_of(benchmark, content["replies"])
    assert {trace.question_id: trace.official or "" for trace in traces} == content["letters"]
    summary = score(benchmark, content["replies"])
    expected = {name: value / 100 for name, value in content["expected"].items()}
    found = official(summary)
    names = {
        "score": "overall_score",
        "consistency score": "relevance_score",
        "coherence score": "logic_score",
        **{f"level {level} score": f"level_{level}_score" for level in (1, 2, 3)},
        **{f"level {level} accuracy": f"level_{level}_acc" for level in (1, 2, 3)},
    }
    assert found == {own: pytest.approx(expected[theirs]) for own, theirs in names.items()}
    assert summary["official_accuracy"] == pytest.approx(expected["overall_acc"])
    assert len(benchmark.items[0].question.choices) == 8
    # Sets without all their questions do not count: of the first video, three are left.
    part = [trace for trace in traces if trace.question_id not in ("001-2", "002-1")]
    assert summarize(part, benchmark.protocol, {})["metrics"]["score"]["n"] == len(traces) - 8


def test_a_set_of_questions_by_hand() -> None:
    assert set_score([True] * 3 + [False]) == 9 / 16
    # A chain ends at its first wrong step.
    assert set_score([False, True, True, True], (1, 1, 1, 1)) == 0
    assert set_score([True, True, False, True], (1, 1, 1, 1)) == 4 / 16
    # [[1, 2], 3, 4] weighs 1, 1, 3 and 5.
    assert set_score([False, True, True, True], (2, 1, 1)) == 1 / 10
    assert set_score([True, True, True, False], (2, 1, 1)) == 5 / 10


def test_mvbench(tmp_path: Path) -> None:
    benchmark, content = world(tmp_path, "mvbench")
    traces = traces_of(benchmark, content["replies"])
    assert officially_right(traces) == content["right"]
    numbers = official(score(benchmark, content["replies"]))
    assert numbers["Avg"] == pytest.approx(content["expected"]["Avg"])


def officially_right(traces: Sequence[Trace]) -> dict[str, bool]:
    return {score.question_id: bool(score.official_correct) for score in official_records_of(traces)}


@pytest.mark.parametrize("split", ["multi-choice", "yes_no", "caption_matching"])
def test_tempcompass(split: str, tmp_path: Path) -> None:
    benchmark, content = world(tmp_path, "tempcompass", split)
    assert benchmark.protocol.name == split
    replies = content["replies"][split]
    traces = traces_of(benchmark, replies)
    found = {f"{split}:{key}": int(right) for key, right in officially_right(traces).items()}
    assert found == {key: value for key, value in content["rating"].items() if key.startswith(f"{split}:")}
    assert official(score(benchmark, replies)) == {
        name: pytest.approx(value) if value is not None else None
        for name, value in content["expected"][split].items()
    }


def test_prompts_of_tempcompass(tmp_path: Path) -> None:
    asked = {}
    for split in ("multi-choice", "yes_no", "caption_matching"):
        benchmark, _ = world(tmp_path / split, "tempcompass", split)
        prompt = benchmark.protocol.answer_prompt
        assert prompt is not None
        asked[split] = prompt.fill(benchmark.items[0].question)
    data = golden("tempcompass")["files"]
    for split, last in (
        ("multi-choice", "\nPlease directly give the best option:"),
        ("yes_no", "\nPlease answer yes or no:"),
        ("caption_matching", "\nPlease directly give the best option:"),
    ):
        first = next(iter(next(iter(data[f"questions/{split}.json"].values())).values()))[0]
        # As run_qwen2_vl.py asks: the question with its options, and the last line.
        assert asked[split] == first["question"] + last


def printed(text: str) -> dict[str, float]:
    """The table that `accuracy_metric` prints."""
    heads, values, overall = text.strip().split("\n")
    table = dict(zip(heads.split(), map(float, values.split()), strict=True))
    return {**table, "Acc": float(overall.removeprefix("Acc: "))}


def test_intentqa(tmp_path: Path) -> None:
    benchmark, content = world(tmp_path, "intentqa")
    expected = printed(content["expected"]["printed"])
    found = official(score(benchmark, content["replies"]))
    names = {"CW": "Why", "CH": "How", "TP&TN": "Bef&Aft", "Total": "Acc"}
    assert found == {own: pytest.approx(expected[name] / 100, abs=5.1e-5) for own, name in names.items()}


def test_nextqa_atp_hard(tmp_path: Path) -> None:
    benchmark, content = world(tmp_path, "nextqa_atp_hard")
    assert len(benchmark.items) == len(content["replies"]) == 90 - _descriptive(content)
    expected = printed(content["expected"]["printed"])
    found = official(score(benchmark, content["replies"]))
    assert found["Acc@C"] == pytest.approx(expected["Acc_C"] / 100, abs=5.1e-5)
    assert found["Acc@T"] == pytest.approx(expected["Acc_T"] / 100, abs=5.1e-5)
    # The official number is of three right questions more.
    count = len(benchmark.items)
    assert found["Acc@All"] == pytest.approx((expected["Acc"] / 100 * (count + 3) - 3) / count, abs=1e-4)
    # The split of `nextqa` has the same questions.
    same = load("nextqa", split="atp_hard", root=tmp_path)
    assert [item.id for item in benchmark.items] == [item.id for item in same.items]


def _descriptive(content: dict[str, Any]) -> int:
    return 90 - len(content["files"]["atp-hard-ct4.txt"].split())


def test_charades_sta(tmp_path: Path) -> None:
    benchmark, content = world(tmp_path, "charades_sta")
    traces = traces_of(benchmark, content["replies"])
    for trace in traces:
        read = content["read"][trace.question_id]
        expected = tuple(tuple(map(float, pair)) for pair in read) or None
        assert trace.official_intervals == expected, content["replies"][trace.question_id]
    summary = score(benchmark, content["replies"])
    assert official(summary) == {
        own: pytest.approx(content["expected"][theirs] / 100)
        for own, theirs in (("R@0.3", "IOU@3"), ("R@0.5", "IOU@5"), ("R@0.7", "IOU@7"), ("mIoU", "mIOU"))
    }
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
    _, content = world(tmp_path, "mvbench")
    own = tmp_path / "own/object_shuffle.json"
    write_json(own, content["files"]["json/object_shuffle.json"][:2])
    found = load("mvbench", root=tmp_path, annotations=str(own)).items
    assert [item.id for item in found] == ["object_shuffle/1", "object_shuffle/2"]
    asked = []

    def rows(repo: str, config: str, *, split: str) -> list[Any]:
        asked.append((repo, config, split))
        return content["files"][f"json/{config}.json"][:1]  # type: ignore[no-any-return]

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
            {"group_structure": "[1, [2"},
            "it must be a list such as [1, [2, 3], 4]",
        ),
        ("videomme_v2", "test.parquet", {"question_id": "first"}, "it must end in a number, as in 001-1"),
        ("videomme_v2", "test.parquet", {"options": None}, "field 'options' is None; it must be a list"),
    ],
)
def test_a_broken_record_can_be_skipped(
    name: str, file: str, change: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    rows = golden(name)["files"][file][:2]
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
    world(tmp_path, "nextqa_atp_hard")
    (path,) = tmp_path.rglob("atp-hard-ct4.txt")
    path.write_text(lines)
    with pytest.raises(
        BenchmarkError, match=r"atp-hard-ct4.txt: must list row numbers, one a line; download"
    ):
        load("nextqa_atp_hard", root=tmp_path)
