"""What a model is told about its mistakes in calling tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.dvd_world import ANSWER, SEARCH, as_text, ask, by_tools, call, tools_of
from tests.support.scripted_model import ScriptedModel
from videopro.methods.agents import ModelReply, ToolCall


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path))


@pytest.mark.parametrize(
    ("wrong", "kind", "told"),
    [
        (ToolCall("clip_search", '{"query": "red"'), "clip_search", "the arguments are not valid JSON"),
        (ToolCall("clip_search", '"red"'), "clip_search", "arguments: Input should be"),
        (ToolCall("clip_search", ""), "clip_search", "query: Field required"),
        (call("clip_search", query="red", top_k=0), "clip_search", "top_k: Input should be greater"),
        (call("clip_search", query="red", colour="red"), "clip_search", "colour: Extra inputs"),
        (
            call("frame_inspect", question="?", time_ranges=[[70, 80]]),
            "frame_inspect",
            "every range must begin before it ends, within 0 and 60.0 s",
        ),
        (call("frame_inspect", question="?", time_ranges=[[20, 10]]), "frame_inspect", "every range"),
        (call("frame_inspect", question="?", time_ranges=[[1]]), "frame_inspect", "time_ranges.0: List"),
        (call("frame_inspect", question="?", time_ranges=[]), "frame_inspect", "time_ranges: List"),
        (
            ToolCall("frame_inspect", '{"question": "?", "time_ranges": [[0, NaN]]}'),
            "frame_inspect",
            "not valid JSON",
        ),
        (call("watch", query="red"), "unknown_tool", "there is no tool 'watch'; the tools are global_browse"),
        (call("two words!", query="red"), "unknown_tool", "there is no tool 'two words!'"),
        (call("answer", letter="B"), "answer", "text: Field required"),
    ],
)
def test_a_mistake_becomes_an_observation(wrong: ToolCall, kind: str, told: str) -> None:
    llm = by_tools([wrong], [ANSWER])
    result = ask(llm)
    assert result.final.letter == "B"
    failed = tools_of(result)[0]
    assert failed.kind == kind
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


def test_a_reply_without_a_call_is_told_so() -> None:
    llm = ScriptedModel(
        [ModelReply("I think it is red."), ModelReply("", calls=(ANSWER,))], offers_tools=True
    )
    result = ask(llm)
    assert [step.kind for step in result.steps] == ["act", "act", "answer"]
    assert llm.requests[1].turns[-1].text.startswith("No tool was called.")


def test_text_that_is_no_call_is_repaired_once_then_told_so() -> None:
    llm = ScriptedModel(["I think it is red.", *as_text(SEARCH), "Hm.", "Well.", *as_text(ANSWER)])
    result = ask(llm)
    acts = [step for step in result.steps if step.kind == "act"]
    assert [(len(step.rejected), step.is_unparsed) for step in acts] == [(1, False), (1, True), (0, False)]
    assert "This reply cannot be used: there is no JSON object in the reply." in llm.requests[-1].prompt
    assert result.final.letter == "B"


def test_an_unknown_tool_in_text_names_the_tools() -> None:
    llm = ScriptedModel([*as_text(call("watch", query="x")), *as_text(ANSWER)])
    ask(llm)
    assert "'global_browse', 'clip_search', 'frame_inspect', 'answer'" in llm.requests[1].prompt
