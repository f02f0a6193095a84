"""What every agent does, with a script of each."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.support import agents as dvd
from tests.support import agents as lvagent
from tests.support.adapting import adapted
from tests.support.agents import (
    SceneVideoAgent,
    ScriptedModel,
    explore,
    flat,
    kinds,
    predict,
    reflect,
    search,
)
from tests.support.scenes import item
from videopro.benchmarks import Item, Protocol
from videopro.errors import BackboneError
from videopro.methods import METHODS, create, make_trace, video_ref
from videopro.methods.agents import ModelReply, ToolCall
from videopro.question import Question
from videopro.traces import FORCED, Cost, Trace, evidence

AGENTS = ("videoagent", "dvd", "vca", "lvagent")
GONE = BackboneError("gone")


def answered(
    name: str, lines: Sequence[Any], asked: Item | None = None, *, frames: int = 16, **settings: Any
) -> tuple[Any, list[ScriptedModel]]:
    """The result of the question about the red place, and the models: of LVAgent's agents the first has these
    lines, and the second sees the whole video."""
    asked = asked or item()
    if name == "videoagent":
        agent = SceneVideoAgent(lines, frames=frames, **settings)
        return agent.answers(asked)[0], [agent.llm, agent.captioner]
    if name == "vca":
        ended = explore(lines, frames=frames, asked=asked, **settings)
        return ended.result, [ended.model]
    if name == "dvd":
        llm = ScriptedModel(lines, offers_tools=isinstance(lines[0], ModelReply))
        seeing = dvd.vqa(frames=frames) if "fallback" not in settings else ScriptedModel(["C"], frames=frames)
        return dvd.ask(llm, asked, vqa=seeing, **settings), [seeing, llm]
    team = lvagent.agents(lines, ["Yes", "D", "It was all grey.", {"1": 9, "2": 5}])
    team["one"].frames = frames
    return lvagent.discuss(team, asked, **settings), list(team.values())


@pytest.mark.parametrize(
    ("name", "defaults"),
    [
        ("videoagent", {"first_frames": 5, "max_rounds": 3, "threshold": 3, "selection": "retrieval"}),
        ("dvd", {"clip_seconds": 5.0, "fps": 2.0, "max_tool_steps": 15, "registry": "progressive"}),
        ("vca", {"borders": 6, "temperature": 0.5}),
        ("lvagent", {"frames": 16, "chunks": 6, "threshold": 0.8, "max_rounds": 3}),
    ],
)
def test_the_defaults_are_the_papers(name: str, defaults: dict[str, Any]) -> None:
    method = create(name, {"agents": ["a", "b"]} if name == "lvagent" else {})
    assert {key: getattr(method.settings, key) for key in defaults} == defaults
    assert type(method) is METHODS[name]


CALLS = [ModelReply("Hm.", 100, 10, calls=(call,)) for call in (dvd.SEARCH, dvd.INSPECT, dvd.ANSWER)]
WHOLE: dict[str, list[Any]] = {
    "videoagent": [predict("D"), reflect(1), search((5, "green"), (2, "red")), predict("B"), reflect(3)],
    "dvd": [ModelReply("", calls=(dvd.BROWSE, ToolCall("frame_inspect", "{"))), *CALLS],
    "vca": [flat(20), {"segment": 1}, flat(40, first=7), {"answer": "B"}],
    "lvagent": ["No", "red", "B", "I saw red.", {"1": 9, "2": 3}],
}
"""A question with every kind of step."""
KINDS = {
    "videoagent": {"caption", "predict", "reflect", "search", "retrieve"},
    "dvd": {"act", "global_browse", "frame_inspect", "clip_search", "answer"},
    "vca": {"reward", "explore", "evict"},
    "lvagent": {"whole", "key", "retrieve", "answer", "reason", "score", "leave"},
}


@pytest.mark.parametrize("name", AGENTS)
def test_no_agent_sees_the_ground_truth_and_its_trace_survives_the_log(name: str) -> None:
    """Gold answers, evidence and groups may be anything without changing what is asked or found. (That a team
    does not depend on them either: `tests/commands/test_select_agents.py`.)"""

    def all_of_it(**gold: Any) -> Any:
        result, models = answered(name, WHOLE[name], item(**gold), max_parallel=1)
        steps = [replace(step, cost=Cost()) for step in result.steps]
        asked = [(each.prompt, len(each.frames), each.schema) for model in models for each in model.requests]
        return asked, steps, result.final, result.notes

    right = all_of_it()
    lying = all_of_it(answer="D", evidence=((3.0, 4.0),), groups={"family": "made"}, reference="red")
    assert right == lying == all_of_it(answer=None)
    assert {step.kind for step in right[1]} == KINDS[name]
    # The test would see a difference.
    assert right != all_of_it(question=Question("What is shown at the blue place?", ("red", "blue")))
    result, _ = answered(name, WHOLE[name])
    trace = make_trace(item(), result, video_ref(item()), run_key="k", protocol=Protocol(parser="robust"))
    assert Trace.from_line(trace.to_line()) == trace


@pytest.mark.parametrize(
    ("name", "model", "requests"),
    [
        ("videoagent", 1, slice(None)),  # all captions: it forgets none
        ("dvd", 0, slice(1, 2)),  # the inspection, not the browse before it
        ("vca", 0, slice(-1, None)),  # the memory at the answer
        ("lvagent", 0, slice(2, 3)),  # the look of the agent whose letter won
    ],
)
def test_an_answer_cites_the_frames_that_it_rests_on(name: str, model: int, requests: slice) -> None:
    result, models = answered(name, WHOLE[name])
    shown = {round(frame.time, 3) for each in models[model].requests[requests] for frame in each.frames}
    cited = [piece for piece in evidence(result, most=99) if piece["cited"]]
    assert {time for piece in cited for time in piece["times"]} == shown
    seen = {round(frame[0], 3) for step in result.steps for frame in step.frames}
    assert (shown < seen) is (name != "videoagent")


def test_without_an_inspection_dvd_cites_the_clips_that_it_found() -> None:
    result = dvd.ask(dvd.by_tools([dvd.BROWSE], [dvd.SEARCH], [dvd.ANSWER]))
    found = [(piece["start"], piece["end"]) for piece in evidence(result) if piece["cited"]]
    assert found == [(10.0, 20.0), (0.0, 10.0)]
    assert not any(piece["cited"] for piece in evidence(dvd.ask(dvd.by_tools([dvd.ANSWER]))))


@pytest.mark.parametrize(
    ("name", "lines", "before"),
    [
        ("videoagent", [predict("A"), GONE], "caption caption caption caption caption predict"),
        ("dvd", [CALLS[0], GONE], "act clip_search"),
        ("vca", [flat(1), GONE], "reward"),
        ("lvagent", ["No", GONE], "whole"),
    ],
)
def test_a_failed_request_keeps_the_steps_before_it(name: str, lines: list[Any], before: str) -> None:
    result, _ = answered(name, lines)
    assert (result.error.type, result.final, kinds(result)) == ("BackboneError", None, before)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("videoagent", [predict("a red wall"), reflect(3)]),
        ("dvd", dvd.as_text(dvd.INSPECT, dvd.call("answer", text="a red wall"))),
        ("vca", [flat(1), {"answer": "a red wall"}]),
    ],
)
def test_an_open_question_is_answered_in_words(name: str, lines: list[Any]) -> None:
    adapted(name, open_questions=1)  # A run of it begins.
    asked = item(question=Question.open("What is shown second?"), answer=None)
    result, models = answered(name, lines, asked)
    assert (result.final.letter, result.final.raw) == (None, "a red wall")
    assert result.rounds[0].execution.status == "ok"
    assert not any("right option" in request.prompt for model in models for request in model.requests)


@pytest.mark.parametrize(
    ("name", "most", "lines", "expected"),
    [
        # The steps until the budget is spent, and the answer that is then forced.
        ("videoagent", 6, [predict("B")], "caption caption caption caption caption predict"),
        ("dvd", 2, [CALLS[0], "B"], "act clip_search answer"),
        ("vca", 2, [flat(1), {"segment": 0}, "B"], "reward explore answer1"),
        ("lvagent", 1, ["Yes", "B"], "whole answer"),
    ],
)
def test_a_spent_budget_ends_in_a_forced_answer(
    name: str, most: int, lines: list[Any], expected: str
) -> None:
    result, _ = answered(name, lines, max_steps=most)
    assert (kinds(result), result.final.letter) == (expected, "B")
    assert f"the budget of {most} steps is spent: {FORCED}" in result.notes
