"""The steps of agents as the viewer's data: texts, the tree of segments, columns, costs, rows of the list.
How they look and work in a browser is in test_step_pages.py."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.support import agent_traces as agents
from tests.support.agent_traces import DURATION, trace
from tests.support.view_world import NO_PROMPTS
from videopro.question import Answer
from videopro.report.pages.content import page, row
from videopro.report.pages.steps import TextTable, answer_of, layout, steps_of, tree_of
from videopro.traces import Segment, Step, Trace, VideoRef

VIDEO = VideoRef("nowhere.mp4", "medium_000", "", DURATION)


def shown(made: Trace) -> dict[str, Any]:
    """The data of a question's page."""
    content, _ = page(made, 16, NO_PROMPTS)
    json.dumps(content, allow_nan=False)
    return content


def text(content: dict[str, Any], lines: list[int]) -> str:
    return "\n".join(content["texts"][line] for line in lines)


# ---- texts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", ["one", "two\nlines", "\n", "a\n\na\n", "", "\r\n\u2028x"])
def test_a_text_is_its_lines(whole: str) -> None:
    texts = TextTable()
    numbers = texts.add(whole)
    assert "\n".join(texts.lines[number] for number in numbers) == whole
    before = len(texts.lines)
    assert texts.add(whole) == numbers
    assert len(texts.lines) == before, "what repeats is stored once"


@pytest.mark.parametrize("made", agents.traces(VIDEO), ids=lambda made: made.question_id)
def test_a_page_holds_every_step_word_for_word(made: Trace) -> None:
    content = shown(made)
    (only,) = content["rounds"]
    assert len(only["steps"]) == len(made.steps)
    for found, step in zip(only["steps"], made.steps, strict=True):
        assert (found["kind"], found["model"], found["round"]) == (step.kind, step.model, step.round)
        assert text(content, found["prompt"]) == step.prompt
        assert text(content, found["raw"]) == step.raw
        assert text(content, found["result"]) == step.result
        assert [text(content, reply) for reply in found["rejected"]] == list(step.rejected)
        assert (found["faults"], found["is_unparsed"]) == (list(step.faults), step.is_unparsed)
        assert (found["is_reused"], found["is_constrained"]) == (step.is_reused, step.is_constrained)
        assert found["looked"] == len(step.frames)
        assert len(found["segments"]) == len(step.segments)
        assert found["cost"]["tokens_in"] == step.cost.tokens_in
    assert content["frames"] == made.frames_seen


def test_thoughts_are_apart_from_replies_and_a_cut_is_told() -> None:
    step = Step("ask", "llm", raw="B", thoughts="A or B?", cut_at=16)
    made = trace("q", VIDEO, [step], Answer())
    (round,) = made.rounds
    noted = replace(round, notes={"cut off": "after 16 tokens", "thoughts": "A or B?"})
    content = shown(replace(made, rounds=(noted,)))
    (only,) = content["rounds"]
    assert (only["notes"], only["thoughts"]) == ({"cut off": "after 16 tokens"}, "A or B?")
    (found,) = only["steps"]
    told = (text(content, found["raw"]), text(content, found["thoughts"]), found["cut_at"])
    assert told == ("B", "A or B?", 16)


# ---- replies ---------------------------------------------------------------------------------------------


def one(step: Step) -> dict[str, Any]:
    (found,) = steps_of([step], "ABCD", 16, TextTable(), [])
    return found


def test_calls_are_read_from_a_reply_and_shown_as_written_where_they_are_malformed() -> None:
    calls = [
        {"name": "look", "arguments": '{"ranges": [[1, 2.5]], "what": "a \\"kite\\""}'},
        {"name": "look", "arguments": '{"ranges": ['},
        {"name": "stop", "arguments": "3"},
    ]
    found = one(Step("reason", "llm", parsed={"calls": calls}))
    assert found["called"] == [
        {"fn": "look", "args": [["ranges", "[[1, 2.5]]"], ["what", 'a "kite"']]},
        {"fn": "look", "args": [["", '{"ranges": [']]},
        {"fn": "stop", "args": [["", "3"]]},
    ]


def test_a_call_in_the_text_protocol_is_a_call() -> None:
    found = one(Step("act", "llm", parsed={"reason": "why", "tool": "look", "arguments": {"at": 3}}))
    assert (found["called"], found["parsed"]) == ([{"fn": "look", "args": [["at", "3"]]}], {"reason": "why"})
    assert one(Step("act", "llm", parsed={"tool": "look"}))["parsed"] == {"tool": "look"}
    assert one(Step("act", "llm", parsed={"calls": []}))["parsed"] == {"calls": []}
    # Arguments are texts.
    step = Step("search", args={"query": "größer", "top_k": 3, "spans": [[0.5, 1]], "none": None})
    expected = {"query": "größer", "top_k": "3", "spans": "[[0.5, 1]]", "none": "null"}
    assert one(step)["args"] == [list(pair) for pair in expected.items()]


def test_only_a_letter_of_the_question_is_an_answer() -> None:
    for parsed, letter in (
        ({"letter": "B", "confidence": 0.4}, "B"),
        ({"final_answer": "D"}, "D"),
        ({"answer": "E"}, None),
        ({"letter": "No", "confidence": 0.9}, None),
        ({"answer": "AB"}, None),
        ({"answer": ["A"]}, None),
        ({"segment": 3}, None),
        (None, None),
    ):
        assert answer_of(Step("reply", "llm", parsed=parsed), "ABCD") == letter


# ---- the tree of segments --------------------------------------------------------------------------------


def test_the_tree_of_vcas_figure_4() -> None:
    """The fourth segment is explored first, then the first one, then its third part."""
    steps = agents.vca(VIDEO).steps
    tree = tree_of(steps)
    segments = [steps[place].segments[number] for place, number in (node["at"] for node in tree)]
    assert len(tree) == 28
    explored = {
        seg.name: node["explored"] for seg, node in zip(segments, tree, strict=True) if node["explored"]
    }
    assert explored == {"3": 1, "0": 2, "0.2": 3}
    assert [node["depth"] for node in tree] == [0] * 7 + [1] * 14 + [2] * 7
    assert {seg.name: seg.score for seg in segments}["0.2.3"] == 95.0


def test_only_segments_of_segments_make_a_tree_and_the_last_score_counts() -> None:
    for made in (agents.dvd(VIDEO), agents.lvagent(VIDEO), agents.videoagent(VIDEO)):
        assert tree_of(made.steps) == []
    part = Segment(0, 5, "0.1", "0", 40.0)
    scored = [(Segment(0, 9, "0"), part), (replace(part, score=60.0),), (replace(part, score=None),)]
    found = tree_of([Step("score", segments=segments) for segments in scored])
    assert [node["at"] for node in found] == [[0, 0], [1, 0]]
    # Those that are each other's parents are shown, and it ends.
    circle = (Segment(0, 1, "a", "b"), Segment(1, 2, "b", "a"), Segment(2, 3, "c", "c"))
    assert len(tree_of([Step("score", segments=circle)])) == 3


# ---- columns ---------------------------------------------------------------------------------------------


Place = tuple[int, list[str], list[list[int | None]]]


def places(steps: Sequence[Step]) -> list[Place]:
    return [
        (part["round"], block["columns"], block["rows"]) for part in layout(steps) for block in part["blocks"]
    ]


SEARCH = Step("search")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        # What the first model left out gets a row of its own.
        (
            [("see", "a"), ("answer", "a"), ("see", "b"), ("search", "b"), ("answer", "b")],
            [(0, ["a", "b"], [[0, 2], [None, 3], [1, 4]])],
        ),
        # A repeated kind is a row each time.
        (
            [("say", "a"), ("say", "b"), ("say", "a"), ("say", "b"), ("say", "a")],
            [(0, ["a", "b"], [[0, 1], [2, 3], [4, None]])],
        ),
        # Tools stand under the model that called them.
        (
            [("say", "a"), SEARCH, ("say", "b"), SEARCH, Step("fetch", args={"for": "a"}), Step("count")],
            [(0, ["a", "b"], [[0, 2], [1, 3], [4, None]]), (0, [], [[5]])],
        ),
        # Rounds are kept in the order of the steps.
        (
            [("look", "a", 0), ("look", "a", 1), ("answer", "a", 0)],
            [(0, [], [[0]]), (1, [], [[1]]), (0, [], [[2]])],
        ),
        # Roles that do different things stand below each other.
        ([("see", "a"), ("think", "b"), ("answer", "a")], [(0, [], [[0], [1], [2]])]),
    ],
)
def test_columns(steps: list[Any], expected: list[Place]) -> None:
    assert places([step if isinstance(step, Step) else Step(*step) for step in steps]) == expected


# ---- pages and rows --------------------------------------------------------------------------------------


def test_rows_say_what_the_list_marks() -> None:
    rows = {made.question_id: row(made) for made in agents.traces(VIDEO)}
    assert {name: found["marks"] for name, found in rows.items()} == {
        "vca": ["repaired"], "dvd": [], "lvagent": ["unparsed_step"], "videoagent": [],
        "unparsed": ["unparsed_step"], "failed": [],
    }  # fmt: skip
    # Fig. 4: four times six frames. VideoAgent: five and two.
    assert (rows["vca"]["steps"], rows["vca"]["frames"]) == (11, 24)
    assert (rows["videoagent"]["steps"], rows["videoagent"]["frames"]) == (13, 7)
    assert rows["failed"]["steps"] == 6


def test_an_answer_that_a_reply_names_has_no_confidence() -> None:
    """0.0 would be read as: not sure at all."""
    assert row(agents.vca(VIDEO))["confidence"] is None
    assert shown(agents.vca(VIDEO))["confidence"] is None
    assert row(agents.lvagent(VIDEO))["confidence"] == 0.9, "an answering call gave it"
    assert row(agents.videoagent(VIDEO, is_read=False))["confidence"] == 0.0, "nothing was read"
    words = trace("open", VIDEO, agents.vca(VIDEO).steps, Answer(raw="a ball"), choices=(), gold=None)
    assert row(words)["confidence"] is None
