"""The search: both protocols, its ends, and its ablations."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.dvd_world import (
    ANSWER,
    BROWSE,
    INSPECT,
    SEARCH,
    ScriptedDvd,
    as_text,
    ask,
    by_tools,
    call,
    captioner,
    settings,
    tools_of,
    vqa,
)
from tests.support.method_world import context, item
from tests.support.reason_world import SceneBackbone
from tests.support.scripted_model import ScriptedModel
from videopro.benchmarks import Item, Protocol
from videopro.errors import BackboneError
from videopro.methods import METHODS, make_trace, video_ref
from videopro.methods.agents import ModelReply, ToolCall
from videopro.question import Question
from videopro.traces import FALLBACK, FORCED, Result, Step, Trace


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path))


@pytest.fixture(params=["tools", "text"])
def speak(request: pytest.FixtureRequest) -> Callable[..., ScriptedModel]:
    """Makes a model of either protocol that makes one call a step; what is no call is said in words."""

    def of_tools(*steps: ToolCall | str) -> ScriptedModel:
        return ScriptedModel(
            [
                ModelReply(step) if isinstance(step, str) else ModelReply("Hm.", 100, 10, calls=(step,))
                for step in steps
            ],
            offers_tools=True,
        )

    def of_text(*steps: ToolCall | str) -> ScriptedModel:
        return ScriptedModel([step if isinstance(step, str) else as_text(step)[0] for step in steps])

    return of_tools if request.param == "tools" else of_text


def kinds(result: Result) -> list[str]:
    return [step.kind for step in result.steps]


def last_seen(model: ScriptedModel) -> str:
    """What the model was shown at its last request: the whole conversation."""
    request = model.requests[-1]
    return request.prompt if not request.turns else "\n".join(turn.text for turn in request.turns)


# ---- the loop --------------------------------------------------------------------------------------------


def test_the_model_searches_and_answers(speak: Callable[..., ScriptedModel]) -> None:
    llm = speak(BROWSE, SEARCH, INSPECT, ANSWER)
    result = ask(llm)
    assert result.error is None
    assert (result.final.letter, result.final.raw, result.final.confidence) == ("B", "B. red", 0.0)
    assert kinds(result) == [
        "act",
        "global_browse",
        "act",
        "clip_search",
        "act",
        "frame_inspect",
        "act",
        "answer",
    ]
    browse, search, inspect, answer = tools_of(result)
    assert browse.raw == "grey, red, blue, green"
    assert "red place: plain red. glows. 10-20 s" in browse.result
    assert search.result.startswith("10.0-20.0 s: A red place, and nothing else.")
    assert [(segment.start, segment.name) for segment in search.segments] == [(10.0, "1"), (0.0, "0")]
    scores = [segment.score or 0.0 for segment in search.segments]
    assert scores[0] > scores[1] > 0
    assert (inspect.model, inspect.raw) == ("vqa", "red")
    assert [round(frame[0], 1) for frame in inspect.frames] == [12.5, 13.5, 14.5, 15.5, 16.5, 17.5]
    assert [(segment.start, segment.end) for segment in inspect.segments] == [(12.0, 18.0)]
    assert (answer.args, answer.result, answer.round) == ({"text": "B. red"}, "B", 3)
    assert [step.round for step in result.steps] == [0, 0, 1, 1, 2, 2, 3, 3]
    # Every observation reached the model.
    for seen in ("grey, red, blue, green", "red place: plain red", "10.0-20.0 s: A red place", "red"):
        assert seen in last_seen(llm)


def test_both_protocols_leave_the_same_trace() -> None:
    steps = (BROWSE, call("clip_search", query="red"), call("frame_inspect", question="?"), SEARCH, ANSWER)
    bad_text = '{"reason": "Hm.", "tool": "frame_inspect", "arguments": {"question": "?"}}'
    by_words = as_text(*steps)
    text = ScriptedModel([*by_words[:2], bad_text, bad_text, *by_words[3:]])
    results = [ask(by_tools(*([step] for step in steps))), ask(text)]

    def facts(step: Step) -> Any:
        return (step.kind, step.round, step.args, step.result, step.raw, step.frames, step.segments)

    tools, words = [[facts(step) for step in tools_of(result)] for result in results]
    # The schema of the text protocol refuses the malformed call before it becomes one.
    assert [fact for fact in tools if not fact[3].startswith("error")] == words
    assert [result.final.letter for result in results] == ["B", "B"]
    assert len([step for step in results[0].steps if step.kind == "act"]) == 5
    assert [step.is_unparsed for step in results[1].steps if step.kind == "act"] == [
        False,
        False,
        True,
        False,
        False,
    ]
    assert "the language model offers no tool calls: it wrote them as text" in results[1].notes


def test_the_text_protocol_constrains_replies_to_the_tools_at_hand() -> None:
    llm = ScriptedModel(as_text(ANSWER))
    ask(llm, tools=("clip_search",))
    schema = json.dumps(llm.requests[0].schema)
    assert '"clip_search"' in schema
    assert '"answer"' in schema
    assert "frame_inspect" not in schema


def test_several_calls_of_one_reply_are_carried_out_in_order() -> None:
    llm = by_tools([BROWSE, SEARCH], [INSPECT, ANSWER, SEARCH])
    result = ask(llm)
    assert kinds(result) == ["act", "global_browse", "clip_search", "act", "frame_inspect", "answer"]
    turns = llm.requests[1].turns
    assert [turn.role for turn in turns] == ["user", "assistant", "tool", "tool"]
    assert [turn.call_id for turn in turns[2:]] == [each.id for each in turns[1].calls]
    assert len({each.id for each in turns[1].calls}) == 2


def test_an_early_answer_looks_at_nothing(speak: Callable[..., ScriptedModel]) -> None:
    result = ask(speak(ANSWER))
    assert kinds(result) == ["act", "answer"]
    assert (result.frames_seen, result.cost.frames) == (0, 0)
    assert result.prepared[0].cost.frames == 60


# ---- ends ------------------------------------------------------------------------------------------------


def test_the_last_step_forces_an_answer_from_the_history(speak: Callable[..., ScriptedModel]) -> None:
    llm = speak(SEARCH, INSPECT, "B")
    result = ask(llm, max_tool_steps=2)
    assert result.final.letter == "B"
    assert f"no step is left: {FORCED}" in result.notes
    final = llm.requests[-1].prompt
    assert "A red place, and nothing else." in final
    assert "There are no steps left" in final
    assert final.index("A. blue") < final.index("Observation")
    assert kinds(result)[-1] == "answer"


def test_the_paper_has_fifteen_steps() -> None:
    llm = by_tools(*([SEARCH] for _ in range(15)))
    llm.lines = [*llm.lines, "B"]
    result = ask(llm)
    assert kinds(result).count("act") == 15
    assert result.final.letter == "B"


def test_an_answer_without_a_letter_is_unparsed(speak: Callable[..., ScriptedModel]) -> None:
    result = ask(speak(call("answer", text="It cannot be known.")))
    assert (result.final.letter, result.final.raw) == (None, "It cannot be known.")
    assert result.rounds[0].execution.status == "empty"
    assert tools_of(result)[-1].result == "no option"


def test_an_unparsed_answer_may_fall_back_to_the_vqa_model() -> None:
    model = ScriptedModel(["C"])
    result = ask(by_tools([call("answer", text="Who knows.")]), vqa=model, fallback="native")
    assert (result.final.letter, result.rounds[-1].prompt_kind) == ("C", FALLBACK)
    assert len(model.requests[0].frames) == 16


@pytest.mark.parametrize(
    ("limits", "note"),
    [
        ({"max_steps": 3}, "the budget of 3 steps is spent"),
        ({"max_tokens": 150}, "the budget of 150 tokens is spent"),
        ({"max_frames": 4}, "the budget of 4 frames is spent"),
    ],
)
def test_a_spent_budget_ends_the_search(limits: dict[str, Any], note: str) -> None:
    llm = by_tools([BROWSE], [INSPECT], [INSPECT])
    llm.lines = [*llm.lines[: 2 if "max_tokens" not in limits else 1], "B"]
    result = ask(llm, **limits)
    assert result.final.letter == "B"
    assert any(each.startswith(note) for each in result.notes)


def test_a_frame_budget_counts_each_moment_once() -> None:
    result = ask(by_tools([INSPECT], [INSPECT], [ANSWER]), max_frames=6)
    assert (result.final.letter, result.frames_seen) == ("B", 6)


def test_an_open_question_is_answered_in_words(speak: Callable[..., ScriptedModel]) -> None:
    opened = item(question=Question.open("What is shown at 15 s?"), answer=None)
    result = ask(speak(INSPECT, call("answer", text="A red place.")), opened)
    assert (result.final.letter, result.final.raw) == (None, "A red place.")
    assert result.rounds[0].execution.status == "ok"


def test_an_open_question_may_be_forced(speak: Callable[..., ScriptedModel]) -> None:
    opened = item(question=Question.open("What is shown at 15 s?"), answer=None)
    result = ask(speak(INSPECT, "A red place."), opened, max_tool_steps=1)
    assert result.final.raw == "A red place."


def test_a_request_that_cannot_be_served_ends_the_question_and_keeps_its_steps() -> None:
    llm = by_tools([SEARCH])
    llm.lines = [*llm.lines, BackboneError("the server is gone")]
    result = ask(llm)
    assert result.error.type == "BackboneError"
    assert kinds(result) == ["act", "clip_search"]


# ---- ablations -------------------------------------------------------------------------------------------


def test_a_tool_that_is_left_out_is_not_offered() -> None:
    llm = by_tools([BROWSE], [SEARCH], [ANSWER])
    result = ask(llm, tools=("clip_search", "frame_inspect"))
    assert kinds(result) == ["act", "unknown_tool", "act", "clip_search", "act", "answer"]
    assert tools_of(result)[0].result == (
        "error: there is no tool 'global_browse'; the tools are clip_search, frame_inspect, answer"
    )
    assert "global_browse" not in llm.requests[0].turns[0].text


def test_without_subtitles_or_with_them(tmp_path: Path) -> None:
    lines = tmp_path / "lines.srt"
    lines.write_text("1\n00:00:22,000 --> 00:00:25,000\nAnna hid a lamp.\n")
    spoken = item(subtitles=lines)
    search = call("clip_search", query="lamp", top_k=1)
    found = [
        tools_of(ask(by_tools([search], [ANSWER]), spoken, subtitles=subtitles))[0].result
        for subtitles in ("listed", "none")
    ]
    assert found == [
        "20.0-30.0 s: A grey place, and nothing else. Spoken: Anna hid a lamp.",
        "no caption fits",
    ]


def test_top_k_is_the_papers_unless_the_model_says() -> None:
    llm = by_tools(
        [call("clip_search", query="place")], [call("clip_search", query="place", top_k=1)], [ANSWER]
    )
    first, second, _ = tools_of(ask(llm))
    assert first.args["top_k"] == 16
    assert (len(second.segments), second.args["top_k"]) == (1, 1)


def shown(preset: str, frames: int, **changes: Any) -> list[int]:
    """The frames of a browse and of an inspection of the whole minute."""
    whole = call("frame_inspect", question="?", time_ranges=[[0, 60]])
    result = ask(by_tools([BROWSE], [whole], [ANSWER]), vqa=vqa(frames=frames), preset=preset, **changes)
    return [len(step.frames) for step in tools_of(result)[:2]]


def test_presets() -> None:
    """The paper's 50 frames, or what the VQA model takes."""
    assert shown("paper", 64) == [50, 50]
    assert shown("paper", 16) == [16, 16]
    assert shown("equal", 8) == [8, 8]


# ---- the method ------------------------------------------------------------------------------------------


def test_questions_share_the_database() -> None:
    model = captioner()
    results = []
    for _ in range(2):
        results.append(ask(by_tools([SEARCH], [ANSWER]), captioner=model))
    assert len(model.requests) == 6
    assert results[0].prepared == results[1].prepared
    assert all(result.cost.calls == 2 for result in results)


def test_questions_in_flight_are_answered_from_one_database() -> None:
    llm = ScriptedModel([ModelReply("", 100, 10, calls=(ANSWER,))], offers_tools=True, forever=True)
    model = captioner()
    items: Sequence[Item] = [item(id=f"q{i}") for i in range(5)]
    method = ScriptedDvd(settings(), llm=llm, captioner=model)
    found: dict[str, Any] = {
        each.id: result for each, result in method.run_video(items, context(SceneBackbone()))
    }
    assert {result.final.letter for result in found.values()} == {"B"}
    assert len(found) == 5
    assert len({result.prepared[0].key for result in found.values()}) == 1
    assert len(model.requests) == 6


def test_what_could_not_be_captioned_is_noted_in_every_question() -> None:
    result = ask(by_tools([ANSWER]), captioner=ScriptedModel(["no"], forever=True))
    assert "6 of 6 clips of the database have no caption: unparsed" in result.notes


def test_a_captioner_that_fails_fails_the_questions() -> None:
    gone = ScriptedModel([BackboneError("the captioner is gone")])
    result = ask(by_tools([ANSWER]), captioner=gone)
    assert result.error.message == "the captioner is gone"
    assert ask(by_tools([ANSWER])).final.letter == "B"


def test_a_trace_of_all_steps_survives_the_log() -> None:
    wrong = ToolCall("frame_inspect", "{")
    result = ask(by_tools([BROWSE, wrong], [SEARCH], [INSPECT], [ANSWER]))
    trace = make_trace(item(), result, video_ref(item()), run_key="k", protocol=Protocol(parser="robust"))
    assert Trace.from_line(trace.to_line()) == trace


def test_the_method_has_its_name() -> None:
    assert METHODS["dvd"].name == "dvd"
