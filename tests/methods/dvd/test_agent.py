"""The search: both protocols, its ends, its ablations, and the model's mistakes in calling tools."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.adapting import adapted
from tests.support.agents import (
    ANSWER,
    BROWSE,
    INSPECT,
    SEARCH,
    ScriptedModel,
    as_text,
    ask,
    by_tools,
    call,
    kinds,
    steps,
    tools_of,
    vqa,
)
from tests.support.scenes import item
from videopro.errors import BackboneError
from videopro.methods import create
from videopro.methods.agents import ModelReply, ToolCall, UnparsedReply, parse_reply
from videopro.methods.dvd.settings import DvdSettings
from videopro.methods.dvd.tools import inspected_times, offered, one_call, sendable
from videopro.question import Question
from videopro.traces import FORCED

OPEN = item(question=Question.open("What is shown at 15 s?"), answer=None)
Speak = Callable[..., ScriptedModel]


@pytest.fixture(params=["tools", "text"])
def speak(request: pytest.FixtureRequest) -> Speak:
    """Makes a model of either protocol that makes one call a step; what is no call is said in words."""

    def reply(step: ToolCall | str) -> Any:
        if request.param == "text":
            return step if isinstance(step, str) else as_text(step)[0]
        return ModelReply(step) if isinstance(step, str) else ModelReply("Hm.", 100, 10, calls=(step,))

    return lambda *said: ScriptedModel([reply(step) for step in said], offers_tools=request.param == "tools")


def test_the_model_searches_and_answers(speak: Speak) -> None:
    llm = speak(BROWSE, SEARCH, INSPECT, ANSWER)
    result = ask(llm)
    assert result.error is None
    assert (result.final.letter, result.final.raw, result.final.confidence) == ("B", "B. red", 0.0)
    assert kinds(result) == "act global_browse act1 clip_search1 act2 frame_inspect2 act3 answer3"
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
    assert (answer.args, answer.result) == ({"text": "B. red"}, "B")
    # Every observation reached the model.
    last = llm.requests[-1]
    shown = "\n".join([last.prompt, *(turn.text for turn in last.turns)])
    for seen in ("grey, red, blue, green", "red place: plain red", "10.0-20.0 s: A red place", "red"):
        assert seen in shown


def test_several_calls_of_one_reply_are_carried_out_in_order() -> None:
    llm = by_tools([BROWSE, SEARCH], [INSPECT, ANSWER, SEARCH])
    assert kinds(ask(llm)) == "act global_browse clip_search act1 frame_inspect1 answer1"
    turns = llm.requests[1].turns
    assert [turn.role for turn in turns] == ["user", "assistant", "tool", "tool"]
    assert [turn.call_id for turn in turns[2:]] == [each.id for each in turns[1].calls]
    assert len({each.id for each in turns[1].calls}) == 2


def test_an_early_answer_looks_at_nothing_and_one_without_a_letter_is_unparsed(speak: Speak) -> None:
    result = ask(speak(call("answer", text="It cannot be known.")))
    assert kinds(result) == "act answer"
    assert (result.frames_seen, result.cost.frames, result.prepared[0].cost.frames) == (0, 0, 60)
    assert (result.final.letter, result.final.raw) == (None, "It cannot be known.")
    assert result.rounds[0].execution.status == "empty"
    assert tools_of(result)[-1].result == "no option"


def test_the_last_step_forces_an_answer_from_the_history(speak: Speak) -> None:
    llm = speak(SEARCH, INSPECT, "B")
    result = ask(llm, max_tool_steps=2)
    assert result.final.letter == "B"
    assert f"no step is left: {FORCED}" in result.notes
    final = llm.requests[-1].prompt
    assert "A red place, and nothing else." in final
    assert "There are no steps left" in final
    assert final.index("A. blue") < final.index("Observation")
    assert kinds(result).split()[-1].startswith("answer")
    assert ask(speak(INSPECT, "A red place."), OPEN, max_tool_steps=1).final.raw == "A red place."


@pytest.mark.parametrize(
    ("steps", "what", "most"), [([[BROWSE]], "tokens", 150), ([[BROWSE], [INSPECT]], "frames", 4)]
)
def test_a_spent_budget_ends_the_search(steps: list[Any], what: str, most: int) -> None:
    llm = by_tools(*steps)
    llm.lines = [*llm.lines, "B"]
    limit: dict[str, Any] = {f"max_{what}": most}
    result = ask(llm, **limit)
    assert result.final.letter == "B"
    assert any(each.startswith(f"the budget of {most} {what} is spent") for each in result.notes)


def test_a_tool_that_is_left_out_is_not_offered() -> None:
    llm = by_tools([BROWSE], [call("clip_search", query="place")], [ANSWER])
    result = ask(llm, tools=("clip_search", "frame_inspect"))
    assert kinds(result) == "act unknown_tool act1 clip_search1 act2 answer2"
    assert tools_of(result)[1].args["top_k"] == 16
    assert tools_of(result)[0].result == (
        "error: there is no tool 'global_browse'; the tools are clip_search, frame_inspect, answer"
    )
    assert "global_browse" not in llm.requests[0].turns[0].text
    # Answer may be the only one.
    only = one_call(offered(DvdSettings(tools=())))
    assert parse_reply('{"tool": "answer", "arguments": {"text": "B"}}', only).root.tool == "answer"
    with pytest.raises(UnparsedReply, match="Input should be 'answer'"):
        parse_reply('{"tool": "clip_search", "arguments": {"query": "B"}}', only)


@pytest.mark.parametrize(
    ("preset", "takes", "shown"), [("paper", 64, 50), ("paper", 16, 16), ("equal", 8, 8)]
)
def test_presets(preset: str, takes: int, shown: int) -> None:
    """The paper's 50 frames, or what the VQA model takes, for a browse and an inspection of the minute."""
    whole = call("frame_inspect", question="?", time_ranges=[[0, 60]])
    result = ask(by_tools([BROWSE], [whole], [ANSWER]), vqa=vqa(frames=takes), preset=preset)
    assert [len(step.frames) for step in tools_of(result)[:2]] == [shown, shown]


@pytest.mark.parametrize(
    ("ranges", "most", "expected"),
    [
        ([(2.0, 4.0)], 50, [2.25, 2.75, 3.25, 3.75]),
        # At least one in each range, however short; the ranges in order of time, each moment once.
        ([(8.0, 8.2), (2.0, 3.0), (2.0, 3.0)], 50, [2.25, 2.75, 8.1]),
        # Spread evenly over all of them if there are too many: one of each four of the sixteen.
        ([(0.0, 4.0), (10.0, 14.0)], 4, [1.25, 3.25, 11.25, 13.25]),
    ],
)
def test_inspected_times(ranges: list[tuple[float, float]], most: int, expected: list[float]) -> None:
    assert inspected_times(ranges, 2.0, most) == pytest.approx(expected)


def test_720p_is_asked_of_every_role_and_changes_no_other_run() -> None:
    """1280 x 720 pixels, for the run's own model by its setting, for the others by the loader."""
    sharp = adapted("dvd", {"resolution": "720p"}, backbone={"frames": 8})
    assert sharp.backbone == {"frames": 8, "pixels": 921_600}
    assert adapted("dvd", {}, backbone={"frames": 8}).backbone == {"frames": 8}
    plain = create("dvd", {}).identity()
    assert create("dvd", {"resolution": "720p"}).identity() == {**plain, "resolution": "720p"}


def test_a_captioner_that_fails_fails_the_questions_and_what_it_leaves_out_is_noted() -> None:
    gone = ScriptedModel([BackboneError("the captioner is gone")])
    assert ask(by_tools([ANSWER]), captioner=gone).error.message == "the captioner is gone"
    result = ask(by_tools([ANSWER]), captioner=ScriptedModel(["no"], forever=True))
    assert result.final.letter == "B"
    assert "6 of 6 clips in the database have no caption: unparsed" in result.notes


def inspect(ranges: Any) -> ToolCall:
    return call("frame_inspect", question="?", time_ranges=ranges)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (ToolCall("clip_search", '{"query": "red"'), "the arguments are not valid JSON"),
        (call("clip_search", query="red", top_k=0), "top_k: Input should be greater"),
        (inspect([[70, 80]]), "every range must begin before it ends, within 0 and 60.0 s"),
        (inspect([[20, 10]]), "every range"),
        (call("two words!", query="red"), "there is no tool 'two words!'; the tools are glob"),
    ],
)
def test_a_mistake_becomes_an_observation(wrong: ToolCall, told: str) -> None:
    llm = by_tools([wrong], [ANSWER])
    result = ask(llm)
    assert result.final.letter == "B"
    failed = tools_of(result)[0]
    assert failed.kind == (wrong.name if " " not in wrong.name else "unknown_tool")
    assert failed.result.startswith("error: ")
    assert told in failed.result
    assert failed.args == {"tool": wrong.name, "arguments": wrong.arguments}
    turn = llm.requests[1].turns[-1]
    assert (turn.role, turn.text) == ("tool", failed.result)
    # Servers refuse a conversation with malformed calls.
    (sent,) = llm.requests[1].turns[1].calls
    assert isinstance(json.loads(sent.arguments), dict)
    assert sent.name.replace("_", "").isalnum()
    assert sent.id == turn.call_id


def test_a_sound_call_is_repeated_as_it_was_written() -> None:
    sound = ToolCall("clip_search", '{"query":  "x"}', "7")
    assert sendable(sound) == sound
    assert sendable(ToolCall("a" * 65, "[]", "7")) == ToolCall("unknown_tool", "{}", "7")


def test_a_reply_without_a_call_is_told_so() -> None:
    llm = ScriptedModel(
        [ModelReply("I think it is red."), ModelReply("", calls=(ANSWER,))], offers_tools=True
    )
    assert kinds(ask(llm)) == "act act1 answer1"
    assert llm.requests[1].turns[-1].text.startswith("No tool was called.")


def test_text_that_is_no_call_is_repaired_once_then_told_so() -> None:
    unknown = as_text(call("watch", query="x"))
    llm = ScriptedModel([*unknown, *as_text(SEARCH), "Hm.", "Well.", *as_text(ANSWER)])
    result = ask(llm)
    acts = [(len(step.rejected), step.is_unparsed) for step in steps(result, "act")]
    assert acts == [(1, False), (1, True), (0, False)]
    assert "'global_browse', 'clip_search', 'frame_inspect', 'answer'" in llm.requests[1].prompt
    assert "This reply cannot be used: there is no JSON object in the reply." in llm.requests[-1].prompt
    assert result.final.letter == "B"
