"""Open answers of a run are graded by a judge, once."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmark_runs import InProcessSupervisor, coloured, infer
from tests.support.benchmark_runs import in_this_process as in_this_process
from tests.support.benchmark_world import TSV, cg, write_json
from tests.support.colours import make_video
from tests.support.stub_server import StubFault, StubServer, completion, pictures_of, text_of
from videopro.backbones import load_backbone
from videopro.benchmarks.mmbench_video import JUDGE
from videopro.commands.benchmarks.command import main as benchmarks_main
from videopro.runs import judging
from videopro.runs.grading import read_grade, read_official
from videopro.traces import read_traces


def open_run(folder: Path) -> Path:
    """A run of MMBench-Video in a folder, beside its questions."""
    root = folder / "mmb"
    root.mkdir()
    (root / "MMBench-Video.tsv").write_text(TSV)
    for name in ("ab_processed", "cd_processed"):
        make_video(root / f"video/{name}.mp4", "red", 1.0)
    assert infer(root, folder / "run", "--benchmark", "mmbench_video") == 0
    return folder / "run"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("videopro.commands.infer.Supervisor", InProcessSupervisor)
        return open_run(tmp_path_factory.mktemp("judged"))


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy of a run of open questions."""
    return Path(shutil.copytree(made, tmp_path / "run"))


def said(text: str | None, **facts: Any) -> dict[str, Any]:
    """A reply without log-probabilities, as of a model that reasons."""
    return completion(text, None, **facts)


def lines(run: Path) -> list[dict[str, Any]]:
    """The whole lines of grades.jsonl."""
    return [json.loads(line) for line in (run / "grades.jsonl").read_text().split("\n")[:-1]]


def test_a_judge_of_cg_bench_looks_at_the_clue_if_the_texts_do_not_tell(tmp_path: Path) -> None:
    """Three questions about a red video."""
    root, run = tmp_path / "cg", tmp_path / "open"
    records = [
        {**cg(number, [clue], "A"), "video_uid": "uid", "answer": f"gold {number}"}
        for number, clue in enumerate(([0.0, 0.5], [0.25, 1.0], [0.0, 1.0]), start=1)
    ]
    write_json(root / "cgbench_mini.json", records)
    make_video(root / "cg_videos_720p/uid.mp4", "red", 1.0)
    assert infer(root, run, *("--benchmark", "cg_bench", "--split", "mini", "--protocol", "open")) == 0
    right = '```json\n{"result": 1}\n```'
    first = {"gold 1": right, "gold 2": '```json\n{"result": 2}\n```', "gold 3": "0"}

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        asked = text_of(body)
        if "sampling frames of the clue" in asked:
            return said(right)
        return said(next(grade for gold, grade in first.items() if f"answer is '{gold}'" in asked))

    with StubServer(reply) as server:
        flags = ["judge", str(run), "--judge", f"server:served@{server.url}", "--backbone", "video=frames"]
        for _ in range(2):  # Nothing is asked twice.
            assert benchmarks_main(flags, load=load_backbone) == 0
            assert len(server.chats) == 4
        (look,) = [body for body in server.chats if "sampling frames of the clue" in text_of(body)]
    # The clue from 0.25 to 1 s has 6 frames at 8 a second, fewer than the judge may see.
    assert len(pictures_of(look)) == 6
    assert "A total of 6 frames are sampled" in text_of(look)
    assert [message["role"] for message in look["messages"]] == ["user"]
    value = json.loads((run / "summary.json").read_text())["metrics"]["open accuracy"]
    assert (value["robust"], value["official"], value["n"]) == (pytest.approx(2 / 3), pytest.approx(2 / 3), 3)


def test_open_answers_are_judged_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = open_run(tmp_path)
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["n"], summary["coverage"]) == (0, pytest.approx(2 / 3))
    assert summary["metrics"]["Overall"]["robust"] is None
    (first,) = [trace for trace in read_traces(run / "traces.jsonl") if trace.question_id == "0"]
    assert "You will be provided with 4 separate frames" in first.final.raw
    assert first.reference == "OPEN"

    grades = {"What is written?": "3", "How many?": "Rating: 2", "Who wins?": "either 1 or 2"}

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        asked = text_of(body)
        found = (grade for question, grade in grades.items() if f"Question: {question}\nGround" in asked)
        return said(next(found))

    with StubServer(reply) as server:
        # The first request fails; the others are kept, and the next command asks for the first alone.
        server.faults.append(StubFault(400, {"error": {"message": "no"}}))
        assert judge(run, server) == 0
        assert [line.get("error", "")[-16:] for line in lines(run)] == ["(status 400): no", "", ""]
        *_, told, failed, ungraded = capsys.readouterr().err.splitlines()
        assert told.startswith("2 answers were not graded; re-run the same command to retry")
        assert failed.endswith("(status 400): no")
        assert ungraded.endswith("): the reply has no grade on the scale: 'either 1 or 2'")
        before = len(server.chats)
        with (run / "grades.jsonl").open("a") as file:
            file.write('{"question_id": "0", "ju')  # what a killed writer leaves
        assert judge(run, server) == 0
        # What failed is asked again: the request, and the reply without a grade.
        assert len(server.chats) == before + 2
        system, user = next(body["messages"] for body in server.chats[before:] if "OPEN" in text_of(body))
        assert system == {"role": "system", "content": JUDGE.system}
        assert "Groundtruth answer: OPEN" in user["content"]
        assert benchmarks_main(["judge", str(run), "--judge", "server:other@http://127.0.0.1:9/v1"]) == 2
        assert "was graded by" in capsys.readouterr().err
    numbers = json.loads((run / "summary.json").read_text())["metrics"]
    # Grades 3, 2 and one in words; the fourth question has no video. Officially only "3" is a number.
    wanted = {"robust": 5 / 4, "official": 3 / 4, "n": 4, "valid": 5 / 2, "official_valid": 3.0}
    assert numbers["Overall"] == wanted
    robust = [numbers[name]["robust"] for name in ("FP-S", "CSR", "Reasoning")]
    assert robust == pytest.approx([5 / 2, 2.0, 2 / 3])
    # The run's own command keeps the grades.
    assert infer(tmp_path / "mmb", run, "--benchmark", "mmbench_video") == 0
    assert overall(run) == wanted


def test_an_unreachable_judge(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with StubServer(lambda body: said("3")) as server:
        pass
    assert judge(run, server) == 2
    assert "judge" in capsys.readouterr().err
    coloured(tmp_path / "lvb")
    assert infer(tmp_path / "lvb", tmp_path / "other", "--benchmark", "longvideobench") == 0
    assert benchmarks_main(["judge", str(tmp_path / "other"), "--judge", "m"]) == 2
    assert "needs no judge" in capsys.readouterr().err


def test_grades_are_read() -> None:
    """Officially a grade is a whole number alone, of any size."""
    replies = {"3": (3, 3), " 2\n": (2, 2), "Rating: 1": (1, None), "7": (None, 7), "2.5": (None, None)}
    found = {reply: (read_grade(reply, JUDGE), read_official(reply)) for reply in (*replies, "")}
    assert found == {**replies, "": (None, None)}


def judge(run: Path, server: StubServer, *flags: str) -> int:
    given = ["judge", str(run), "--judge", f"api:served@{server.url}", *flags]
    return benchmarks_main([*given, "--backbone", "retries=0", "concurrency=1"])


def overall(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "summary.json").read_text())["metrics"]["Overall"]
    return found


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (said("", finish="stop"), "the reply is empty"),
        (said(None), "the reply is empty"),
        (said("<think>It is a 3, I think"), "the reply is empty"),
        (said("3 cars are right"), "the reply has no grade on the scale: '3 cars are right'"),
        (said("\x1b[2J3 of 7"), "the reply has no grade on the scale: '3 of 7'"),
        (said("3", finish="length"), "the reply was cut off at 4096 tokens: '3'"),
        (said("3", finish="content_filter"), "content_filter"),
    ],
)
def test_a_failure_is_one(
    reply: dict[str, Any], why: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Recorded, counted, and asked again; never a grade."""
    replies = [reply, said("3"), said("3")]
    with StubServer(lambda body: replies[(len(server.chats) - 1) % 3]) as server:
        assert judge(run, server) == 0
        captured = capsys.readouterr()
        assert "1 answers were not graded" in captured.err
        assert why in captured.err
        assert "1 answer has no grade, and counts 0" in captured.out
        assert (overall(run)["robust"], overall(run)["valid"]) == (6 / 4, 3.0)
        replies[0] = said("2")
        assert judge(run, server) == 0
        assert len(server.chats) == 4
    assert (overall(run)["robust"], overall(run)["n"]) == (8 / 4, 4)
    assert "ungraded" not in capsys.readouterr().err


def test_a_judge_that_repeats_a_reply_without_a_grade_is_asked_no_more(run: Path) -> None:
    """Two ratings in brackets are none, and at temperature 0 they stay so."""
    with StubServer(lambda body: said("[[2]] [[3]]" if len(server.chats) in (1, 4) else "3")) as server:
        asked = []
        for _ in range(3):
            assert judge(run, server) == 0
            asked.append(len(server.chats))
        assert asked == [3, 4, 4]
        assert overall(run)["valid"] == 3.0


def test_a_judge_that_never_gives_a_grade_is_stopped(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "_GIVEN_UP", 2)
    with StubServer(lambda body: said("I cannot say.")) as server:
        assert judge(run, server) == 2
        assert len(server.chats) == 2
    assert "none of the judge's first 2 replies has a grade" in capsys.readouterr().err
