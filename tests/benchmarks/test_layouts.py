"""Data as it comes: the hub's rows and folders, numbered files, files that are almost JSON, many options.

The layouts are those named in each loader's docstring; the records are ours.
"""

import json
from pathlib import Path

import pytest

from tests.support.benchmark_world import MME, Hub, cg, ego, touch, write_json, write_parquet
from videopro.benchmarks import load
from videopro.commands.benchmarks.command import main
from videopro.errors import BenchmarkError

ASKED = "What is it?\n(A) a cup\n(B) a hat\n(C) a bag\n(D) a box"


# ---- rows of the hub --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("split", "repo", "kind", "task"),
    [("dev", "MLVU_dev", "needle", "needle"), ("test", "MLVU_Test", "needleQA", "needleQA")],
)
def test_mlvu_as_rows_of_the_hub(
    split: str, repo: str, kind: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = f"sy1998/{repo}"
    rows = [{"video_name": "a.mp4", "question": ASKED, "answer": "C", "task_type": kind}] * 2
    Hub(monkeypatch, {(repo, None, "test"): rows})
    touch(tmp_path, "anywhere/a.mp4")
    benchmark = load("mlvu", split=split, root=tmp_path, annotations=f"hf:{repo}")
    first, second = benchmark.items
    assert first.question.text == "What is it?"
    assert first.question.choices == ("a cup", "a hat", "a bag", "a box")
    assert (first.answer, first.groups["task"]) == ("C", task)
    assert first.id != second.id
    assert first.video == tmp_path / "anywhere/a.mp4"


def test_cg_bench_of_the_hub_has_its_videos_in_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = "CG-Bench/CG-Bench"
    first, second = cg(1, [[0, 10]], "A"), cg(2, [[0, 10]], "B")
    rows = {"cg-bench": [first, second], "cg-bench-mini": [second]}
    Hub(monkeypatch, {(own, config, "train"): found for config, found in rows.items()})
    touch(tmp_path, "cg_videos_720p/uid2.mp4", "cg_subtitles/uid2.srt")
    full = load("cg_bench", root=tmp_path, annotations=f"hf:{own}")
    assert [item.id for item in full.items] == ["1", "2"]
    mini = load("cg_bench", split="mini", root=tmp_path, annotations=f"hf:{own}", protocol="videopro")
    (item,) = mini.items
    files = (tmp_path / "cg_videos_720p/uid2.mp4", tmp_path / "cg_subtitles/uid2.srt")
    assert (item.video, item.subtitles) == files
    with pytest.raises(BenchmarkError, match=r"CG-Bench:mini cannot be loaded .*'mini' not found"):
        load("cg_bench", root=tmp_path, annotations=f"hf:{own}:mini")


def test_egoschema_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = [f"{letter}. reason {letter}" for letter in "ABCDE"]
    row = {"question_idx": "0", "question": "Why?", "video_idx": "uid-0", "option": options}
    unknown = [{**row, "answer": None}, {**row, "video_idx": "uid-1", "answer": None}]
    found = {"Subset": [{**row, "answer": "3"}], "MC": unknown}
    Hub(monkeypatch, {("lmms-lab/egoschema", config, "test"): rows for config, rows in found.items()})
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


def test_lvbench_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"uid": "7", "question": ASKED, "answer": "B", "question_type": ["reasoning"], "type": "tv"}
    row["time_reference"] = "00:15-01:02:19"
    rows = [{**row, "key": "Cm73ma6Ibcs"}, {**row, "uid": "8", "video_path": "all_videos/Dm73ma6Ibcs.mp4"}]
    Hub(monkeypatch, {("lmms-lab/LVBench", None, "train"): rows})
    touch(tmp_path, "all_videos/Cm73ma6Ibcs.mp4", "all_videos/Dm73ma6Ibcs.mp4")
    first, second = load("lvbench", root=tmp_path, annotations="hf:lmms-lab/LVBench").items
    assert (first.video_key, second.video_key) == ("Cm73ma6Ibcs", "Dm73ma6Ibcs")
    assert first.video == tmp_path / "all_videos/Cm73ma6Ibcs.mp4"
    assert second.video == tmp_path / "all_videos/Dm73ma6Ibcs.mp4"
    assert (first.groups["ability"], first.evidence) == ("Rea", ((15.0, 3739.0),))


def lvbench_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    qa = {"uid": "1", "question": ASKED, "answer": "B", "question_type": ["reasoning"]}
    path.write_text(json.dumps({"key": "Cm73ma6Ibcs", "type": "tv", "qa": [qa]}) + "\n")


def test_files_and_folders_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    file = tmp_path / "snapshot/video_info.meta.jsonl"
    lvbench_file(file)
    touch(tmp_path, "snapshot/videos/Cm73ma6Ibcs.mp4")

    needed = []

    def download(repo: str, name: str = "", *, repo_type: str, allow_patterns: object = None) -> str:
        needed.append(allow_patterns)
        if (repo, name or file.name, repo_type) != ("zai-org/LVBench", file.name, "dataset"):
            raise OSError("404")
        return str(file if name else file.parent)

    monkeypatch.setattr(hub, "hf_hub_download", download)
    monkeypatch.setattr(hub, "snapshot_download", download)
    own = "hf:zai-org/LVBench"
    (item,) = load("lvbench", root=tmp_path, annotations=f"{own}:{file.name}").items
    assert item.id == "1"
    with pytest.raises(BenchmarkError, match=rf"{own}:other.jsonl cannot be downloaded \(404\)"):
        load("lvbench", root=tmp_path, annotations=f"{own}:other.jsonl")
    (item,) = load("lvbench", root=Path(own)).items
    assert item.video == file.parent / "videos/Cm73ma6Ibcs.mp4"
    # The repository also has the videos in pieces of a zip.
    assert needed[-1] == ["video_info.meta.jsonl", "videos/*"]
    assert main(["check", "lvbench", "--root", own]) == 0
    with pytest.raises(BenchmarkError, match=r"lvbench: hf:zai-org/none cannot be downloaded \(404\)"):
        load("lvbench", root=Path("hf:zai-org/none"))
    assert needed[-1] is None, "of another repository nothing is known"


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
    # The authors' file of all questions has other names for the same.
    path = tmp_path / "output_test_template.json"
    names = {"duration": "duration_category", "domain": "video_category", "options": "choices"}
    for name, other in names.items():
        path.write_text(path.read_text().replace(f'"{name}"', f'"{other}"'))
    assert load("videomme", root=tmp_path).items == [first, second]
    # With the hub's file beside it, videos are found by their YouTube ids.
    write_parquet(tmp_path / "videomme/test-00000-of-00001.parquet", MME)
    touch(tmp_path, "data/video-id_01.mp4")
    first, _ = load("videomme", root=tmp_path, annotations=str(path)).items
    assert first.video == tmp_path / "data/video-id_01.mp4"

    # A file that is more than trailing commas wrong is refused.
    path.write_text(TEMPLATE.replace('"001"', "001"))
    with pytest.raises(BenchmarkError, match="none of the 1 records is a question"):
        load("videomme", root=tmp_path, annotations=str(path))
