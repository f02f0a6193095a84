"""What a program that watches is told: events in order, and the evidence of the answer that counts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support import agent_traces as agents
from tests.support import scenes
from tests.support import view_world as world
from videopro.errors import Cancellation, Cancelled, cancellable
from videopro.methods import EventObserver, last_event, with_controls
from videopro.question import Answer, Question
from videopro.traces import (
    Call,
    Control,
    Cost,
    DecidingCalls,
    Execution,
    Failure,
    Reasoned,
    Result,
    Round,
    Segment,
    Step,
    VideoRef,
    evidence,
)

VIDEO = VideoRef("numbers.mp4", "numbers.mp4", "", world.SECONDS)
QUESTION = Question("What flies over the hill?", world.CHOICES)


def events_of(result: Result) -> list[dict[str, Any]]:
    """The events of a question that went as its result says."""
    events: list[dict[str, Any]] = []
    observer = EventObserver(events.append)
    for round in result.rounds:
        execution: Any = round.execution
        if round.program is not None:
            observer.on_wait("planning")
            observer.on_reply(replace(round, execution=None))
        for call in execution.calls:
            observer.on_call(call)
        for step in execution.steps:
            observer.on_step(step)
        if round.program is not None:
            observer.on_execution(execution)
    # As a line of JSON holds it.
    assert json.loads(json.dumps(events, allow_nan=False)) == events
    return events


def test_a_refined_question_is_told_round_by_round() -> None:
    events = events_of(world.refined(VIDEO))
    shown = [
        (event["type"], event.get("round"), *(event[key] for key in ("number", "name") if key in event))
        for event in events
    ]
    first = ("get_informative_clips", "extract_frames", "query_mc")
    second = (*first[:2], *["detect_object"] * 4, "crop", "get_informative_subtitles", "query_mc")
    assert shown == [
        event
        for round, calls in enumerate((first, second))
        for event in (
            ("wait", None),
            ("reply", round),
            *(("call", round, number, name) for number, name in enumerate(calls, 1)),
            ("execution", round),
        )
    ]
    reply = {"type": "reply", "round": 0, "kind": "plan", "planning": "Look for the kite.", "seconds": 0.0}
    assert events[1] == {**reply, "program": world.FIRST, "faults": []}
    assert events[4]["frames"] == [{"time": time, "box": None} for time in (2.0, 2.25, 2.5, 2.75)]
    assert events[16]["frames"] == [{"time": 2.25, "box": [0.25, 0.25, 0.75, 0.75]}]
    found = {"result": "([(2, 3)], [Clip(2.0-3.0 s)])", "intervals": [[2.0, 3.0]], "frames": []}
    called = {"type": "call", "round": 1, "number": 1, "name": "get_informative_clips", "line": 2}
    assert events[8] | {"arguments": 0} == {**called, **found, "arguments": 0, "seconds": 0.1, "cached": True}
    assert (events[5]["status"], events[5]["letter"], events[5]["confidence"]) == ("ok", "B", 0.4)


def test_a_reply_that_is_not_well_formed_is_told_as_it_is_and_a_failed_program_with_its_line() -> None:
    events: list[dict[str, Any]] = []
    round = replace(world.refined(VIDEO).rounds[0], raw="no tags", program=None, faults=("no code",))
    observer = EventObserver(events.append)
    observer.on_reply(round)
    observer.on_execution(Execution("failed", error=Failure("ZeroDivisionError", "division by zero", 2)))
    # The direct answer in its place is a round of its own.
    observer.on_call(Call("query_native", {}, "Answer('A', confidence 0.9)"))
    assert (events[0]["raw"], events[0]["program"], events[0]["faults"]) == ("no tags", None, ["no code"])
    assert events[1]["error"] == {"type": "ZeroDivisionError", "message": "division by zero", "line": 2}
    assert (events[2]["round"], events[2]["number"]) == (1, 1)


def test_steps_of_an_agent_are_numbered_on() -> None:
    result = agents.videoagent(VIDEO)
    events = events_of(result)
    assert [event["number"] for event in events] == list(range(1, len(result.steps) + 1))
    assert [event["kind"] for event in events] == [step.kind for step in result.steps]
    assert [event["agent_round"] for event in events] == [step.round for step in result.steps]


def test_the_evidence_is_that_of_the_round_that_counts() -> None:
    pieces = evidence(world.refined(VIDEO), size=(128, 64))
    # Of the second round: the box was seen in a whole frame, of 128 x 64 pixels, and nothing in three others.
    # The answer was given by a call that looked at 2.25 s, so it cites what was found there.
    nothing = {"time": None, "box": None, "text": None, "round": 1, "cited": True}
    frame = {"start": 2.25, "end": 2.25, "time": 2.25, "box": [0.25, 0.25, 0.75, 0.75]}
    frame |= {"round": 1, "cited": True}
    assert pieces == [
        {**nothing, "kind": "interval", "start": 2.0, "end": 3.0, "source": "call 1 get_informative_clips"},
        {**frame, "kind": "box", "text": "kite (0.81)", "source": "call 4 detect_object"},
        {
            **nothing,
            "kind": "subtitle",
            "start": 2.0,
            "end": 3.0,
            "text": "See the kite fly.",
            "source": "call 8 get_informative_subtitles",
        },
        {**frame, "kind": "frames", "text": "A", "times": [2.25], "source": "call 9 query_mc"},
    ]


LINES = "[Line(3.0-4.0 s, 'The gate opens.'), Line(5.0-6.0 s, 'It rains.'), Line(8.0-9.0 s, 'A dog.')]"


def in_one_round(*calls: Call, **changed: Any) -> Result:
    """A result whose only round has these calls."""
    result = world.refined(VIDEO)
    answer = Answer("A", 0.9, {}, "A")
    execution = Execution(**{"status": "ok", "answer": answer, "calls": calls, **changed})
    return replace(result, rounds=(replace(result.rounds[0], execution=execution),), selected=0)


def cited(result: Result) -> list[tuple[str, float | None]]:
    return [(piece["source"], piece["start"]) for piece in evidence(result) if piece["cited"]]


def test_an_answer_cites_what_decided_it() -> None:
    calls = (
        Call("get_informative_clips", {}, "[(2, 4)]", intervals=((2.0, 4.0), (30.0, 40.0)), line=1),
        Call("get_informative_subtitles", {}, LINES, line=2),
        Call("query_mc", {}, "Answer('A', confidence 0.400)", ((35.0, 64.0, 128.0),), line=3),
        Call(
            "query_mc",
            {"context": "It rains."},
            "Answer('A', confidence 0.900)",
            ((3.5, 64.0, 128.0),),
            line=4,
        ),
        Call("query_yn", {}, "Answer('Yes', confidence 0.900)", ((38.0, 64.0, 128.0),), line=5),
    )
    # The last call that gave the letter, the clip and the line at its frame, and the line that it was shown.
    read = [("call 2 get_informative_subtitles", 3.0), ("call 2 get_informative_subtitles", 5.0)]
    assert cited(in_one_round(*calls)) == [
        ("call 1 get_informative_clips", 2.0),
        *read,
        ("call 4 query_mc", 3.5),
    ]
    # A replay found that the first and the last question decided it.
    decided = Reasoned("least", (DecidingCalls((2,), 0.4), DecidingCalls((4,), 0.9)))
    assert cited(in_one_round(*calls, reasoned=decided)) == [
        ("call 1 get_informative_clips", 30.0),
        ("call 3 query_mc", 35.0),
        ("call 5 query_yn", 38.0),
    ]
    assert cited(in_one_round(*calls, reasoned=Reasoned("least", why_guess="no call"))) == []
    direct = Call("answer", {}, "A", ((1.0, 64.0, 128.0), (50.0, 64.0, 128.0)))
    assert cited(in_one_round(direct)) == [("call 1 answer", 1.0), ("call 1 answer", 50.0)]


@pytest.mark.parametrize(
    "call",
    [
        Call("get_subtitle_hints", {}, repr(f"They say: {LINES}")),
        Call("run_ocr", {}, repr("[Box(0, 0, 9, 9, 'gold', score 1.0)]")),
        Call("query_mc", {}, f"ArgumentError: query_mc(): choices must be texts, not {LINES}"),
        Call("make_result", {"raw_output": LINES}, "Answer('A', confidence 1.000)"),
        Call("get_informative_clips", {}, "UnavailableError: no clips at [(900, 910)]"),
    ],
    ids=["told", "read", "a refused call", "a claim", "a failed search"],
)
def test_nothing_unobserved_can_be_cited(call: Call) -> None:
    """Texts that name times, lines and boxes which no module returned."""
    pieces = evidence(in_one_round(replace(call, line=1), replace(call, line=2)))
    assert [piece for piece in pieces if piece["kind"] != "text" or piece["start"] is not None] == []
    assert [piece for piece in pieces if piece["cited"]] == []


LOOK: Any = ((3.0, 64.0, 128.0),)


@pytest.mark.parametrize(
    ("steps", "changed", "expected"),
    [
        ([Step("search", "llm", segments=(Segment(900.0, 910.0),))], {}, []),
        # Of a range that a model asked for, it was shown one frame.
        ([Step("inspect", "vqa", frames=LOOK, segments=(Segment(0.0, 9e9),))], {}, [("step 1 inspect", 3.0)]),
        ([Step("clip_search", result="error: no clips at 900-910 s")], {}, []),
        ([Step("answer", "llm", frames=LOOK)], {"status": "empty", "answer": Answer(raw="900 s")}, []),
        ([Step("inspect", "vqa", frames=LOOK), Step("answer", "llm", raw="900 s")], {"cites": (1, 7)}, []),
    ],
    ids=["named by a model", "a range", "a failed search", "an unparsed reply", "steps that do not exist"],
)
def test_no_step_of_an_agent_cites_what_it_did_not_observe(
    steps: list[Step], changed: dict[str, Any], expected: list[tuple[str, float]]
) -> None:
    assert cited(in_one_round(steps=tuple(steps), **changed)) == expected


GATE, CROP = "[Box(0, 0, 32, 64, 'gate', score 0.50)]", (2.0, 32.0, 32.0, 0.5, 0.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("call", "kind", "text", "box"),
    [
        (Call("run_ocr", {}, "'GATE 4'", ((2.0, 64.0, 128.0),)), "text", "GATE 4", None),
        # In pixels of a crop, which is the right half of a video of 128 x 64.
        (Call("detect_object", {}, GATE, (CROP,)), "box", "gate (0.50)", [0.5, 0.0, 0.75, 1.0]),
    ],
    ids=["read", "in a crop"],
)
def test_what_a_call_found_in_one_frame(call: Call, kind: str, text: str, box: list[float] | None) -> None:
    (piece,) = evidence(in_one_round(call), (128, 64))
    assert (piece["kind"], piece["text"], piece["box"], piece["time"]) == (kind, text, box, 2.0)


def test_frames_far_apart_are_moments_and_frames_close_together_a_stretch() -> None:
    frames = [*((float(time), 64.0, 128.0) for time in (10, 11, 14, 100)), (200.0, *CROP[1:])]

    def pieces(frames: list[Any]) -> list[dict[str, Any]]:
        return evidence(
            in_one_round(Call("query_native", {}, "Answer('a kite', confidence 0.9)", tuple(frames)))
        )

    shown = [[each[key] for key in ("start", "end", "time", "times", "text")] for each in pieces(frames)]
    # What was said of all is told once.
    assert shown == [
        [10.0, 14.0, None, [10.0, 11.0, 14.0], "a kite"],
        [100.0, 100.0, 100.0, [100.0], None],
        [200.0, 200.0, 200.0, [200.0], None],
    ]
    assert [each["box"] for each in pieces(frames)] == [None, None, [0.5, 0.0, 1.0, 1.0]]
    # Of 18 moments, the middle one of each of six groups of three.
    many = pieces([(10.0 * number, 64.0, 128.0) for number in range(18)])
    assert [each["time"] for each in many] == [10.0, 40.0, 70.0, 100.0, 130.0, 160.0]


def test_an_agents_evidence_names_its_steps_and_a_failed_question_has_none() -> None:
    result = agents.videoagent(VIDEO)
    shown = [(number, step) for number, step in enumerate(result.steps, 1) if step.segments or step.frames]
    sources = {piece["source"] for piece in evidence(result)}
    assert sources == {f"step {number} {step.kind}" for number, step in shown}
    assert evidence(agents.failed(VIDEO)) == []


MIDDLES = [2.5 + 5 * part for part in range(12)]


@pytest.mark.parametrize(
    ("kind", "looked", "without", "alone"),
    [
        # One frame is in red, from 10 to 20 s; most of what is left is grey, the fourth option.
        ("agent", [12.0, 14.0], ([time for time in MIDDLES if not 9 <= time <= 17], "D"), [[12.0, 14.0]]),
        # Without a frame it says nothing.
        ("native", MIDDLES, ([], None), []),
    ],
)
def test_a_question_is_asked_again_without_what_its_answer_cites_and_with_that_alone(
    kind: str, looked: list[float], without: tuple[list[float], str | None], alone: list[list[float]]
) -> None:
    frames = tuple((time, 48.0, 64.0) for time in looked)
    execution = Execution("ok", Answer("B", 0.9, {}, "B"), calls=(Call("answer", {}, "B", frames),))
    if kind == "agent":
        execution = replace(execution, calls=(), steps=(Step("look", frames=frames),))
    answer = Result((Round(kind, "B", execution=execution),), execution.answer, selected=0)
    backbone = scenes.SceneBackbone()
    result = with_controls(answer, scenes.item(), scenes.context(backbone))
    times, letter = without
    assert [[round(frame.time, 1) for frame in frames] for frames in backbone.shown] == [times, *alone]
    changed = replace(execution, controls={"without": Control(letter), "alone": Control("B")})
    assert result == replace(answer, rounds=(replace(answer.rounds[0], execution=changed),))


def test_the_answer_is_told_with_its_choice_and_cost_and_an_error_in_its_place() -> None:
    result = replace(world.refined(VIDEO), cost=Cost(3.14159, {}, 8, 2, 600, 40), notes=("no subtitles",))
    assert last_event(result, QUESTION) == {
        "type": "answer",
        "letter": "A",
        "choice": "a red kite",
        "text": "A",
        "confidence": 0.9,
        "probabilities": dict(result.final.letters) if result.final is not None else None,
        "is_fallback": False,
        "withheld": False,
        "notes": ["no subtitles"],
        "cost": {"seconds": 3.142, "frames": 8, "calls": 2, "tokens_in": 600, "tokens_out": 40},
        "error": None,
    }
    failed = Result(error=Failure("VideoError", "no such file"), cost=Cost(2.0, {}, 8, 1, 300, 20))
    assert last_event(failed, Question.open("Why?")) == {
        "type": "error",
        "error": {"type": "VideoError", "message": "no such file"},
        "cost": {"seconds": 2.0, "frames": 8, "calls": 1, "tokens_in": 300, "tokens_out": 20},
    }


def test_a_cancelled_question_emits_nothing_more() -> None:
    events: list[dict[str, Any]] = []
    observer, cancellation = EventObserver(events.append), Cancellation()
    with cancellable(cancellation):
        observer.on_wait("planning")
        cancellation.cancel()
        with pytest.raises(Cancelled):
            observer.on_wait("planning")
    assert events == [{"type": "wait", "doing": "planning"}]
