"""Synthesis as a whole: from questions to datasets, killed at any moment, read back by a plain reader."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from data_synthesis.datasets import Datasets, assemble
from data_synthesis.evaluation import EvaluationVideos
from data_synthesis.run import main
from modules import library as module_library
from modules.memory import CallMemory
from tests.fakes import FakePrefix
from tests.stub_server import Fault, StubServer, completion, text_of
from tests.synthesis_world import (
    BROKEN,
    LIKE_NATIVE,
    NO_FORM,
    NO_MODELS,
    RIGHT,
    MoodyBackbone,
    answered,
    crashed,
    load_moody,
    make_questions,
    native,
    program,
    record,
    teach,
)
from videopro import prompts
from videopro.backbones.base import Answer, ChoiceRequest
from videopro.benchmarks import load
from videopro.program import parse
from videopro.question import Question
from videopro.trace import Trace, VideoRef
from videopro.trace_log import read_traces
from videopro.video import Video

KEY = "sk-very-secret-key"


@pytest.fixture(autouse=True)
def own_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module_library, "_memory", CallMemory())
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("TEACHER_KEY", KEY)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three videos with three questions each: native answers are right, unsure and wrong in turn."""
    folder = tmp_path_factory.mktemp("colours")
    make_questions(folder)
    return folder


def said(text: str) -> dict[str, Any]:
    made = completion(text, None, prompt_tokens=100)
    made["usage"]["completion_tokens"] = 10
    return made


@pytest.fixture
def stub() -> Iterator[StubServer]:
    with StubServer(lambda body: said(teach(text_of(body), body["seed"])), key=KEY) as server:
        yield server


def flags(root: Path, output: Path, stub: StubServer, *more: str) -> list[str]:
    source = ["--source", "jsonl", "--root", str(root), "--model", "m", "--output", str(output)]
    teacher = ["--teacher", f"api:served@{stub.url}", "--api-key-env", "TEACHER_KEY"]
    return [*source, *teacher, *NO_MODELS, *more]


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def datasets(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "sft.jsonl").read_bytes(), (folder / "grpo.jsonl").read_bytes()


# ---- what is made ------------------------------------------------------------------------------------------


def test_from_questions_to_datasets(
    root: Path, tmp_path: Path, stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows of every question follow from what the backbone and the teacher do by construction: native is
    right and sure of question 0, unsure of 1, wrong about 2; programs that look at two frames are right."""
    out = tmp_path / "out"
    assert main(flags(root, out, stub), load=load_moody) == 0
    sft = rows(out, "sft.jsonl")
    records = {trace.question_id: trace for trace in read_traces(out / "records.jsonl")}
    assert len(records) == 9
    found = Counter((row["question_id"], row["kind"]) for row in sft)
    for name, trace in records.items():
        first = [one.raw for one in trace.rounds if one.prompt_kind == "plan_program"]
        assert len(first) == 4
        mood = name[-1]
        expected = Counter({(name, "native"): 1} if mood == "0" else {})
        if (RIGHT in first and mood != "0") or (LIKE_NATIVE in first and mood == "1"):
            expected[name, "program"] = 1
        if mood != "0":
            expected[name, "native_refinement"] = 1
        if BROKEN in first:
            expected[name, "bug_fix"] = 1
        if LIKE_NATIVE in first and mood != "0":
            expected[name, "program_refinement"] = 1
        assert Counter({key: n for key, n in found.items() if key[0] == name}) == expected, name
    assert {"native", "program", "bug_fix", "native_refinement", "program_refinement"} == {
        row["kind"] for row in sft
    }, "the world is too small to show every kind"
    for row in sft:
        target = parse(row["messages"][1]["content"])
        assert target.well_formed
        assert target.mode == row["mode"] == ("native" if row["kind"] == "native" else "program")
        assert (row["source"], row["family"]) == (
            "jsonl",
            "odd" if int(row["question_id"][-1]) % 2 else "even",
        )
    told = capsys.readouterr()
    assert "9 questions, 0 without a result" in told.out
    assert str(out) in told.out


def test_the_datasets_agree_with_what_happened(root: Path, tmp_path: Path, stub: StubServer) -> None:
    """Every SFT target, run again by hand, is right; GRPO rows carry what the native answer was."""
    out = tmp_path / "out"
    assert main(flags(root, out, stub), load=load_moody) == 0
    records = {trace.question_id: trace for trace in read_traces(out / "records.jsonl")}
    for row in rows(out, "grpo.jsonl"):
        trace = records[row["question_id"]]
        question = Question(row["question"], tuple(row["choices"]))
        assert (row["question"], row["choices"], row["answer"]) == (
            *(trace.question, list(trace.choices)),
            trace.gold,
        )
        mood = row["question_id"][-1]
        assert row["native_confidence"] == {"0": 0.9, "1": 0.4, "2": 0.8}[mood]
        assert (row["native_answer"] == row["answer"]) == (mood != "2")
        assert row["oracle_mode"] == ("native" if mood == "0" else "program")
        expected = {
            "plan": lambda q, row: prompts.plan(q, adaptive=True),
            "bug_fix": lambda q, row: prompts.bug_fix(q, row["program"], row["log"]),
            "native_refinement": lambda q, row: prompts.native_refinement(q, prompts.NATIVE_PROGRAM),
            "program_refinement": lambda q, row: prompts.program_refinement(q, row["program"]),
        }[row["kind"]]
        assert row["prompt"] == expected(question, row)
        assert (row["log"] is not None) == (row["kind"] == "bug_fix")
        assert row["subtitles"] is None
    names = [row["id"] for name in ("sft.jsonl", "grpo.jsonl") for row in rows(out, name)]
    assert len(set(rows(out, "sft.jsonl")[0])) == 9
    assert len(names) == len(set(names)) + sum(
        one["id"] in {row["id"] for row in rows(out, "sft.jsonl")} for one in rows(out, "grpo.jsonl")
    )


def test_a_plain_reader_of_the_ms_swift_form_reads_it(root: Path, tmp_path: Path, stub: StubServer) -> None:
    """As ms-swift reads: `messages` with roles, one `<video>` for each file of `videos`, before the text."""
    out = tmp_path / "out"
    assert main(flags(root, out, stub), load=load_moody) == 0
    for row in rows(out, "sft.jsonl"):
        user, assistant = row["messages"]
        assert (user["role"], assistant["role"]) == ("user", "assistant")
        assert set(user) == set(assistant) == {"role", "content"}
        assert user["content"].count("<video>") == len(row["videos"]) == 1
        assert user["content"].startswith("<video>There is" if row["mode"] == "native" else "<video>")
        assert "<video>" not in assistant["content"]
        path = Path(row["videos"][0])
        assert Video.open(path if path.is_absolute() else out / path).duration == pytest.approx(2.0)
        assert "Available functions" not in user["content"], "the short form, as at inference"


def test_videos_below_the_folder_are_named_from_it(tmp_path: Path, stub: StubServer) -> None:
    out = tmp_path / "out"
    make_questions(out / "b", videos=1, questions=1)
    # A folder that holds something else is no synthesis, so the run's own files come first.
    (out / "b").rename(tmp_path / "b")
    assert main(flags(tmp_path / "b", out, stub), load=load_moody) == 0
    (tmp_path / "b").rename(out / "b")
    assert main([*flags(out / "b", tmp_path / "other", stub)], load=load_moody) == 0
    assert rows(tmp_path / "other", "sft.jsonl")[0]["videos"] == [str(out / "b" / "videos" / "v0.mp4")]
    assert main([*flags(out / "b", out / "b" / "synth", stub)], load=load_moody) == 0
    assert Path(rows(out / "b" / "synth", "sft.jsonl")[0]["videos"][0]).is_absolute()


def test_the_teacher_sees_the_question_and_nothing_else(root: Path, tmp_path: Path, stub: StubServer) -> None:
    assert main(flags(root, tmp_path / "out", stub), load=load_moody) == 0
    asked = {item.id: item for item in load("jsonl", root=root).items}
    assert len(stub.chats) > 36
    for body in stub.chats:
        (message,) = body["messages"]
        assert set(message) == {"role", "content"}
        assert isinstance(message["content"], str), "text alone: no frames"
        for secret in (*asked, ".mp4", str(root), '"odd"', '"even"', "native_answer"):
            assert secret not in message["content"], secret
    plans = [text_of(body) for body in stub.chats if "program:\n<code>" not in text_of(body)]
    assert all("Available functions" in text and "Do not call query_native" in text for text in plans)


def test_programs_of_a_question_are_drawn_apart(root: Path, tmp_path: Path, stub: StubServer) -> None:
    assert main(flags(root, tmp_path / "out", stub, "--programs", "6"), load=load_moody) == 0
    seeds: dict[str, list[int]] = {}
    for body in stub.chats:
        if "program:\n<code>" not in text_of(body):
            seeds.setdefault(text_of(body), []).append(body["seed"])
    assert [len(set(own)) for own in seeds.values()] == [6] * 9


def test_right_letters_are_balanced(tmp_path: Path, stub: StubServer) -> None:
    make_questions(tmp_path / "b", videos=4, questions=4)
    assert main(flags(tmp_path / "b", tmp_path / "out", stub, "--programs", "1"), load=load_moody) == 0
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["questions"]["right letters"] == {"A": 4, "B": 4, "C": 4, "D": 4}
    assert card["grpo"]["right letters"] == {"A": 4, "B": 4, "C": 4, "D": 4}


# ---- the card ----------------------------------------------------------------------------------------------


def test_the_card_counts_what_is_there(root: Path, tmp_path: Path, stub: StubServer) -> None:
    out = tmp_path / "out"
    prices = ("--price-in", "2.5", "--price-out", "10")
    assert main(flags(root, out, stub, *prices, "--without-family", "odd"), load=load_moody) == 0
    card, sft = json.loads((out / "card.json").read_text()), rows(out, "sft.jsonl")
    assert card["sft"]["rows"] == len(sft)
    assert card["sft"]["by kind"] == dict(sorted(Counter(row["kind"] for row in sft).items()))
    assert card["sft"]["by mode"] == dict(sorted(Counter(row["mode"] for row in sft).items()))
    assert list(card["sft"]["by family and kind"]) == ["even"]
    assert card["questions"]["not asked"] == {"family odd held out": 3}
    assert card["native"] == {
        "right and confident": 3,
        "right and unsure": 0,
        "wrong and confident": 3,
        "wrong and unsure": 0,
        "no letter": 0,
    }
    first = [
        one
        for trace in read_traces(out / "records.jsonl")
        for one in trace.rounds
        if one.prompt_kind == "plan_program"
    ]
    texts = Counter(one.raw for one in first)
    assert card["programs"]["first"]["replies"] == 24
    assert card["programs"]["first"]["failure classes"] == {"NameError": texts[BROKEN]}
    assert card["programs"]["first"]["no program"] == texts[NO_FORM]
    assert card["programs"]["first"]["not well-formed"] == texts[NO_FORM]
    requests = len(stub.chats)
    assert card["teacher"]["requests"] == requests
    assert card["teacher"]["cost"] == pytest.approx(requests * (100 * 2.5 + 10 * 10) / 1e6, abs=1e-4)
    assert card["about"]["teacher"]["model"] == "served"
    text = (out / "CARD.md").read_text()
    assert "held out" in text
    for path in (out / "card.json", out / "CARD.md"):
        for secret in (str(tmp_path), str(root), KEY, "127.0.0.1"):
            assert secret not in path.read_text()


def test_the_key_is_in_no_file(root: Path, tmp_path: Path, stub: StubServer) -> None:
    assert main(flags(root, tmp_path / "out", stub), load=load_moody) == 0
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(files) > 6
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


# ---- going on ----------------------------------------------------------------------------------------------


def start(root: Path, output: Path, stub: StubServer, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.synthesis_world", *flags(root, output, stub, *more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # Whoever starts the tests in the background has Ctrl-C ignored, and so would the command.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 300
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)


def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(
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


def _slow(reply: dict[str, Any]) -> Fault:
    return Fault(200, reply, delay=0.05)


def test_an_interrupted_command_says_so_and_goes_on(root: Path, tmp_path: Path, stub: StubServer) -> None:
    stub.reply = lambda body: _slow(said(RIGHT))
    process = start(root, tmp_path / "out", stub, "--concurrency", "1")
    replies = tmp_path / "out" / "work" / "replies.jsonl"
    wait_for(lambda: replies.exists() and replies.read_bytes().count(b"\n") >= 2, process)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=300)
    assert process.returncode == 130
    assert b"the same command goes on" in error


def test_a_cap_ends_a_command_and_a_larger_one_goes_on(
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
        sum(one.prompt_kind == "plan_program" for one in trace.rounds) == 4
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


def test_how_many_go_side_by_side_changes_nothing(root: Path, tmp_path: Path, stub: StubServer) -> None:
    made = []
    for number, more in enumerate((("1", "1", "1"), ("8", "4", "3"))):
        out = tmp_path / str(number)
        concurrency, together, videos = more
        sizes = ("--concurrency", concurrency, "--together", together, "--videos", videos)
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


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("--tau", "0.5"), "synthesis.tau: the run has 0.75, this command 0.5"),
        (("--programs", "2"), "synthesis.programs: the run has 4, this command 2"),
        (("--seed", "1"), "synthesis.seed: the run has 0, this command 1"),
        (("--temperature", "0.2"), "teacher.temperature: the run has 0.7, this command 0.2"),
        (("--backbone", "salt=x"), "model.salt: the run has '', this command 'x'"),
    ],
)
def test_another_synthesis_is_refused(
    root: Path,
    tmp_path: Path,
    stub: StubServer,
    capsys: pytest.CaptureFixture[str],
    change: tuple[str, ...],
    told: str,
) -> None:
    out = tmp_path / "out"
    assert main(flags(root, out, stub, "--limit", "1"), load=load_moody) == 0
    before = datasets(out)
    assert main(flags(root, out, stub, *change), load=load_moody) == 2
    assert told in capsys.readouterr().err
    assert datasets(out) == before


def test_what_a_trainer_would_take_for_media_stays_out(tmp_path: Path) -> None:
    """A placeholder in a question, a program or a log would shift which video belongs where."""
    clean = record(
        native("A", 0.9), program(crashed()), program(answered("A", 0.9), 7, kind="bug_fix", refines=1)
    )
    made = assembled(tmp_path, clean)
    assert [row["kind"] for row in made.sft] == ["native", "bug_fix"]
    assert [row["kind"] for row in made.grpo] == ["plan", "bug_fix"]
    for tag in ("<video>", "<image>", "<|im_end|>"):
        asked = assembled(tmp_path, replace(clean, question=f"What does {tag} mean?"))
        assert (asked.sft, asked.grpo) == ([], [])
        assert asked.rejected == {"question: holds a media placeholder or a control token": 1}
        logged = replace(clean, rounds=(clean.rounds[0], program(crashed(f"Bad: {tag}")), clean.rounds[2]))
        made = assembled(tmp_path, logged)
        assert [row["kind"] for row in made.sft] == ["native"]
        assert [row["kind"] for row in made.grpo] == ["plan"]
        assert made.rejected == {"bug_fix: holds a media placeholder or a control token": 1}


def test_the_same_example_in_two_questions_is_written_once(tmp_path: Path) -> None:
    """The same words about the same video: once; about another video: twice."""
    first = record(native("A", 0.9))
    twin, other = (
        replace(first, question_id="q2"),
        replace(first, question_id="q3", video=VideoRef("/videos/w.mp4", "w", "other content", 60.0)),
    )
    made = assembled(tmp_path, other, twin, first)
    assert [row["question_id"] for row in made.sft] == ["q1", "q3"]
    assert made.rejected == {"native: the same example in another question": 1}


def assembled(folder: Path, *traces: Trace) -> Datasets:
    return assemble(traces, tau=0.75, source="s", folder=folder, known=EvaluationVideos(), seeds={})


# ---- what goes wrong ---------------------------------------------------------------------------------------


def test_a_broken_video_is_recorded_and_can_be_mended(tmp_path: Path, stub: StubServer) -> None:
    b, out = tmp_path / "b", tmp_path / "out"
    make_questions(b, videos=2, questions=1)
    whole = (b / "videos" / "v0.mp4").read_bytes()
    (b / "videos" / "v0.mp4").write_bytes(b"no video" * 100)
    assert main(flags(b, out, stub), load=load_moody) == 0
    card = json.loads((out / "card.json").read_text())
    assert card["questions"]["without a result"] == {"VideoError": 1}
    assert card["rejected"]["question: VideoError"] == 1
    assert {row["question_id"] for row in rows(out, "sft.jsonl")} == {"v1q0"}
    (b / "videos" / "v0.mp4").write_bytes(whole)
    assert main(flags(b, out, stub, "--redo-errors"), load=load_moody) == 0
    assert {row["question_id"] for row in rows(out, "grpo.jsonl")} == {"v0q0", "v1q0"}


def test_a_teacher_that_dies_leaves_what_was_done(
    root: Path, tmp_path: Path, stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert main(flags(root, whole, stub), load=load_moody) == 0
    needed = len(stub.chats)
    stub.seen.clear()
    usual = stub.reply
    stub.reply = lambda body: Fault(401, {}) if len(stub.chats) > 25 else usual(body)
    assert main(flags(root, out, stub, "--videos", "1"), load=load_moody) == 2
    error = capsys.readouterr().err
    assert "refused the key in the environment variable TEACHER_KEY" in error
    assert KEY not in error
    assert rows(out, "records.jsonl")
    stub.reply = usual
    asked = len(stub.chats)
    assert main(flags(root, out, stub), load=load_moody) == 0
    assert datasets(out) == datasets(whole)
    assert len(stub.chats) - asked == needed - 25, "what was answered before is not asked again"


def test_questions_that_the_teacher_refuses_are_counted_and_can_be_asked_again(
    tmp_path: Path, stub: StubServer
) -> None:
    b, out = tmp_path / "b", tmp_path / "out"
    make_questions(b, videos=1, questions=2)
    usual = stub.reply

    def picky(body: dict[str, Any]) -> Any:
        return Fault(400, {"error": {"message": "too long"}}) if "(1)" in text_of(body) else usual(body)

    stub.reply = picky
    assert main(flags(b, out, stub), load=load_moody) == 0
    card = json.loads((out / "card.json").read_text())
    assert card["questions"]["without a result"] == {"BackboneError": 1}
    assert card["teacher"]["refused"] >= 4
    stub.reply = usual
    assert main(flags(b, out, stub, "--redo-errors"), load=load_moody) == 0
    assert {row["question_id"] for row in rows(out, "grpo.jsonl")} == {"v0q0", "v0q1"}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--teacher", "self"), "a model does not teach itself"),
        (("--teacher", "api:m@https://user:key@host/v1"), "--api-key-env"),
        (("--teacher", "api:m@https://host/v1?key=1"), "--api-key-env"),
        (("--programs", "0"), "programs is 0"),
        (("--tau", "1.5"), "tau is 1.5"),
        (("--max-cost", "3"), "--price-in and --price-out"),
        (("--price-in", "3"), "give both"),
        (("--limit", "0"), "limit is 0"),
        (("--without-family", "evne"), "did you mean 'even'"),
        (("--evaluation", "maybe"), "must be one of refuse, skip"),
        (("--souce", "x"), "did you mean '--source'"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    root: Path,
    tmp_path: Path,
    stub: StubServer,
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    told: str,
) -> None:
    assert main(flags(root, tmp_path / "out", stub, *more), load=load_moody) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert stub.chats == []


def test_a_folder_of_something_else_is_refused(
    root: Path, tmp_path: Path, stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    assert main(flags(root, out, stub), load=load_moody) == 2
    assert "holds 'thesis.txt'" in capsys.readouterr().err
    (out / "thesis.txt").unlink()
    (out / "config.yaml").write_text(yaml.safe_dump({"identity": {"method": "native"}}))
    assert main(flags(root, out, stub, "--assemble-only"), load=load_moody) == 2


# ---- the pocket world --------------------------------------------------------------------------------------


class Guesser(MoodyBackbone):
    """Guesses by the pixels and the question, the same every time; how sure it is, too."""

    def _answer(self, request: ChoiceRequest) -> Answer:
        import hashlib

        frames = request.visual.frames if isinstance(request.visual, FakePrefix) else request.visual or ()
        digest = hashlib.sha256(request.question.text.encode())
        for frame in frames:
            digest.update(frame.image.tobytes())
        draw = digest.digest()
        letter = request.question.letters[draw[0] % len(request.question.letters)]
        sure = 0.5 + draw[1] / 512
        letters = {one: sure if one == letter else 0.01 for one in request.question.letters}
        return Answer(letter, sure, letters, letter, 100, 1)


def test_the_pocket_world_end_to_end(tmp_path: Path) -> None:
    """Real videos, the offline teacher and a guessing backbone: every prompt and row keeps its form."""
    out = tmp_path / "out"
    args = ["--source", "pocket", "--teacher", "pocket-teacher", "--model", "m", "--output", str(out)]
    args += [*NO_MODELS, "--limit", "11", "--without-family", "sign"]

    def guesser(model: str, **settings: Any) -> Guesser:
        return Guesser(model)

    assert main(args, load=guesser) == 0
    card = json.loads((out / "card.json").read_text())
    assert card["questions"]["recorded"] == 11
    assert card["about"]["source"] == "pocket/train"
    assert card["questions"]["not asked"] == {"family sign held out": 180}
    assert card["teacher"]["requests"] == 0
    assert "sign" not in card["grpo"]["by family and kind"]
    assert sum(card["programs"]["first"]["teacher's faults"].values()) == 44
    sft, grpo = rows(out, "sft.jsonl"), rows(out, "grpo.jsonl")
    assert sft
    assert sum(row["kind"] == "plan" for row in grpo) == 11
    for row in sft:
        assert parse(row["messages"][1]["content"]).well_formed
        assert row["length"] in ("short", "medium", "long")
        assert row["source"] == "pocket/train"
    assert all(Path(row["subtitles"]).exists() and Path(row["video"]).exists() for row in grpo)
    before = datasets(out)
    assert main(args, load=guesser) == 0
    assert datasets(out) == before
