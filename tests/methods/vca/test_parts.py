"""The tree of segments and the memory buffer of frames, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from videopro.methods.agents import UnparsedReply, parse_reply
from videopro.methods.agents.session import plain
from videopro.methods.vca import MemoryBuffer, Tree, borders
from videopro.methods.vca.prompts import action_of, scores_of
from videopro.question import Question


def test_frames_split_a_segment_and_its_parts_are_named_after_it() -> None:
    tree = Tree(70.0, shortest=1.0)
    parts = tree.split(None, [10.0, 20.0])
    assert [(part.number, part.name, part.start, part.end) for part in parts] == [
        (0, "0", 0.0, 10.0),
        (1, "1", 10.0, 20.0),
        (2, "2", 20.0, 70.0),
    ]
    assert borders(parts) == [10.0, 20.0]
    inner = tree.split(parts[2], [40.0])
    innermost = tree.split(inner[1], [50.0])
    assert [(part.number, part.name) for part in (*inner, *innermost)] == [
        (3, "2.0"),
        (4, "2.1"),
        (5, "2.1.0"),
        (6, "2.1.1"),
    ]
    assert innermost[0].record.parent == "2.1"
    assert parts[0].record.parent == ""
    assert tree.nodes[6] is innermost[1]


def test_a_segment_is_split_evenly() -> None:
    tree = Tree(70.0, shortest=1.0)
    parts = tree.split(None, tree.even_borders(None, 6))
    assert [(part.start, part.end) for part in parts] == [(10.0 * i, 10.0 * i + 10) for i in range(7)]
    assert tree.even_borders(parts[3], 4) == [32.0, 34.0, 36.0, 38.0]


def test_open_segments_are_candidates_in_order_of_time_unless_they_are_short() -> None:
    tree = Tree(30.0, shortest=5.0)
    _, middle, _ = tree.split(None, tree.even_borders(None, 2))
    tree.split(middle, [14.0])
    assert [node.name for node in tree.candidates] == ["0", "1.1", "2"]


def test_a_frame_is_as_relevant_as_the_better_open_segment_beside_it() -> None:
    tree = Tree(30.0, shortest=1.0)
    parts = tree.split(None, tree.even_borders(None, 2))
    assert tree.relevance_at(10.0) == -1.0
    for part, score in zip(parts, (30.0, 60.0, 40.0), strict=True):
        part.score = score
    assert (tree.relevance_at(10.0), tree.relevance_at(20.0)) == (60.0, 60.0)
    inner = tree.split(parts[1], tree.even_borders(parts[1], 1))
    # Until they have scores of their own, the parts count as what was split.
    assert (tree.relevance_at(10.0), tree.relevance_at(15.0), tree.relevance_at(20.0)) == (60.0, 60.0, 60.0)
    inner[0].score, inner[1].score = 0.0, 5.0
    # The finer scores replace the coarse 60.
    assert (tree.relevance_at(10.0), tree.relevance_at(15.0), tree.relevance_at(20.0)) == (30.0, 5.0, 40.0)


def test_the_least_relevant_frames_leave() -> None:
    buffer = MemoryBuffer(3)
    relevance = {1.0: 50.0, 2.0: 10.0, 3.0: 90.0, 4.0: 20.0, 5.0: 70.0}
    assert buffer.update([1.0, 2.0, 3.0, 4.0, 5.0], relevance.__getitem__) == [2.0, 4.0]
    assert buffer.times == [1.0, 3.0, 5.0]
    # What was relevant may become irrelevant.
    assert buffer.update([6.0], {**relevance, 3.0: 5.0, 6.0: 6.0}.__getitem__) == [3.0]
    assert buffer.update([6.0], {**relevance, 6.0: 6.0}.__getitem__) == []


def test_of_equal_frames_that_which_was_added_first_leaves() -> None:
    buffer = MemoryBuffer(4)
    assert buffer.update([20.0, 30.0, 40.0], lambda time: 0.0) == []
    assert buffer.update([1.0, 2.0, 3.0], lambda time: 0.0) == [20.0, 30.0]
    assert buffer.update([50.0], lambda time: 0.0) == [40.0]
    assert buffer.times == [1.0, 2.0, 3.0, 50.0]


def test_a_frame_without_a_score_leaves_before_one_that_scored_nothing() -> None:
    buffer = MemoryBuffer(1)
    assert buffer.update([1.0, 2.0], lambda time: 0.0 if time == 1.0 else -1.0) == [2.0]


# ---- which replies fit, and what the model is told about those that do not --------------------------------


COLOUR = Question("Which colour?", ("red", "blue", "green"))


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        ('{"segment": 9}', {"segment": 9}),
        ('{"segment": "9"}', {"segment": 9}),
        ('I look there: {"segment":9,"answer":null}', {"segment": 9}),
        ('{"answer": "B"}', {"answer": "B"}),
        ('{"answer": "b"}', {"answer": "B"}),
        ('{"answer": "(B) blue"}', {"answer": "B"}),
    ],
)
def test_a_segment_is_chosen_by_its_number_and_an_answer_read_as_a_letter(reply: str, read: Any) -> None:
    assert plain(parse_reply(reply, action_of(COLOUR, segments=[1, 9]))) == read


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ('{"segment": 0}', "segment: Input should be 1 or 9"),
        ('{"segment": true}', "segment: Input should be 1 or 9"),
        ('{"answer": "E"}', "answer: Input should be 'A', 'B' or 'C'"),
        ('{"answer": "B or C"}', "answer: Input should be 'A', 'B' or 'C'"),
        ('{"segment": 1, "answer": "B"}', "give exactly one of segment, answer"),
        ('{"choice": 1}', "give exactly one of segment, answer"),
        ("segment 1", "there is no JSON object"),
    ],
)
def test_a_model_is_told_what_it_may_reply(reply: str, why: str) -> None:
    with pytest.raises(UnparsedReply, match=why):
        parse_reply(reply, action_of(COLOUR, segments=[1, 9]))


def test_a_constrained_model_can_name_only_what_is_open() -> None:
    fields = action_of(COLOUR, segments=[1, 9]).model_json_schema()["properties"]
    assert fields["segment"]["anyOf"] == [{"enum": [1, 9], "type": "integer"}, {"type": "null"}]
    assert fields["answer"]["anyOf"] == [{"enum": ["A", "B", "C"], "type": "string"}, {"type": "null"}]
    assert fields["times"]["type"] == "null"


def test_an_open_answer_is_any_words() -> None:
    schema = action_of(Question.open("What is it?"), segments=[1])
    assert plain(parse_reply('{"answer": "a red ball"}', schema)) == {"answer": "a red ball"}
    with pytest.raises(UnparsedReply, match="at least 1 character"):
        parse_reply('{"answer": ""}', schema)


def test_every_new_segment_needs_a_score_and_a_reason_is_optional() -> None:
    schema = scores_of([7, 8])
    read = parse_reply('{"7": {"score": 3}, "8": {"why": "a cat", "score": 100}}', schema)
    found = {number: (score.why, score.score) for number, score in read.by_number().items()}
    assert found == {7: ("", 3.0), 8: ("a cat", 100.0)}
    assert plain(read) == {"7": {"why": "", "score": 3.0}, "8": {"why": "a cat", "score": 100.0}}
    # And so for a constrained model.
    properties = schema.model_json_schema()
    assert [*properties["properties"]] == properties["required"] == ["7", "8"]
    with pytest.raises(UnparsedReply, match="8: Field required"):
        parse_reply('{"7": {"score": 7}}', schema)
    with pytest.raises(UnparsedReply, match=r"7\.score: Input should be less than or equal to 100"):
        parse_reply('{"7": {"score": 101}, "8": {"score": 1}}', schema)


def test_times_are_not_too_many() -> None:
    schema = action_of(COLOUR, moments=2)
    assert plain(parse_reply('{"times": [3, 59.5]}', schema)) == {"times": [3.0, 59.5]}
    for reply, why in (
        ('{"times": [1, 2, 3]}', "at most 2 items"),
        ('{"times": []}', "at least 1 item"),
        ('{"segment": 1}', "segment: Input should be None"),
    ):
        with pytest.raises(UnparsedReply, match=why):
            parse_reply(reply, schema)
