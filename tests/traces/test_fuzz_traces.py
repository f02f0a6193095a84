"""Fuzz tests of what reads trace lines. Long run: see `tests.support.fuzzing`."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given

from tests.support.fuzzing import FUZZ, json_bytes, mutated
from videopro.errors import ExceptionRecord, RunError
from videopro.question import Answer
from videopro.traces import (
    SCHEMA,
    Call,
    Cost,
    DecidingCalls,
    Execution,
    Failure,
    Preparation,
    Prompt,
    Reasoned,
    Round,
    Segment,
    SetMember,
    Step,
    Trace,
    VideoRef,
    read_traces,
    set_aside_traces,
)
from videopro.traces.record import LaterSchema
from videopro.traces.scoring import GROUP_SEPARATOR

CALL = Call("query_native", {"question": "What?", "n": 1}, "B", ((1.0, 64, 64),), 0.5, True, ((0.0, 1.0),), 3)
EXCEPTION = ExceptionRecord("cv2.error", "cv2/x.py:3", "no size", "Traceback ...")
STEP = Step(
    "reward",
    "llm",
    1,
    "Score these.",
    {"top_k": 1},
    ((1.0, 64, 64),),
    '{"0": 50}',
    {"0": 50},
    ("no",),
    ("there is no JSON",),
    "found",
    (Segment(0.0, 5.0, "0.1", "0", 0.5, "a door"),),
    True,
    True,
    Cost(1.0),
)
EXECUTION = Execution(
    "ok",
    Answer("B", 0.9, {"A": 0.1, "B": 0.9}, "B", 300, 1),
    0.5,
    Failure("ValueError", "no", 2, "log"),
    (CALL,),
    Cost(1.0, {"a": 1}),
    (STEP,),
    (EXCEPTION,),
    reasoned=Reasoned("least", (DecidingCalls((0, 1), 0.9), DecidingCalls((2,), None)), 7, "it is one"),
)
TRACE = Trace(
    rounds=(
        Round(
            "program",
            "<code>",
            "def f(): pass",
            EXECUTION,
            "program",
            ("a",),
            {"fault": "b"},
            Cost(2.0),
            0,
            Prompt("What?", "Write a function.", "0123456789abcdef", "Watch.", "Best: ("),
        ),
    ),
    first=Answer("B", 0.9, {"B": 0.9}, "B"),
    final=Answer("B", 0.9, {"B": 0.9}, "B"),
    selected=0,
    refined=1,
    error=Failure("VideoError", "gone"),
    notes=("note",),
    cost=Cost(1.0, {"decode": 0.5}, 1.0, 2.0, 3.0, 4.0),
    prepared=(Preparation("index", "v/i", Cost(2.0), True),),
    ended_by=EXCEPTION,
    schema=SCHEMA,
    run_key="key",
    question_id="q1",
    video=VideoRef("a.mp4", "a", "id", 10.0, "a.srt"),
    question="What?",
    choices=("red", "blue"),
    gold="B",
    groups={"family": f"count{GROUP_SEPARATOR}order"},
    official="B",
    versions={"videopro": "1"},
    reference="in words",
    evidence=((1.0, 2.0),),
    official_intervals=((1.0, 2.0),),
    member=SetMember("s", 1, 4, (1, 2, 1)),
)
GOOD = json.loads(TRACE.to_line())


def test_an_execution_of_a_version_before_letters_were_reasoned_has_no_reason() -> None:
    line = json.loads(TRACE.to_line())
    del line["rounds"][0]["execution"]["reasoned"]
    (only,) = Trace.from_line(json.dumps(line).encode()).rounds
    assert only.execution == dataclasses.replace(EXECUTION, reasoned=None)


def test_the_trace_that_is_changed_has_every_field() -> None:
    line = TRACE.to_line()
    assert Trace.from_line(line) == TRACE
    assert line.isascii()
    assert line.index(b"\n") == len(line) - 1
    assert all(GOOD[field.name] for field in dataclasses.fields(Trace) if field.name != "selected")


@FUZZ
@given(json_bytes(mutated(GOOD)))
def test_a_line_is_a_trace_or_a_run_error(line: bytes) -> None:
    try:
        trace = Trace.from_line(line)
    except RunError as error:
        message = str(error)
        assert len(message) < 2000
        return
    assert Trace.from_line(trace.to_line()) == trace
    # What every report does.
    assert trace.frames_seen >= 0
    trace.is_right(trace.official)
    assert trace.selected is None or trace.rounds[trace.selected].raw is not None
    sum(trace.cost.stages.values())
    for round in trace.rounds:
        if round.execution is not None:
            assert all(isinstance(p, float) for p in round.execution.answer.letters.values())


@FUZZ
@given(json_bytes(mutated(GOOD)).filter(lambda line: b"\n" not in line))
def test_a_broken_line_of_a_run_is_set_aside(line: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "traces.jsonl"
        path.write_bytes(TRACE.to_line() + line + b"\n")
        why = ""
        try:
            Trace.from_line(line)
        except LaterSchema:
            with pytest.raises(RunError, match=r"traces\.jsonl, line 2"):
                read_traces(path)
        except RunError as error:
            why = str(error)[:200]
        if why:
            set_aside = set_aside_traces(path)
            assert read_traces(path, set_aside=set_aside) == [TRACE]
            assert set_aside.lines == {2: why}
