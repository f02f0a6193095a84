"""Open answers of a run are graded by a judge, once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmark_runs import coloured, infer
from tests.support.benchmark_runs import in_this_process as in_this_process
from tests.support.benchmark_world import TSV, cg, write_json
from tests.support.fakes import make_video
from tests.support.stub_server import StubFault, StubServer, completion, entry, pictures_of, text_of
from videopro.backbones import load_backbone
from videopro.benchmarks.__main__ import main as benchmarks_main
from videopro.benchmarks.mmbench_video import JUDGE
from videopro.runs.grading import read_grade, read_official
from videopro.traces import read_traces


def open_run(tmp_path: Path) -> Path:
    root, run = tmp_path / "mmb", tmp_path / "run"
    root.mkdir()
    (root / "MMBench-Video.tsv").write_text(TSV)
    for name in ("ab_processed", "cd_processed"):
        make_video(root / f"video/{name}.mp4", "red", 1.0)
    assert infer(root, run, "--benchmark", "mmbench_video") == 0
    return run


def clue_run(tmp_path: Path) -> Path:
    """A run of CG-Bench's open questions: three about a red video."""
    root, run = tmp_path / "cg", tmp_path / "open"
    clues = {"1": [[0.0, 0.5]], "2": [[0.25, 1.0]], "3": [[0.0, 1.0]]}
    records = [
        {**cg(int(key), clue, "A"), "video_uid": "uid", "answer": f"gold {key}"}
        for key, clue in clues.items()
    ]
    write_json(root / "cgbench_mini.json", records)
    make_video(root / "cg_videos_720p/uid.mp4", "red", 1.0)
    flags = ["--benchmark", "cg_bench", "--split", "mini", "--protocol", "open"]
    assert infer(root, run, *flags) == 0
    return run


def test_a_judge_of_cg_bench_looks_at_the_clue_if_the_texts_do_not_tell(tmp_path: Path) -> None:
    run = clue_run(tmp_path)
    first = {"gold 1": '```json\n{"result": 1}\n```', "gold 2": '```json\n{"result": 2}\n```', "gold 3": "0"}

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        asked = text_of(body)
        if "sampling frames of the clue" in asked:
            return said('```json\n{"result": 1}\n```')
        return said(next(grade for gold, grade in first.items() if f"answer is '{gold}'" in asked))

    with StubServer(reply) as server:
        flags = ["judge", str(run), "--judge", f"server:served@{server.url}", "--backbone", "video=frames"]
        assert benchmarks_main(flags, load=load_backbone) == 0
        assert len(server.chats) == 4
        (look,) = [body for body in server.chats if "sampling frames of the clue" in text_of(body)]
        # The clue from 0.25 to 1 s has 6 frames at 8 a second, fewer than the judge may see.
        assert len(pictures_of(look)) == 6
        assert "A total of 6 frames are sampled" in text_of(look)
        assert [message["role"] for message in look["messages"]] == ["user"]
        # Nothing is asked twice.
        assert benchmarks_main(flags, load=load_backbone) == 0
        assert len(server.chats) == 4
    value = json.loads((run / "summary.json").read_text())["metrics"]["open accuracy"]
    assert (value["robust"], value["official"], value["n"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3), 3)


def said(text: str) -> dict[str, Any]:
    return completion(text, [entry(text, -0.1)])


def test_open_answers_are_judged_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = open_run(tmp_path)
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["n"], summary["coverage"]) == (0, pytest.approx(2 / 3))
    assert summary["metrics"]["Overall"]["robust"] is None
    traces = {trace.question_id: trace for trace in read_traces(run / "traces.jsonl")}
    assert traces["0"].final is not None
    assert "You will be provided with 4 separate frames" in traces["0"].final.raw
    assert traces["0"].reference == "OPEN"

    grades = {"What is written?": "3", "How many?": "Rating: 2", "Who wins?": "either 1 or 2"}

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        asked = text_of(body)
        return said(
            next(grade for question, grade in grades.items() if f"Question: {question}\nGround" in asked)
        )

    with StubServer(reply) as server:
        spec = f"server:served@{server.url}"
        flags = ["judge", str(run), "--judge", spec, "--backbone", "retries=0"]
        # The first request fails; the others are kept, and the next command asks for the first alone.
        server.faults.append(StubFault(400, {"error": {"message": "no"}}))
        assert benchmarks_main([*flags, "concurrency=1"], load=load_backbone) == 0
        assert len((run / "grades.jsonl").read_text().splitlines()) == 2
        before = len(server.chats)
        with (run / "grades.jsonl").open("a") as file:
            file.write('{"question_id": "0", "ju')  # what a killed writer leaves
        assert benchmarks_main([*flags, "concurrency=1"], load=load_backbone) == 0
        assert len(server.chats) == before + 1
        system, user = server.chats[-1]["messages"]
        assert system == {"role": "system", "content": JUDGE.system}
        assert "Groundtruth answer: OPEN" in user["content"]
        assert benchmarks_main(["judge", str(run), "--judge", "server:other@http://127.0.0.1:9/v1"]) == 2
        assert "was graded by" in capsys.readouterr().err
    overall = json.loads((run / "summary.json").read_text())["metrics"]["Overall"]
    # Grades 3, 2 and one in words; the fourth question has no video. Officially only "3" is a number.
    assert overall == {
        "robust": 5 / 4,
        "official": 3 / 4,
        "n": 4,
        "valid": 5 / 2,
        "official_valid": 3.0,
    }
    numbers = json.loads((run / "summary.json").read_text())["metrics"]
    assert numbers["FP-S"]["robust"] == 5 / 2
    assert numbers["CSR"]["robust"] == 2.0
    assert numbers["Reasoning"]["robust"] == pytest.approx(2 / 3)
    # The run's own command keeps the grades.
    assert infer(tmp_path / "mmb", run, "--benchmark", "mmbench_video") == 0
    assert json.loads((run / "summary.json").read_text())["metrics"]["Overall"] == overall


def test_an_unreachable_judge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = open_run(tmp_path)
    with StubServer(lambda body: said("3")) as server:
        url = server.url
    flags = ["judge", str(run), "--judge", f"server:served@{url}", "--backbone", "retries=0"]
    assert benchmarks_main(flags) == 2
    assert "judge" in capsys.readouterr().err
    coloured(tmp_path / "lvb")
    assert infer(tmp_path / "lvb", tmp_path / "other", "--benchmark", "longvideobench") == 0
    assert benchmarks_main(["judge", str(tmp_path / "other"), "--judge", "m"]) == 2
    assert "is scored without a judge" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("reply", "robust", "official"),
    [
        ("3", 3, 3),
        (" 2\n", 2, 2),
        ("Rating: 1", 1, None),
        ("**0**", 0, None),
        ("2/3", None, None),
        ("1 or 2", None, None),
        ("7", None, 7),
        ("2.5", None, None),
        ("none", None, None),
        ("", None, None),
    ],
)
def test_grades_are_read(reply: str, robust: int | None, official: int | None) -> None:
    assert (read_grade(reply, JUDGE), read_official(reply)) == (robust, official)
