"""Which replies of VCA's model fit, and what it is told about those that do not."""

from __future__ import annotations

import pytest

from videopro.methods.agents import UnparsedReply, parse_reply
from videopro.methods.agents.session import plain
from videopro.methods.vca.prompts import action_of, scores_of
from videopro.question import Question

COLOUR = Question("Which colour?", ("red", "blue", "green"))


@pytest.mark.parametrize(
    "reply",
    ['{"segment": 9}', '{"segment": "9"}', 'I look there: {"segment":9}', '{"segment":9,"answer":null}'],
)
def test_a_segment_is_chosen_by_its_number(reply: str) -> None:
    assert plain(parse_reply(reply, action_of(COLOUR, segments=[1, 9]))) == {"segment": 9}


@pytest.mark.parametrize("reply", ['{"answer": "B"}', '{"answer": "b"}', '{"answer": "(B) blue"}'])
def test_an_answer_is_read_as_a_letter(reply: str) -> None:
    assert plain(parse_reply(reply, action_of(COLOUR, segments=[1]))) == {"answer": "B"}


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
    assert {number: (score.why, score.score) for number, score in read.by_number().items()} == {
        7: ("", 3.0),
        8: ("a cat", 100.0),
    }
    assert plain(read) == {"7": {"why": "", "score": 3.0}, "8": {"why": "a cat", "score": 100.0}}
    with pytest.raises(UnparsedReply, match="8: Field required"):
        parse_reply('{"7": {"score": 7}}', schema)
    with pytest.raises(UnparsedReply, match=r"7\.score: Input should be less than or equal to 100"):
        parse_reply('{"7": {"score": 101}, "8": {"score": 1}}', schema)


def test_a_constrained_model_must_score_every_new_segment() -> None:
    schema = scores_of([7, 8]).model_json_schema()
    assert [*schema["properties"]] == schema["required"] == ["7", "8"]


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
