"""What a model thinks is told apart from what it says, in every form in which models write it."""

import pytest

from videopro.executor import parse_program
from videopro.methods.agents.session import UnparsedReply, parse_reply
from videopro.question import Question, extract_intervals, extract_letter, is_thinking, spoken, spoken_part

COLOURS = Question("Which colour is the car?", ("red", "green", "blue", "grey"))


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("B", "B"),
        ("<think>It may be A.</think>B", "B"),
        ("<think>\nA?\n</think>\n\nB", "B"),
        # The prompt began the thought.
        ("It may be A.</think>\n\nB", "B"),
        ("Sure. <think>A?</think>B", "B"),
        ("<think>A?</think>No. <think>C?</think>B", "B"),
        ("B<think>or A", "B"),
        ("<THINK>A?</Think>B", "B"),
        ("<thought>A?</thought>B", "B"),
        ("<reasoning>A?</reasoning>B", "B"),
        ('<think budget="9">A?</think>B', "B"),
        ("<seed:think>A?</seed:think>B", "B"),
        ("◁think▷A?◁/think▷B", "B"),
        ("[THINK]A?[/THINK]B", "B"),
        ("<|channel|>analysis<|message|>A?<|end|><|start|>assistant<|channel|>final<|message|>B", "B"),
        ("<mm:think>A?</mm:think>B", "B"),
        ("<|think|>A?<|/think|>B", "B"),
        ("<|channel>thought\nA?<channel|>B", "B"),
        ("<unused94>thought\nA?<unused95>B", "B"),
        ("\n<analysis>A?</analysis>\nB", "B"),
        # Later in the reply, an analysis is said.
        ("B. <analysis>It is wet.</analysis>", "B. <analysis>It is wet.</analysis>"),
        # Unfinished.
        ("<|channel>thought\nA?", ""),
        ("<analysis>A?", ""),
        ("<think>It may be A.", ""),
        ("<|channel|>analysis<|message|>It may be A", ""),
        # No thoughts.
        ("I think A is wrong, so B", "I think A is wrong, so B"),
        ("a < b and b > think", "a < b and b > think"),
        ("", ""),
    ],
)
def test_what_is_said(reply: str, said: str) -> None:
    part = spoken_part(reply)
    assert spoken(reply) == reply[part] == said
    assert 0 <= part.start <= part.stop <= len(reply), "what is before and after it are all its thoughts"
    assert extract_letter(reply, COLOURS) == ("B" if "B" in said else None)


def test_a_reply_that_begins_inside_a_thought() -> None:
    """As of a model whose prompt ends with the mark: only the end of the thought tells."""
    assert spoken("It may be A, so", is_opened=True) == ""
    assert spoken("It may be A.</think>B", is_opened=True) == "B"
    assert is_thinking("", is_opened=True)
    assert not is_thinking("It may be A.</think>B", is_opened=True)


def test_every_reader_leaves_thoughts_out() -> None:
    assert extract_intervals("From 1 to 2?</think>From 3 to 5 s.") == ((3.0, 5.0),)
    assert extract_intervals("<think>From 1 to 2") == ()
    code = "<planning>p</planning>\n<code>\ndef execute_command(video, question):\n    return 1\n</code>"
    assert parse_program(f"◁think▷<code>no</code>◁/think▷{code}") == parse_program(code)
    assert not parse_program(f"<think>{code}").code

    from pydantic import BaseModel

    class Found(BaseModel):
        answer: str

    assert parse_reply('{"answer": "A"}</think>{"answer": "B"}', Found).answer == "B"
    with pytest.raises(UnparsedReply, match="no JSON object"):
        parse_reply('<think>{"answer": "A"}', Found)
