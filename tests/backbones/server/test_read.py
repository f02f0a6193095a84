"""What is read out of replies, by all who ask a server; probabilities are worked out by hand."""

import json
import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.server_cases import COLOURS, LN_005, LN_01, LN_02, LN_05, LN_08, Make
from tests.support.stub_server import StubServer, completion, entry, letter, text_of
from videopro.backbones import GenerateRequest, Sampling, YesNoRequest
from videopro.backbones.base import Generation
from videopro.backbones.server import api_config
from videopro.backbones.server.replies import read_choice, read_completion, read_generation, read_reply
from videopro.errors import BackboneError
from videopro.methods.agents.models import ApiModel
from videopro.methods.planners import EmptyReply, PlanRequest
from videopro.methods.planners.server import ApiPlanner
from videopro.question import Answer, Question, prompts


def chosen(reply: dict[str, Any]) -> Answer:
    return read_choice(read_completion(json.dumps(reply).encode()), COLOURS.letters, "server")


def written(reply: dict[str, Any], limit: int = 50) -> Generation:
    return read_generation(read_completion(json.dumps(reply).encode()), "server", limit)


# ---- letters -----------------------------------------------------------------------------------------------


def test_confidence_and_letters_are_the_listed_probabilities(make: Make) -> None:
    top = [("B", LN_08), ("A", LN_01), ("Blue", LN_005)]
    with StubServer(lambda body: letter("B", top, prompt_tokens=123)) as stub:
        answer = make(stub).answer(None, COLOURS)
    assert (answer.letter, answer.confidence) == ("B", pytest.approx(0.8, abs=1e-7))
    # C is not among the listed tokens; nothing is renormalised.
    assert answer.letters == {"A": pytest.approx(0.1, abs=1e-7), "B": answer.confidence, "C": 0.0}
    assert (answer.raw, answer.tokens_in, answer.tokens_out) == ("B", 123, 1)


@pytest.mark.parametrize(
    ("top", "letter_read", "confidence", "letter_a"),
    [
        # A leading space is the same letter; of two variants the likelier counts, and they are not added.
        ([(" A", LN_05), ("A", LN_02)], "A", 0.5, 0.5),
        ([("A", LN_05), (" A", LN_02)], "A", 0.5, 0.5),
        # The most likely token decides, whatever the server drew.
        ([("C", LN_02), ("A", LN_05)], "A", 0.5, 0.5),
        # Equals: the one that was answered with.
        ([("B", LN_02), ("A", LN_02)], "B", 0.2, 0.2),
        # Words, an option that the question does not have, lower case and punctuation are not letters.
        *(([(token, LN_05), ("A", LN_02)], None, 0.0, 0.2) for token in ("The", "D", "a", "A.", "\n")),
        # A character that no reader sees, and a full-width letter.
        *(([(token, LN_05), ("A", LN_02)], "B", 0.5, 0.2) for token in ("\u200bB", "\uff22")),
        # OpenAI's sign for a token that is very unlikely.
        ([("A", 0.0), ("B", -9999.0)], "A", 1.0, 1.0),
    ],
)
def test_only_a_token_that_is_the_letter_counts(
    top: list[tuple[str, float]], letter_read: str | None, confidence: float, letter_a: float
) -> None:
    answer = chosen(letter(top[0][0], top))
    assert answer.letter == letter_read
    assert answer.confidence == pytest.approx(confidence, abs=1e-7)
    assert answer.letters["A"] == pytest.approx(letter_a, abs=1e-7)
    if letter_read is not None:
        assert answer.letters[letter_read] == answer.confidence


def test_an_empty_reply_is_unparsed() -> None:
    answer = chosen(completion("", []))
    assert (answer.letter, answer.confidence, answer.letters) == (None, 0.0, {"A": 0.0, "B": 0.0, "C": 0.0})


def test_yes_and_no(make: Make) -> None:
    def reply(body: Any) -> Any:
        word, other = ("Yes", "No") if "snow" in text_of(body) else ("No", "Yes")
        return letter(word, [(word, LN_05), (other, LN_02), ("A", LN_01)])

    asked = [YesNoRequest(None, prompts.yes_no(f"Is there {thing}?")) for thing in ("rain", "snow", "fog")]
    with StubServer(reply) as stub:
        answers = make(stub).yes_no_batch(asked)
    assert sorted(map(text_of, stub.chats)) == sorted(request.text for request in asked)
    assert stub.chats[0]["max_tokens"] == 1
    assert [answer.letter for answer in answers] == ["No", "Yes", "No"]
    assert answers[0].confidence == pytest.approx(0.5, abs=1e-7)
    assert answers[0].letters == {"Yes": pytest.approx(0.2, abs=1e-7), "No": answers[0].confidence}


@pytest.mark.parametrize(
    "reply",
    [
        *(completion(token, [entry(token, -0.01)]) for token in ("<think>", "[THINK]", "<|channel|>")),
        completion(None, [entry("Okay", -0.01)], message={"reasoning_content": "Okay"}),
        completion("", [entry("Okay", -0.01)], message={"reasoning": "Okay"}),
    ],
)
def test_a_model_that_thinks_first_gives_no_letter_and_says_why(reply: dict[str, Any]) -> None:
    with pytest.raises(BackboneError, match="enable_thinking"):
        chosen(reply)


# ---- words and their log-probabilities ---------------------------------------------------------------------


def test_a_written_reply_with_its_log_probabilities(make: Make) -> None:
    tokens = [entry("A", LN_05), entry(" red", LN_02), entry("<|im_end|>", -0.001)]
    sampling = Sampling(max_new_tokens=9, temperature=0.7, top_p=0.9, seed=11)
    with StubServer(lambda body: completion("A red", tokens, prompt_tokens=31)) as stub:
        generation = make(stub).generate(None, "What?", sampling)
        make(stub).generate(None, "What?", Sampling(seed=3))
    sent, greedy = stub.chats
    names = ("max_tokens", "temperature", "top_p", "seed", "logprobs")
    assert tuple(sent[name] for name in names) == (9, 0.7, 0.9, 11, True)
    assert "seed" not in greedy
    assert greedy["temperature"] == 0.0
    assert (generation.text, generation.finish, generation.tokens_in) == ("A red", "stop", 31)
    assert generation.logprobs == (LN_05, LN_02)
    # The geometric mean of 0.5 and 0.2.
    assert generation.confidence == pytest.approx(math.sqrt(0.1), abs=1e-7)
    assert generation.token_ids == ()


def test_a_cut_reply_keeps_its_last_token() -> None:
    tokens = [entry("one", LN_05), entry("<|x|>", LN_02)]
    cut = written(completion("one <|x|>", tokens, finish="length"))
    assert (cut.finish, cut.logprobs) == ("length", (LN_05, LN_02))


@pytest.mark.parametrize(
    ("marks", "end"),
    [
        # Ends of thoughts; the tokens of the text come last.
        (["</think>", "\n\n"], "<|im_end|>"),
        (["<|end|>", "<|start|>", "assistant", "<|channel|>", "final", "<|message|>"], "<|return|>"),
        (["[/THINK]"], "</s>"),
        (["◁/think▷"], "<|im_end|>"),
        (["</", "think", ">", "\n\n"], ""),
    ],
)
def test_thoughts_set_apart_do_not_count(marks: list[str], end: str) -> None:
    tokens = [("red", -1.0), *((mark, -0.1) for mark in marks), ("a", LN_05), (" red", LN_02), (end, 0.0)]
    reply = completion("a red", [entry(*token) for token in tokens], message={"reasoning_content": "red"})
    assert (written(reply).text, written(reply).logprobs) == ("a red", (LN_05, LN_02))


def test_a_character_of_two_tokens_is_in_neither_and_thoughts_may_take_all() -> None:
    text = [entry(part, LN_05) for part in ("a", " \ufffd", "\ufffd", " b")]
    thought = [entry("hm", -1.0), entry("[/THINK]", -0.1)]
    apart = {"reasoning_content": "hm"}
    assert written(completion("a 🙂 b", [*thought, *text], message=apart)).logprobs == (LN_05,) * 4
    # The budget ran out within the thoughts.
    cut = written(completion(None, [entry("hm", -1.0), entry("m", -0.1)], finish="length", message=apart))
    assert (cut.text, cut.logprobs) == ("", ())
    # Not a confidence of 0.
    with pytest.raises(BackboneError, match="its text is not found"):
        written(completion("red", [entry("er", LN_05), entry("d", LN_05)], message=apart))


def test_the_confidence_is_that_of_what_is_said() -> None:
    """Thoughts within the text count no more than those that a server sets apart; all of them cost tokens."""
    tokens = [("<think>", -1.0), ("A?", -2.0), ("</think>", -0.1), ("\n\n", -0.1), ("B", LN_05), (".", LN_02)]
    listed = [entry(*token) for token in tokens]
    inline = completion("<think>A?</think>\n\nB.", listed, choice={"token_ids": [1, 2, 3, 4, 5, 6]})
    apart = completion("B.", listed, message={"reasoning_content": "A?"})
    only = completion("B.", listed[4:], message={"reasoning_content": "A?"})
    for reply, counted in ((inline, 6), (apart, 6), (only, 2)):
        found = written(reply)
        assert (found.text, found.tokens, found.logprobs) == ("B.", ("B", "."), (LN_05, LN_02))
        assert found.tokens_out == counted
        assert "A?" in found.thoughts
    assert written(inline).token_ids == (5, 6)


def test_each_row_draws_with_its_own_seed_and_always_the_same(make: Make) -> None:
    def seeds(*rows: GenerateRequest) -> dict[str, int]:
        with StubServer() as stub:
            make(stub).generate_batch(rows, Sampling(temperature=1.0, seed=5))
            return {text_of(body): body["seed"] for body in stub.chats}

    rows = [GenerateRequest(None, text) for text in ("a", "b", "c")]
    drawn = seeds(*rows)
    assert drawn == seeds(*rows)
    assert drawn["a"] == 5
    assert len(set(drawn.values())) == 3
    assert all(0 <= seed < 2**31 for seed in drawn.values())
    assert seeds(GenerateRequest(None, "x", 31), GenerateRequest(None, "y", 32)) == {"x": 31, "y": 32}


# ---- what is said, and what ended it -----------------------------------------------------------------------


def said(content: Any, *, finish: Any = "stop", tokens: int = 2, **message: Any) -> dict[str, Any]:
    listed = [entry(token, LN_05) for token in ("It is", " B", "x")[:tokens]]
    return completion(content, listed, finish=finish, message=message)


TEXT = {"type": "text", "text": "It is B"}


@pytest.mark.parametrize(
    "reply",
    [
        *(said({**TEXT, "type": kind}) for kind in ("text", "Text")),
        said([{**TEXT, "type": "output_text"}]),
        said([{"type": "text", "text": "It is "}, {"type": "text", "text": "B"}]),
        said(["It is ", "B"]),
        said([{"type": "text", "text": {"value": "It is B"}}]),
        said([{"type": "image_url", "image_url": {}}, TEXT]),
        said([{"type": "thinking", "thinking": [{"type": "text", "text": "A?"}]}, TEXT]),
        said([{"type": "reasoning", "text": "A?"}, TEXT]),
        said("<think>A?</think>It is B"),
        said("A?</think>\n\nIt is B"),
        said(None, refusal="It is B"),
        {**said("It is B"), "choices": [*said("It is B")["choices"], *said("C")["choices"]]},
    ],
)
def test_what_is_said_is_read_in_every_form(reply: dict[str, Any]) -> None:
    assert (written(reply).text, written(reply).finish) == ("It is B", "stop")


@pytest.mark.parametrize(
    "reply",
    [
        said("<think>It may be A", finish="length"),
        said([{"type": "thinking", "thinking": "It may be A"}], finish="length"),
        said(None, finish="length", reasoning_content="It may be A"),
        said("", finish="length", reasoning="It may be A"),
        said("", finish="length", reasoning_details=[{"type": "reasoning.text", "text": "It may be A"}]),
    ],
)
def test_unfinished_thoughts_are_no_reply(reply: dict[str, Any]) -> None:
    found = written(reply)
    assert (found.text, found.thoughts.removeprefix("<think>"), found.finish) == ("", "It may be A", "length")


ENDED = ("stop", "eos", "eos_token", "EOS_TOKEN", "end", "end_turn", "STOP", "stop_sequence", "tool_calls")
CUT = ("length", "max_tokens", "MAX_TOKENS", "FinishReason.MAX_TOKENS")


@pytest.mark.parametrize(
    ("words", "finish"),
    [
        ((*ENDED, "FINISH_REASON_STOP", None, "", "other", 1, {"type": "stop", "matched": 151645}), "stop"),
        ((*CUT, {"type": "length", "length": 50}), "length"),
    ],
)
def test_the_words_of_servers_for_the_end_of_a_reply(words: tuple[Any, ...], finish: str) -> None:
    assert [written(said("It is B", finish=word)).finish for word in words] == [finish] * len(words)


@pytest.mark.parametrize("word", ["content_filter", "SAFETY", "error", "abort"])
def test_a_reply_that_the_server_broke_off_is_an_error(word: str) -> None:
    reply = read_completion(json.dumps(said("It is", finish=word)).encode())
    for read in (read_generation, read_reply):
        with pytest.raises(BackboneError, match=word):
            read(reply, "server", 50)


@pytest.mark.parametrize("cut", [[], [entry("It", LN_05)]])
def test_a_reply_that_a_stopped_vllm_breaks_off_is_asked_for_again(cut: list[Any], make: Make) -> None:
    """It gives the tokens that there are, with status 200: none of a letter, and of others the first ones."""
    broken = completion("It" if cut else "", cut, finish="abort")
    with StubServer(lambda body: completion("A", [entry("A", LN_05, [("A", LN_05)])])) as stub:
        made = make(stub)
        stub.faults = [lambda body: broken]
        assert made.answer(None, COLOURS).letter == "A"
        stub.faults = [lambda body: broken]
        assert made.generate(None, "What?").text == "A"
        assert len(stub.chats) == 4


def test_planners_and_agents_read_a_servers_replies_alike() -> None:
    """What a reply of at most so many tokens says, and whether it was cut off."""

    def planner(limit: int) -> tuple[str, bool]:
        with ExitStack() as closing:
            made = ApiPlanner(f"api:served@{stub.url}", sampling=Sampling(limit), retries=0)
            closing.callback(made.close)
            try:
                (reply,) = made.write([PlanRequest("plan", "What?", Question.open("What?"))])
            except EmptyReply as error:
                return "", "limit" in str(error)
        return reply.text, reply.notes.get("cut off") == f"after {limit} tokens"

    def agent(limit: int) -> tuple[str, bool]:
        model = ApiModel(api_config(f"api:served@{stub.url}", "model", retries=0))
        reply = model.reply("What?", [], Sampling(limit))
        return reply.text, reply.cut_at == limit

    askers: tuple[Callable[[int], tuple[str, bool]], ...] = (planner, agent)
    for made, limit, expected in (
        (said([{"type": "thinking", "thinking": "A?"}, TEXT]), 50, ("It is B", False)),
        (said([], finish="length"), 50, ("", True)),
        (said("It is B", finish="max_tokens"), 50, ("It is B", True)),
        (said("It is B", finish=None, tokens=3), 3, ("It is B", True)),
        (said("It is B", finish=None, tokens=3), 4, ("It is B", False)),
    ):
        with StubServer(lambda body, made=made: made) as stub:  # type: ignore[misc]
            assert [ask(limit) for ask in askers] == [expected] * 2
    with StubServer(lambda body: said("It is", finish="error")) as stub:
        for ask in askers:
            with pytest.raises(BackboneError, match="error"):
                ask(50)
