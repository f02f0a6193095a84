"""Synthesis that stops and resumes: killed, interrupted, capped, enlarged or assembled again, it makes the
same datasets; another synthesis cannot resume it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import make_benchmark, make_video
from tests.support.stub_server import StubFault, StubServer, text_of
from tests.support.synthesis_runs import datasets, flags, rows, said
from tests.support.synthesis_runs import own_world as own_world
from tests.support.synthesis_runs import root as root
from tests.support.synthesis_runs import stub as stub
from tests.support.synthesis_world import RIGHT, load_moody, teach
from videopro.data_synthesis.run import main
from videopro.traces import read_traces
from videopro.video import content_id


def start(root: Path, output: Path, stub: StubServer, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.synthesis_world", *flags(root, output, stub, *more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # Tests started in the background have Ctrl-C ignored, and so would the command.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 300
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)


def test_another_film_is_refused_or_asked_about_again(
    tmp_path: Path, stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    root, out = tmp_path / "b", tmp_path / "out"
    make_benchmark(root, videos=2, questions=2)
    film = root / "videos" / "v0.mp4"
    assert main(flags(root, out, stub, "--ids", "v0q0", "v1q0"), load=load_moody) == 0
    make_video(film, "blue")
    assert main(flags(root, out, stub), load=load_moody) == 2
    assert f"{film}: another one when these were answered: v0q0" in capsys.readouterr().err
    assert main(flags(root, out, stub, "--redo-changed"), load=load_moody) == 0
    records = [(row["question_id"], row["video"]["id"]) for row in rows(out, "records.jsonl")]
    assert [name for name, _ in records].count("v0q0") == 2
    assert {seen for name, seen in records[2:] if name.startswith("v0")} == {content_id(film)}


@pytest.mark.kills
def test_killed_at_any_moment_it_resumes_to_the_same_bytes(
    root: Path, tmp_path: Path, stub: StubServer
) -> None:
    """Killed among the teacher's replies, and again after a few records: no reply that was kept is asked for
    twice, and the datasets are those of an uninterrupted run."""
    whole = tmp_path / "whole"
    assert main(flags(root, whole, stub), load=load_moody) == 0
    needed = len(stub.chats)
    stub.seen.clear()

    out = tmp_path / "out"
    stub.reply = lambda body: _slow(said(teach(text_of(body), body["seed"])))
    replies, records = out / "work" / "replies.jsonl", out / "records.jsonl"

    def count(path: Path) -> int:
        return path.read_bytes().count(b"\n") if path.exists() else 0

    more = ("--concurrency", "2", "--videos", "1")
    for reached in (lambda: count(replies) >= 5, lambda: count(records) >= 3):
        process = start(root, out, stub, *more)
        wait_for(reached, process)
        assert process.poll() is None, process.communicate()[1].decode()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.communicate()
        assert not (out / "sft.jsonl").exists()
    kept = count(replies)
    with replies.open("ab") as file:
        file.write(b'{"key": "torn')
    with records.open("ab") as file:
        file.write(b'{"schema": 2, "torn')
    assert main(flags(root, out, stub), load=load_moody) == 0
    assert datasets(out) == datasets(whole)
    # At most the two in flight at each kill were asked for again.
    assert needed <= len(stub.chats) <= needed + 4
    assert count(replies) == needed
    assert kept < needed


def _slow(reply: dict[str, Any]) -> StubFault:
    return StubFault(200, reply, delay=0.05)


@pytest.mark.kills
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_says_so_and_resumes(
    root: Path, tmp_path: Path, stub: StubServer, number: signal.Signals
) -> None:
    stub.reply = lambda body: _slow(said(RIGHT))
    process = start(root, tmp_path / "out", stub, "--concurrency", "1")
    replies = tmp_path / "out" / "work" / "replies.jsonl"
    wait_for(lambda: replies.exists() and replies.read_bytes().count(b"\n") >= 2, process)
    process.send_signal(number)
    _, error = process.communicate(timeout=300)
    assert process.returncode == 128 + number
    assert b"re-run the same command to resume" in error
    assert b"Traceback" not in error


def test_a_cap_ends_a_command_and_a_larger_one_resumes_it(
    root: Path, tmp_path: Path, stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert main(flags(root, whole, stub), load=load_moody) == 0
    needed = len(stub.chats)
    stub.seen.clear()
    capsys.readouterr()
    assert main(flags(root, out, stub, "--max-requests", "20", "--videos", "1"), load=load_moody) == 0
    assert len(stub.chats) == 20
    error = capsys.readouterr().err
    assert "questions are still open: a cap was reached" in error
    assert 0 < len(rows(out, "records.jsonl")) < 9
    # Each record is whole: no question lacks a program because of the cap.
    assert all(
        sum(round_.prompt_kind == "plan_program" for round_ in trace.rounds) == 4
        for trace in read_traces(out / "records.jsonl")
    )
    assert main(flags(root, out, stub, "--max-requests", "1000"), load=load_moody) == 0
    assert len(stub.chats) == needed
    assert datasets(out) == datasets(whole)


def test_a_larger_limit_only_adds(root: Path, tmp_path: Path, stub: StubServer) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    assert main(flags(root, out, stub, "--limit", "4"), load=load_moody) == 0
    first = {row["id"]: row for row in rows(out, "sft.jsonl")}
    assert len(rows(out, "records.jsonl")) == 4
    assert main(flags(root, out, stub), load=load_moody) == 0
    assert main(flags(root, whole, stub), load=load_moody) == 0
    assert datasets(out) == datasets(whole)
    after = {row["id"]: row for row in rows(out, "sft.jsonl")}
    assert {name: after[name] for name in first} == first


def test_concurrency_does_not_change_the_datasets(root: Path, tmp_path: Path, stub: StubServer) -> None:
    made = []
    for number, more in enumerate((("1", "1"), ("8", "3"))):
        out = tmp_path / str(number)
        concurrency, videos = more
        sizes = ("--concurrency", concurrency, "--videos", videos)
        assert main(flags(root, out, stub, *sizes), load=load_moody) == 0
        made.append(datasets(out))
    assert made[0] == made[1]
    assert stub.peak > 1


def test_assembling_again_asks_and_changes_nothing(root: Path, tmp_path: Path, stub: StubServer) -> None:
    out = tmp_path / "out"
    assert main(flags(root, out, stub), load=load_moody) == 0
    before, card, asked = datasets(out), (out / "card.json").read_bytes(), len(stub.chats)
    (out / "sft.jsonl").unlink()

    def no_load(model: str, **settings: Any) -> Any:
        raise AssertionError("nothing is to be loaded")

    again = ["--config", str(out / "config.yaml"), "--assemble-only"]
    assert main(again, load=no_load) == 0
    assert (datasets(out), (out / "card.json").read_bytes(), len(stub.chats)) == (before, card, asked)


FINISHED, ENLARGED = ("--limit", "1"), ()


@pytest.mark.parametrize(
    ("asked", "change", "expected"),
    [
        (ENLARGED, ("--tau", "0.5"), "synthesis.tau: the run has 0.75, this command 0.5"),
        (ENLARGED, ("--programs", "2"), "synthesis.programs: the run has 4, this command 2"),
        (ENLARGED, ("--seed", "1"), "synthesis.seed: the run has 0, this command 1"),
        (ENLARGED, ("--temperature", "0.2"), "teacher.temperature: the run has 0.7, this command 0.2"),
        (ENLARGED, ("--backbone", "salt=x"), "model.salt: the run has '', this command 'x'"),
        (FINISHED, ("--teacher", "api:other@http://127.0.0.1:9/v1"), "teacher: the run has 'api:served@"),
        (FINISHED, ("--temperature", "0.2"), "temperature: the run has 0.7, this command 0.2"),
        (FINISHED, ("--model", "other"), "model.model: the run has 'm', this command 'other'"),
        (FINISHED, ("--backbone", "salt=x"), "model.salt: the run has '', this command 'x'"),
        (FINISHED, ("--ocr", "rapidocr"), "ocr: the run has 'none', this command 'rapidocr'"),
    ],
)
def test_another_synthesis_is_refused(
    root: Path,
    tmp_path: Path,
    stub: StubServer,
    capsys: pytest.CaptureFixture[str],
    asked: tuple[str, ...],
    change: tuple[str, ...],
    expected: str,
) -> None:
    """Also with nothing left to ask, when nothing is loaded."""
    out = tmp_path / "out"
    assert main(flags(root, out, stub, *FINISHED), load=load_moody) == 0
    before = datasets(out)
    assert main(flags(root, out, stub, *asked, *change), load=load_moody) == 2
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
