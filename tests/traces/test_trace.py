"""Traces and the log: what is written can be read, and no line of another run counts."""

import json
import math
import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.traces import make
from videopro.errors import RunError
from videopro.question import Answer
from videopro.traces import SCHEMA, Call, Cost, Execution, Redo, Round, Trace, TraceLog, VideoRef, read_traces


def test_reads_what_the_format_says() -> None:
    """A line written by hand, with the least that a trace has and with fields that are not known."""
    line = {
        "schema": 2,
        "run_key": "k",
        "question_id": "q",
        "video": {"path": "p", "key": "v", "unknown": 1},
        "question": "Q?",
        "choices": ["x", "y"],
        "gold": None,
        "mood": "sunny",
        "final": {"letter": "A", "confidence": 1, "letters": {"A": 1}, "raw": "A", "more": []},
    }
    trace = Trace.from_line(json.dumps(line).encode())
    assert (trace.schema, trace.video.duration, trace.choices, trace.error) == (SCHEMA, 0.0, ("x", "y"), None)
    assert trace.final.confidence == 1.0


def test_costs_add_up_when_shared() -> None:
    cost = Cost(3.0, {"decode": 3.0}, 16, 1, 90, 6)
    third = cost.share(3)
    assert third == Cost(1.0, {"decode": 1.0}, 16 / 3, 1 / 3, 30, 2)
    total = third + third + third
    assert (total.seconds, total.stages["decode"], total.frames) == pytest.approx((3.0, 3.0, 16))


def test_a_torn_line_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    whole, torn = make("a").to_line(), make("torn").to_line()
    path.write_bytes(whole + torn[:-1])
    log = TraceLog(path)
    assert [trace.question_id for trace in log.refresh()] == ["a"]
    assert log.torn == 1
    assert path.read_bytes() == whole
    assert log.append(make("torn"))
    assert path.read_bytes() == whole + torn


BAD_LINES = [
    (b"garbage", "line 2 (not JSON"),
    (make("x").to_line().strip().replace(b"12.5", b"1" + b"0" * 308), "too large a number (309 digits)"),
    (make("x").to_line().strip().replace(b'"question_id"', b'"quest"'), "trace.question_id: Field required"),
    (b'{"schema": "1"}', "trace.schema: Input should be a valid integer"),
]


@pytest.mark.parametrize(("line", "why"), BAD_LINES, ids=[why for _, why in BAD_LINES])
def test_a_line_that_is_no_trace_is_set_aside_and_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], line: bytes, why: str
) -> None:
    path = tmp_path / "traces.jsonl"
    whole = make("a").to_line() + line + b"\n" + make("b").to_line()
    path.write_bytes(whole)
    assert [trace.question_id for trace in read_traces(path)] == ["a", "b"]
    said = capfd.readouterr().err
    assert f"{path}: 1 line cannot be read and was set aside: line 2 (" in said
    assert why in said
    # A run goes on: its question is not done, and what is appended is read.
    log = TraceLog(path)
    assert log.append(make("x"))
    assert not log.append(make("b"))
    log.close()
    assert path.read_bytes().startswith(whole)
    assert [trace.question_id for trace in read_traces(path)] == ["a", "b", "x"]


def test_a_trace_that_cannot_be_stored_is_written_as_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="q1"):
        make(final=Answer("A", math.nan, {}, "A")).to_line()
    path = tmp_path / "traces.jsonl"
    log = TraceLog(path)
    huge = Execution("ok", calls=(Call("f", {"n": 10**308}, ""),))
    bad = [
        make("nan", final=Answer("A", math.nan, {}, "A")),
        make("digits", rounds=(Round("plan", "", execution=huge),)),
        make("text", notes=("x" * (65 << 20),)),
    ]
    assert log.append_all([*bad, make("good")]) == 4
    log.close()
    *failed, good = read_traces(path)
    assert good == make("good")
    assert path.stat().st_size < 10_000
    for trace, wrong, why in zip(failed, bad, ("float values", "309 digits", "more than 64"), strict=True):
        assert (trace.question_id, trace.question, trace.gold) == (wrong.question_id, wrong.question, "A")
        assert (trace.final, trace.rounds) == (None, ())
        assert trace.error.type == "UnstorableTrace"
        assert why in trace.error.message


def test_what_is_written_is_what_is_read() -> None:
    """A lone surrogate is read as U+FFFD, so that is written; a pair is one character."""
    line = make(question="a\ud800b\ud83d\ude00", notes=("\U0001f600",)).to_line()
    assert b"\\ud800" not in line
    assert Trace.from_line(line).question == "a\ufffdb\U0001f600"
    assert Trace.from_line(line).notes == ("\U0001f600",)


OWN, OTHER = make("a"), make("b", run_key="other")
ALIEN = [
    # What the file holds, the run's key, the error message.
    ((OWN, OTHER), "abc", "line 2 is of another run (run_key 'other'; this run's is 'abc')"),
    # A file without its config: the first line says whose it is.
    ((OTHER, OWN), None, "line 2 is of another run (run_key 'abc'; this run's is 'other')"),
    ((OWN, OTHER, OTHER, OWN, OTHER), "abc", "lines 2 to 3 and 5 (3 in all) are of another run"),
    ((OWN, OTHER) * 9, "abc", "lines 2, 4, 6, 8, 10 and others (9 in all) are of another run"),
    ((OWN, make("b", schema=SCHEMA + 1)), "abc", "line 2: written by a later version of videopro"),
    ((make("b", schema=10**30, run_key="other"), OWN), "abc", "line 1: written by a later version"),
]


@pytest.mark.parametrize(("some", "key", "message"), ALIEN)
def test_a_line_of_another_run_or_version_is_never_the_runs_own(
    tmp_path: Path, some: Sequence[Trace], key: str | None, message: str
) -> None:
    """Thirty such lines once moved a run's accuracy from 0.41 to 0.84."""
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"".join(trace.to_line() for trace in some))
    before = path.read_bytes()
    with pytest.raises(RunError, match=re.escape(message)):
        read_traces(path, key)
    with closing(TraceLog(path, run_key=key)) as log, pytest.raises(RunError, match=re.escape(message)):
        log.append(make("c", run_key=key or "other"))
    assert path.read_bytes() == before, "nothing written, nothing lost"


def test_a_foreign_line_added_during_a_run_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    log = TraceLog(path, run_key="abc")
    assert log.append(make("a"))
    with path.open("ab") as file:
        file.write(OTHER.to_line())
    with pytest.raises(RunError, match="line 2 is of another run"):
        log.append(make("c"))
    log.close()


def about(question_id: str, video: str, text: str = "") -> Trace:
    return make(question_id, video=VideoRef("v.mp4", "v", video, 12.5, "v.srt", text))


def test_an_answer_about_another_video_or_text_is_not_written(tmp_path: Path) -> None:
    """Whoever answers: a node of a cluster may have another file under the same path."""
    path = tmp_path / "traces.jsonl"
    TraceLog(path).append(about("a", "video", "text"))
    content = path.read_bytes()
    log = TraceLog(path)
    with pytest.raises(RunError, match=r"video of 'v' \(v\.mp4\) changed since question 'a'"):
        log.append_all([about("b", "video", "text"), about("c", "other", "text")])
    with pytest.raises(RunError, match=r"v\.srt of 'v' .* 'a' was answered; 'c' was not written"):
        log.append(about("c", "video", "other"))
    assert path.read_bytes() == content
    # One that could not be opened or was not to be read is no other one; nor is another file of the video.
    assert log.append_all([about("d", ""), about("e", "video")]) == 2
    assert log.append(make("f", video=VideoRef("v.mp4", "v", "video", 12.5, "v.de.srt", "other")))


def test_answers_about_a_changed_video_are_redone_by_any_number_of_commands(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    TraceLog(path).append_all([about("a", "old"), about("b", "old")])
    redo = Redo(changed=frozenset({("a", "old", ""), ("b", "old", "")}))
    first = TraceLog(path, redo=redo)
    first.refresh()
    assert not first.is_done("a")
    assert first.append(about("a", "new"))
    second = TraceLog(path, redo=redo)
    second.refresh()
    assert second.is_done("a")
    assert not second.append(about("a", "new"))
    assert second.append(about("b", "new"))
    assert not first.append(about("b", "new"))
    # The old video is back: the answers about it are not those that count.
    back = TraceLog(path, redo=Redo(changed=frozenset({("a", "new", ""), ("b", "new", "")})))
    back.refresh()
    assert not back.is_done("a")
    assert back.append_all([about("a", "old"), about("b", "old")]) == 2
    assert {trace.video.id for trace in read_traces(path)} == {"old"}
