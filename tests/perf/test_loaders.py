"""perf/loaders.py counts what the loaders make of files, without a word of their records."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perf import ROOT
from perf.loaders import main


def mlvu(number: int, **changes: object) -> dict[str, object]:
    """A record in MLVU's form."""
    record = {
        "video": f"film_{number}.mp4",
        "duration": 100,
        "question": "Which gate does the heron use?",
        "candidates": ["north", "south", "east", "west"],
        "answer": "east",
        "question_type": "plotQA",
    }
    return {**record, **changes}


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """Records of our own in the forms of the three benchmarks."""
    files = {
        "mlvu/1_plotQA_first4.json": [
            mlvu(1),
            mlvu(
                1,
                question="Whose boat is it?",
                candidates=["Ada's", "Ben's", "Ada's", "Eve's"],
                answer="Eve's",
            ),
            mlvu(2, answer="the heron's gate"),
            mlvu(3, candidates=["north", "", "east", "west"]),
        ],
        "mlvu/9_summary_first1.json": [
            {"video": "film_4.mp4", "question": "Summarize.", "answer": "A heron."}
        ],
        "cg_bench/cgbench_mini_first2.json": [
            {
                "qid": number,
                "video_uid": f"heron{number}",
                "question": "Where does the heron stand?",
                "choices": ["in the reeds", "on a post"],
                "right_answer": "B",
                "answer": "on a post",
                "clue_intervals": [[3, 5]],
                "duration": 700,
                "domain": "Animal",
                "sub_category": "Scene Perception",
            }
            for number in (1, 2)
        ],
    }
    for name, records in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(records))
    (tmp_path / "nextqa").mkdir()
    (tmp_path / "nextqa" / "val_first2.csv").write_text(
        "video,frame_count,width,height,question,answer,qid,type,a0,a1,a2,a3,a4\n"
        "11,90,64,64,why does the heron wait,0,0,CW,for a fish,it is hurt,it sleeps,it hides,it drinks\n"
        "11,90,64,64,how does it leave,4,1,CH,by boat,on foot,it dives,it stays,it flies\n"
    )
    return tmp_path


def test_what_the_loaders_read_and_name(samples: Path) -> None:
    output = samples / "loaders.json"
    assert main([str(samples), "--output", str(output)]) == 0
    tasks, summary, nextqa, cg_bench = json.loads(output.read_text())
    assert (tasks["records"], tasks["questions"], tasks["videos"]) == (5, 4, 3)
    absent = ("2_needle", "3_ego", "4_count", "5_order", "6_anomaly_reco", "7_topic_reasoning")
    assert tasks["left_out"] == {f"has no json/{name}.json": 1 for name in absent}
    assert tasks["annotation_errors"] == {
        "question has an empty option": 1,
        "question has two identical options": 1,
        "the gold answer of question is not among its options": 1,
    }
    assert (summary["records"], summary["questions"]) == (1, 0)
    assert set(summary["refused"].values()) == {"mlvu: none of the 1 records is a question of this benchmark"}
    assert (nextqa["records"], nextqa["questions"], nextqa["videos"]) == (2, 2, 1)
    assert (cg_bench["records"], cg_bench["questions"], cg_bench["videos"]) == (2, 2, 2)
    assert set(cg_bench["refused"]) == {"long_subtitles", "miou_subtitles"}


def test_the_record_has_no_text_and_no_folder(samples: Path) -> None:
    output = samples / "loaders.json"
    main([str(samples), "--output", str(output)])
    record = output.read_text()
    words = ("heron", "gate", "Eve", "boat", "reeds", str(samples), "/tmp")
    assert [word for word in words if word in record] == []


def test_a_folder_without_samples_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "--output", str(tmp_path / "loaders.json")]) == 2
    assert "has no mlvu/*.json" in capsys.readouterr().err


def test_what_is_recorded_names_its_files() -> None:
    samples = json.loads((ROOT / "perf" / "loaders.json").read_text())
    assert [sample["name"] for sample in samples] == [
        "MLVU dev", "MLVU dev, `9_summary` alone", "NExT-QA val", "CG-Bench mini"
    ]  # fmt: skip
    assert all(sample["files"] for sample in samples)
