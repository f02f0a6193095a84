"""Synthesis that is stopped, enlarged or shared by commands makes the same datasets; no other resumes it."""

import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.colours import finish, make_benchmark, make_video, wait_for
from tests.support.stub_server import StubFault, StubServer, text_of
from tests.support.synthesis import Made, datasets, flags, load_moody, rows, start, usual
from videopro.data_synthesis.run import main
from videopro.traces import read_traces
from videopro.video import content_id


def count(path: Path) -> int:
    """Its lines."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def slow(body: dict[str, Any]) -> StubFault:
    return StubFault(200, usual(body), delay=0.05)


def asked(chats: Sequence[dict[str, Any]]) -> Counter[tuple[str, int]]:
    return Counter((text_of(body), body["seed"]) for body in chats)


def test_another_video_is_refused_or_asked_about_again(
    tmp_path: Path, stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    root, out = tmp_path / "b", tmp_path / "out"
    make_benchmark(root, videos=2, questions=2)
    video = root / "videos" / "v0.mp4"
    assert main(flags(root, out, stub, "--ids", "v0q0", "v1q0"), load=load_moody) == 0
    make_video(video, "blue")
    assert main(flags(root, out, stub), load=load_moody) == 2
    assert f"{video}: changed since these questions were answered: v0q0" in capsys.readouterr().err
    assert main(flags(root, out, stub, "--redo-changed"), load=load_moody) == 0
    records = [(row["question_id"], row["video"]["id"]) for row in rows(out, "records.jsonl")]
    assert [name for name, _ in records].count("v0q0") == 2
    assert {seen for name, seen in records[2:] if name.startswith("v0")} == {content_id(video)}


@pytest.mark.kills
def test_killed_it_resumes_to_the_same_bytes(
    root: Path, tmp_path: Path, stub: StubServer, made: Made
) -> None:
    """Among the teacher's replies, and again after some records; no kept reply is asked for twice."""
    needed, out = len(made.chats), tmp_path / "out"
    stub.reply = slow
    replies, records = out / "work" / "replies.jsonl", out / "records.jsonl"
    for path, least in ((replies, 5), (records, 3)):
        process = start(root, out, stub, "--concurrency", "2", "--videos", "1")
        wait_for(lambda path=path, least=least: count(path) >= least)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not (out / "sft.jsonl").exists()
    kept = count(replies)
    for torn in (replies, records):
        with torn.open("ab") as file:
            file.write(b'{"key": "torn')
    assert main(flags(root, out, stub), load=load_moody) == 0
    assert datasets(out) == datasets(made.folder)
    # At most the two in flight at each kill were asked for again.
    assert needed <= len(stub.chats) <= needed + 4
    assert count(replies) == needed > kept


@pytest.mark.kills
def test_two_commands_share_the_work_and_leave_the_bytes_of_one(
    root: Path, tmp_path: Path, stub: StubServer, made: Made
) -> None:
    out = tmp_path / "out"
    stub.reply = slow
    for command in [start(root, out, stub, "--videos", "1") for _ in range(2)]:
        finish(command)
    assert datasets(out) == datasets(made.folder)
    assert (out / "card.json").exists()
    recorded = [sorted(row["question_id"] for row in rows(x, "records.jsonl")) for x in (out, made.folder)]
    assert recorded[0] == recorded[1]
    assert asked(stub.chats) == asked(made.chats), "every request was sent once"


@pytest.mark.kills
def test_work_of_a_killed_command_is_taken_over(
    root: Path, tmp_path: Path, stub: StubServer, made: Made
) -> None:
    out = tmp_path / "out"
    stub.reply = slow
    killed, other = (start(root, out, stub, "--videos", "1", "--concurrency", "1") for _ in range(2))
    replies = out / "work" / "replies.jsonl"
    wait_for(lambda: count(replies) >= 6)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    finish(other)
    assert datasets(out) == datasets(made.folder)
    counted = Counter(row["question_id"] for row in rows(out, "records.jsonl"))
    assert set(counted.values()) == {1}
    assert len(stub.chats) <= count(replies) + 1


@pytest.mark.kills
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_says_so_and_resumes(
    root: Path, tmp_path: Path, stub: StubServer, number: signal.Signals
) -> None:
    stub.reply = slow
    process = start(root, tmp_path / "out", stub, "--concurrency", "1")
    wait_for(lambda: count(tmp_path / "out" / "work" / "replies.jsonl") >= 2)
    process.send_signal(number)
    said = finish(process, status=128 + number)
    assert "re-run the same command to resume" in said
    assert "Traceback" not in said


def test_a_cap_ends_a_command_and_a_larger_one_resumes_it(
    root: Path, tmp_path: Path, stub: StubServer, made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(flags(root, out, stub, "--max-requests", "20", "--videos", "1"), load=load_moody) == 0
    assert len(stub.chats) == 20
    assert "questions are still open, because a cap was reached" in capsys.readouterr().err
    assert 0 < len(rows(out, "records.jsonl")) < 9
    # Each record is whole: no question lacks a program because of the cap.
    for trace in read_traces(out / "records.jsonl"):
        assert sum(turn.prompt_kind == "plan_program" for turn in trace.rounds) == 4
    # Nor does it matter how many requests are under way.
    words = ("--max-requests", "1000", "--concurrency", "1")
    assert main(flags(root, out, stub, *words), load=load_moody) == 0
    assert len(stub.chats) == len(made.chats)
    assert datasets(out) == datasets(made.folder)


def test_a_larger_limit_only_adds_and_assembling_again_changes_nothing(
    root: Path, tmp_path: Path, stub: StubServer, made: Made
) -> None:
    out = tmp_path / "out"
    assert main(flags(root, out, stub, "--limit", "4"), load=load_moody) == 0
    first = {row["id"]: row for row in rows(out, "sft.jsonl")}
    assert len(rows(out, "records.jsonl")) == 4
    assert main(flags(root, out, stub, "--concurrency", "8", "--videos", "3"), load=load_moody) == 0
    assert stub.peak > 1
    assert datasets(out) == datasets(made.folder)
    after = {row["id"]: row for row in rows(out, "sft.jsonl")}
    assert {name: after[name] for name in first} == first
    card, sent = (out / "card.json").read_bytes(), len(stub.chats)
    (out / "sft.jsonl").unlink()

    def no_load(model: str, **settings: Any) -> Any:
        raise AssertionError("nothing is to be loaded")

    assert main(["--config", str(out / "config.yaml"), "--assemble-only"], load=no_load) == 0
    assert datasets(out) == datasets(made.folder)
    assert ((out / "card.json").read_bytes(), len(stub.chats)) == (card, sent)


FINISHED = ("--limit", "1")
REFUSED: dict[tuple[str, ...], str] = {
    ("--tau", "0.5"): "synthesis.tau: the run has 0.75, this command 0.5",
    ("--programs", "2"): "synthesis.programs: the run has 4, this command 2",
    ("--seed", "1"): "synthesis.seed: the run has 0, this command 1",
    ("--drop-modules", "0.5", "--reference", "compact"): "drop_modules: the run has",
    ("--temperature", "0.2"): "teacher.temperature: the run has 0.7, this command 0.2",
    ("--backbone", "salt=x"): "model.salt: the run has '', this command 'x'",
    (*FINISHED, "--teacher", "api:other@http://127.0.0.1:9/v1"): "teacher: the run has 'api:served@",
    (*FINISHED, "--temperature", "0.2"): "temperature: the run has 0.7, this command 0.2",
    (*FINISHED, "--model", "other"): "model.model: the run has 'm', this command 'other'",
    (*FINISHED, "--backbone", "salt=x"): "model.salt: the run has '', this command 'x'",
    (*FINISHED, "--ocr", "rapidocr"): "ocr: the run has 'none', this command 'rapidocr'",
}


def test_another_synthesis_is_refused(
    root: Path, tmp_path: Path, stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also with nothing left to ask, when nothing is loaded."""
    out = tmp_path / "out"
    assert main(flags(root, out, stub, *FINISHED), load=load_moody) == 0
    before = datasets(out)
    for change, expected in REFUSED.items():
        assert main(flags(root, out, stub, *change), load=load_moody) == 2, change
        assert expected in capsys.readouterr().err
    assert main(flags(root, out, stub, *FINISHED), load=load_moody) == 0
    assert datasets(out) == before


def test_a_folder_keeps_the_precision_of_the_clip_encoder_in_which_it_began(
    root: Path, tmp_path: Path, stub: StubServer
) -> None:
    out, words = tmp_path / "out", ("--limit", "1")
    assert main(flags(root, out, stub, *words, "--encoder-dtype", "bfloat16"), load=load_moody) == 0
    assert main(flags(root, out, stub, "--limit", "2"), load=load_moody) == 0
    assert "encoder_dtype: bfloat16" in (out / "config.yaml").read_text()
    assert main(flags(root, out, stub, *words, "--encoder-dtype", "float32"), load=load_moody) == 2
