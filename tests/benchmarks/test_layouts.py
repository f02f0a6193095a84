"""Data as it comes: the hub's rows and folders, numbered files, files that are almost JSON, many options.

The layouts are those named in each loader's docstring; the records are ours.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmark_world import MME, cg, ego, mlvu, score, touch, write_json, write_parquet
from videopro.benchmarks import load
from videopro.commands.benchmarks.command import main
from videopro.errors import BenchmarkError

TASKS = ("1_plotQA", "2_needle", "3_ego", "4_count", "5_order", "6_anomaly_reco", "7_topic_reasoning")


class Hub:
    """Stands in for `datasets.load_dataset`: the rows of configurations, and what was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rows: dict[tuple[str, str | None, str], Any]) -> None:
        datasets = pytest.importorskip("datasets")
        self._rows = rows
        monkeypatch.setattr(datasets, "load_dataset", self._load)

    def _load(self, repo: str, config: str | None = None, *, split: str) -> Any:
        try:
            return self._rows[repo, config, split]
        except KeyError:
            raise ValueError(f"BuilderConfig {config!r} not found") from None


# ---- MLVU -------------------------------------------------------------------------------------------------


def test_mlvu_asks_questions_and_options_without_a_text(tmp_path: Path) -> None:
    """The three defects of dev: a gold answer that is an empty option, twice, and a question of nothing."""
    records: dict[str, list[Any]] = {task: [] for task in TASKS}
    records["3_ego"] = [mlvu("a.mp4", ["a box", "", "a shelf", "a bag"], "", "ego")]
    records["7_topic_reasoning"] = [mlvu("b.mp4", ["", "", "", ""], "", "topic_reasoning", question="")]
    for task, own in records.items():
        write_json(tmp_path / f"json/{task}.json", own)
    touch(tmp_path, "video/3_ego/a.mp4", "video/7_topic_reasoning/b.mp4")
    benchmark = load("mlvu", root=tmp_path)
    ego_question, nothing = benchmark.items
    assert ego_question.question.choices == ("a box", "(empty)", "a shelf", "a bag")
    assert ego_question.answer == "B"
    # Officially the last of equal options is right.
    assert (nothing.question.text, nothing.answer) == ("(empty)", "D")
    assert "has no text; read as '(empty)'" in "\n".join(map(str, benchmark.defects))
    summary = score(benchmark, {"3_ego/1": "B) (empty)", "7_topic_reasoning/1": "D"})
    assert (summary["official_n"], summary["official_accuracy"]) == (2, 1.0)
    assert (summary["n"], summary["accuracy"]) == (2, 1.0)


def test_mlvu_as_a_snapshot_of_the_hub(tmp_path: Path) -> None:
    for task in TASKS:
        write_json(tmp_path / f"MLVU/json/{task}.json", [mlvu(f"{task}.mp4", ["x", "y"], "y", "plotQA")])
        touch(tmp_path, f"MLVU/video/{task}/{task}.mp4")
    benchmark = load("mlvu", root=tmp_path)
    assert [item.id for item in benchmark.items] == [f"{task}/1" for task in TASKS]
    assert all(item.video.is_file() for item in benchmark.items)


@pytest.mark.parametrize(
    ("split", "repo", "kind", "task"),
    [
        ("dev", "sy1998/MLVU_dev", "needle", "needle"),
        ("test", "sy1998/MLVU_Test", "needleQA", "needleQA"),
    ],
)
def test_mlvu_as_rows_of_the_hub(
    split: str, repo: str, kind: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "What is it?\n(A) a cup\n(B) a hat\n(C) a bag\n(D) a box"
    rows = [{"video_name": "a.mp4", "question": asked, "answer": "C", "task_type": kind}] * 2
    Hub(monkeypatch, {(repo, None, "test"): rows})
    touch(tmp_path, "anywhere/a.mp4")
    benchmark = load("mlvu", split=split, root=tmp_path, annotations=f"hf:{repo}")
    first, second = benchmark.items
    assert first.question.text == "What is it?"
    assert first.question.choices == ("a cup", "a hat", "a bag", "a box")
    assert (first.answer, first.groups["task"]) == ("C", task)
    assert first.id != second.id
    assert first.video == tmp_path / "anywhere/a.mp4"


# ---- CG-Bench, EgoSchema and LVBench on the hub -----------------------------------------------------------


def test_cg_bench_of_the_hub_has_its_videos_in_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = "CG-Bench/CG-Bench"
    Hub(
        monkeypatch,
        {
            (own, "cg-bench", "train"): [cg(1, [[0, 10]], "A"), cg(2, [[0, 10]], "B")],
            (own, "cg-bench-mini", "train"): [cg(2, [[0, 10]], "B")],
        },
    )
    touch(tmp_path, "cg_videos_720p/uid2.mp4", "cg_subtitles/uid2.srt")
    full = load("cg_bench", root=tmp_path, annotations=f"hf:{own}")
    assert [item.id for item in full.items] == ["1", "2"]
    mini = load("cg_bench", split="mini", root=tmp_path, annotations=f"hf:{own}", protocol="videopro")
    (item,) = mini.items
    assert item.video == tmp_path / "cg_videos_720p/uid2.mp4"
    assert item.subtitles == tmp_path / "cg_subtitles/uid2.srt"
    with pytest.raises(BenchmarkError, match=r"CG-Bench:mini cannot be loaded .*'mini' not found"):
        load("cg_bench", root=tmp_path, annotations=f"hf:{own}:mini")


def test_egoschema_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = [f"{letter}. reason {letter}" for letter in "ABCDE"]
    row = {"question_idx": "0", "question": "Why?", "video_idx": "uid-0", "option": options}
    rows: dict[tuple[str, str | None, str], Any] = {
        ("lmms-lab/egoschema", "Subset", "test"): [{**row, "answer": "3"}],
        ("lmms-lab/egoschema", "MC", "test"): [
            {**row, "answer": None},
            {**row, "video_idx": "uid-1", "answer": None},
        ],
    }
    Hub(monkeypatch, rows)
    touch(tmp_path, "videos/uid-0.mp4")
    (item,) = load("egoschema", root=tmp_path, annotations="hf:lmms-lab/egoschema").items
    assert (item.id, item.answer) == ("uid-0", "D")
    assert item.question.choices[0] == "reason A"
    assert item.video == tmp_path / "videos/uid-0.mp4"
    full = load("egoschema", split="full", root=tmp_path, annotations="hf:lmms-lab/egoschema")
    assert [(item.id, item.answer) for item in full.items] == [("uid-0", None), ("uid-1", None)]
    # The official files are read as before.
    ego(tmp_path)
    assert [item.id for item in load("egoschema", root=tmp_path).items] == ["uid-0", "uid-2"]


ASKED = "What is it?\n(A) a cup\n(B) a hat\n(C) a bag\n(D) a box"


def test_lvbench_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"uid": "7", "question": ASKED, "answer": "B", "question_type": ["reasoning"], "type": "tv"}
    rows = [{**row, "key": "Cm73ma6Ibcs"}, {**row, "uid": "8", "video_path": "all_videos/Dm73ma6Ibcs.mp4"}]
    Hub(monkeypatch, {("lmms-lab/LVBench", None, "train"): rows})
    touch(tmp_path, "all_videos/Cm73ma6Ibcs.mp4", "all_videos/Dm73ma6Ibcs.mp4")
    first, second = load("lvbench", root=tmp_path, annotations="hf:lmms-lab/LVBench").items
    assert (first.video_key, second.video_key) == ("Cm73ma6Ibcs", "Dm73ma6Ibcs")
    assert first.video == tmp_path / "all_videos/Cm73ma6Ibcs.mp4"
    assert second.video == tmp_path / "all_videos/Dm73ma6Ibcs.mp4"
    assert first.groups["ability"] == "Rea"


def lvbench_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    qa = {"uid": "1", "question": ASKED, "answer": "B", "question_type": ["reasoning"]}
    path.write_text(json.dumps({"key": "Cm73ma6Ibcs", "type": "tv", "qa": [qa]}) + "\n")


def test_a_file_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    lvbench_file(tmp_path / "cache/video_info.meta.jsonl")

    def download(repo: str, file: str, *, repo_type: str) -> str:
        if (repo, file, repo_type) != ("zai-org/LVBench", "video_info.meta.jsonl", "dataset"):
            raise OSError("404")
        return str(tmp_path / "cache/video_info.meta.jsonl")

    monkeypatch.setattr(hub, "hf_hub_download", download)
    own = "hf:zai-org/LVBench:video_info.meta.jsonl"
    assert [item.id for item in load("lvbench", root=tmp_path, annotations=own).items] == ["1"]
    with pytest.raises(BenchmarkError, match=r"hf:zai-org/LVBench:other.jsonl cannot be downloaded \(404\)"):
        load("lvbench", root=tmp_path, annotations="hf:zai-org/LVBench:other.jsonl")


def test_a_folder_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    lvbench_file(tmp_path / "snapshot/video_info.meta.jsonl")
    touch(tmp_path, "snapshot/videos/Cm73ma6Ibcs.mp4")

    def download(repo: str, *, repo_type: str) -> str:
        if (repo, repo_type) != ("zai-org/LVBench", "dataset"):
            raise OSError("404")
        return str(tmp_path / "snapshot")

    monkeypatch.setattr(hub, "snapshot_download", download)
    (item,) = load("lvbench", root=Path("hf:zai-org/LVBench")).items
    assert item.video == tmp_path / "snapshot/videos/Cm73ma6Ibcs.mp4"
    assert main(["check", "lvbench", "--root", "hf:zai-org/LVBench"]) == 0
    with pytest.raises(BenchmarkError, match=r"lvbench: hf:zai-org/none cannot be downloaded \(404\)"):
        load("lvbench", root=Path("hf:zai-org/none"))


# ---- files ------------------------------------------------------------------------------------------------


def test_numbered_files_of_video2dataset_are_found_by_their_url(tmp_path: Path) -> None:
    lvbench_file(tmp_path / "data/video_info.meta.jsonl")
    touch(tmp_path, "scripts/videos/00000/00003.mp4", "scripts/videos/00000/00004.mp4")
    about = {"url": "https://www.youtube.com/watch?v=Cm73ma6Ibcs", "key": "00003", "status": "success"}
    write_json(tmp_path / "scripts/videos/00000/00003.json", about)
    (tmp_path / "scripts/videos/00000/00004.json").write_text("{torn")
    (item,) = load("lvbench", root=tmp_path).items
    assert item.video == tmp_path / "scripts/videos/00000/00003.mp4"
    assert item.video_key == "Cm73ma6Ibcs"


TEMPLATE = """[
    {"video_id": "001", "duration": "short", "domain": "Knowledge", "sub_category": "Geography",
     "questions": [
        {"question_id": "001-1", "task_type": "Counting Problem", "question": "How many, [a,] or {b,}?",
         "options": ["A. 1, ]", "B. 2", "C. 3", "D. 4"], "answer": "C", "response": "C",},
        {"question_id": "001-2", "task_type": "Counting Problem", "question": "Why?",
         "options": ["A. w", "B. x", "C. y", "D. z",], "answer": "A", "response": "",},
     ]},
]"""


def test_videomme_of_its_own_template(tmp_path: Path) -> None:
    (tmp_path / "output_test_template.json").write_text(TEMPLATE)
    first, second = load("videomme", root=tmp_path).items
    assert first.question.text == "How many, [a,] or {b,}?"
    assert first.question.choices == ("1, ]", "2", "3", "4")
    assert second.question.choices == ("w", "x", "y", "z")
    assert first.video.name == "001.mp4"
    # With the hub's file beside it, videos are found by their YouTube ids.
    path = tmp_path / "output_test_template.json"
    write_parquet(tmp_path / "videomme/test-00000-of-00001.parquet", MME)
    touch(tmp_path, "data/video-id_01.mp4")
    first, _ = load("videomme", root=tmp_path, annotations=str(path)).items
    assert first.video == tmp_path / "data/video-id_01.mp4"


def test_a_json_file_that_is_more_than_trailing_commas_wrong_is_refused(tmp_path: Path) -> None:
    (tmp_path / "output_test_template.json").write_text(TEMPLATE.replace('"001"', "001"))
    with pytest.raises(BenchmarkError, match="none of the 1 records is a question"):
        load("videomme", root=tmp_path)


# ---- many options -----------------------------------------------------------------------------------------


def test_twelve_options(tmp_path: Path) -> None:
    choices = [f"thing {number}" for number in range(12)]
    record = {"id": "q", "video": "a.mp4", "question": "Which?", "choices": choices, "answer": "L"}
    (tmp_path / "questions.jsonl").write_text(json.dumps(record) + "\n")
    touch(tmp_path, "a.mp4")
    benchmark = load("jsonl", root=tmp_path)
    assert score(benchmark, {"q": "The answer is (L)."})["accuracy"] == 1.0
    assert score(benchmark, {"q": "The answer is (M)."})["accuracy"] == 0.0
