"""What the server backbone reads out of replies, against probabilities worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.support.server_cases import COLOURS, LN_005, LN_01, LN_02, LN_05, LN_08, Make
from tests.support.stub_server import StubServer, completion, entry, letter, text_of
from videopro.backbones import GenerateRequest, Sampling, YesNoRequest
from videopro.errors import BackboneError
from videopro.question import prompts


def test_confidence_and_letters_are_the_listed_probabilities(make: Make) -> None:
    top = [("B", LN_08), ("A", LN_01), ("Blue", LN_005)]
    with StubServer(lambda body: letter("B", top, prompt_tokens=123)) as stub:
        answer = make(stub).answer(None, COLOURS)
    assert answer.letter == "B"
    assert answer.confidence == pytest.approx(0.8, abs=1e-7)
    # C is not among the listed tokens; nothing is renormalised.
    assert answer.letters == {
        "A": pytest.approx(0.1, abs=1e-7),
        "B": pytest.approx(0.8, abs=1e-7),
        "C": 0.0,
    }
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
        ([("The", LN_05), ("A", LN_02)], None, 0.0, 0.2),
        ([("D", LN_05), ("A", LN_02)], None, 0.0, 0.2),
        ([("a", LN_05), ("A", LN_02)], None, 0.0, 0.2),
        ([("A.", LN_05), ("A", LN_02)], None, 0.0, 0.2),
        ([("\n", LN_05), ("A", LN_02)], None, 0.0, 0.2),
        # Characters that no reader sees, and a full-width letter.
        *(([(token, LN_05), ("A", LN_02)], "B", 0.5, 0.2) for token in ("\ufeffB", "\u200bB", "\u200fB")),
        *(([(token, LN_05), ("A", LN_02)], "B", 0.5, 0.2) for token in ("\u2060B", "\uff22")),
        # OpenAI's sign for a token that is very unlikely.
        ([("A", 0.0), ("B", -9999.0)], "A", 1.0, 1.0),
    ],
)
def test_only_a_token_that_is_the_letter_counts(
    top: list[tuple[str, float]], letter_read: str | None, confidence: float, letter_a: float, make: Make
) -> None:
    with StubServer(lambda body: letter(top[0][0], top)) as stub:
        answer = make(stub).answer(None, COLOURS)
    assert answer.letter == letter_read
    assert answer.confidence == pytest.approx(confidence, abs=1e-7)
    assert answer.letters["A"] == pytest.approx(letter_a, abs=1e-7)
    if letter_read is not None:
        assert answer.letters[letter_read] == answer.confidence


def test_an_empty_reply_is_unparsed(make: Make) -> None:
    with StubServer(lambda body: completion("", [])) as stub:
        answer = make(stub).answer(None, COLOURS)
    assert (answer.letter, answer.confidence, answer.letters) == (None, 0.0, {"A": 0.0, "B": 0.0, "C": 0.0})


def test_yes_and_no(make: Make) -> None:
    with StubServer(lambda body: letter("No", [("No", LN_05), ("Yes", LN_02), ("A", LN_01)])) as stub:
        answer = make(stub).yes_no(None, prompts.yes_no("Is it raining?"))
    assert text_of(stub.chats[0]) == prompts.yes_no("Is it raining?")
    assert stub.chats[0]["max_tokens"] == 1
    assert (answer.letter, answer.confidence) == ("No", pytest.approx(0.5, abs=1e-7))
    assert answer.letters == {"Yes": pytest.approx(0.2, abs=1e-7), "No": answer.confidence}


def test_several_yes_and_no_in_their_order(make: Make) -> None:
    def reply(body: Any) -> Any:
        word = "Yes" if "snow" in text_of(body) else "No"
        return letter(word, [(word, LN_05)])

    asked = [YesNoRequest(None, prompts.yes_no(f"Is there {thing}?")) for thing in ("rain", "snow", "fog")]
    with StubServer(reply) as stub:
        answers = make(stub).yes_no_batch(asked)
        assert len(stub.chats) == 3
    assert [answer.letter for answer in answers] == ["No", "Yes", "No"]


@pytest.mark.parametrize(
    "reply",
    [
        completion(None, [entry("<think>", -0.01)], finish="length"),
        completion("[THINK]", [entry("[THINK]", -0.01)], finish="length"),
        completion("<|channel|>", [entry("<|channel|>", -0.01)], finish="length"),
        completion(None, [entry("Okay", -0.01)], finish="length", message={"reasoning_content": "Okay"}),
        completion("", [entry("Okay", -0.01)], finish="length", message={"reasoning": "Okay"}),
    ],
)
def test_a_model_that_thinks_first_gives_no_letter_and_says_why(reply: dict[str, Any], make: Make) -> None:
    with StubServer(lambda body: reply) as stub, pytest.raises(BackboneError, match="enable_thinking"):
        make(stub).answer(None, COLOURS)


def test_a_written_reply_with_its_log_probabilities(make: Make) -> None:
    reply = completion(
        "A red", [entry("A", LN_05), entry(" red", LN_02), entry("<|im_end|>", -0.001)], prompt_tokens=31
    )
    with StubServer(lambda body: reply) as stub:
        generation = make(stub).generate(
            None, "What?", Sampling(max_new_tokens=9, temperature=0.7, top_p=0.9, seed=11)
        )
    sent = stub.chats[0]
    assert {name: sent[name] for name in ("max_tokens", "temperature", "top_p", "seed", "logprobs")} == {
        "max_tokens": 9,
        "temperature": 0.7,
        "top_p": 0.9,
        "seed": 11,
        "logprobs": True,
    }
    assert (generation.text, generation.finish, generation.tokens_in) == ("A red", "stop", 31)
    assert generation.logprobs == (LN_05, LN_02)
    # The geometric mean of 0.5 and 0.2.
    assert generation.confidence == pytest.approx(math.sqrt(0.1), abs=1e-7)
    assert generation.token_ids == ()


def test_greedy_writing_sends_no_seed_and_a_cut_reply_keeps_its_last_token(make: Make) -> None:
    reply = completion("one <|x|>", [entry("one", LN_05), entry("<|x|>", LN_02)], finish="length")
    with StubServer(lambda body: reply) as stub:
        generation = make(stub).generate(None, "What?", Sampling(seed=3))
    assert "seed" not in stub.chats[0]
    assert stub.chats[0]["temperature"] == 0.0
    assert (generation.finish, generation.logprobs) == ("length", (LN_05, LN_02))


def test_token_ids_of_a_server_that_lists_them(make: Make) -> None:
    reply = completion("hi", [entry("hi", LN_05), entry("", -0.001)], choice={"token_ids": [6023, 151645]})
    with StubServer(lambda body: reply) as stub:
        generation = make(stub, extra_body={"return_token_ids": True}).generate(None, "What?")
    assert stub.chats[0]["return_token_ids"] is True
    assert (generation.token_ids, generation.logprobs) == ((6023,), (LN_05,))


@pytest.mark.parametrize(
    ("content", "tokens", "logprobs"),
    [
        (
            "red",
            [("hm", -1.0), ("</think>", -0.1), ("\n\n", -0.1), ("red", LN_05), ("<|im_end|>", 0.0)],
            (LN_05,),
        ),
        # Ends of thoughts that are no single </think>; the tokens of the text come last.
        *(
            (
                "a red",
                [("red", -1.0), *((mark, -0.1) for mark in marks), ("a", LN_05), (" red", LN_02), end],
                (LN_05, LN_02),
            )
            for marks, end in [
                (
                    ["<|end|>", "<|start|>", "assistant", "<|channel|>", "final", "<|message|>"],
                    ("<|return|>", 0.0),
                ),
                (["[/THINK]"], ("</s>", 0.0)),
                (["◁/think▷"], ("<|im_end|>", 0.0)),
                (["</", "think", ">", "\n\n"], ("", 0.0)),
            ]
        ),
        # A character of two tokens is in neither.
        (
            "a 🙂 b",
            [("hm", -1.0), ("[/THINK]", -0.1), *((part, LN_05) for part in ("a", " \ufffd", "\ufffd", " b"))],
            (LN_05,) * 4,
        ),
        # The budget ran out within the thoughts.
        (None, [("hm", -1.0), ("m", -0.1)], ()),
    ],
)
def test_thoughts_set_apart_do_not_count(
    content: str | None, tokens: list[tuple[str, float]], logprobs: tuple[float, ...], make: Make
) -> None:
    finish = "stop" if content else "length"
    reply = completion(
        content, [entry(*token) for token in tokens], finish=finish, message={"reasoning_content": "hm"}
    )
    with StubServer(lambda body: reply) as stub:
        generation = make(stub).generate(None, "What?")
    assert (generation.text, generation.logprobs) == (content or "", logprobs)


def test_a_text_that_is_not_among_the_tokens_is_an_error(make: Make) -> None:
    """Not a confidence of 0."""
    reply = completion("red", [entry("er", LN_05), entry("d", LN_05)], message={"reasoning_content": "hm"})
    with (
        StubServer(lambda body: reply) as stub,
        pytest.raises(BackboneError, match="its text is not among them"),
    ):
        make(stub).generate(None, "What?")


def test_each_row_draws_with_its_own_seed_and_always_the_same(make: Make) -> None:
    rows = [GenerateRequest(None, text) for text in ("a", "b", "c")]
    seeds = []
    for _ in range(2):
        with StubServer() as stub:
            make(stub).generate_batch(rows, Sampling(temperature=1.0, seed=5))
            seeds.append({text_of(body): body["seed"] for body in stub.chats})
    assert seeds[0] == seeds[1]
    assert seeds[0]["a"] == 5
    assert len(set(seeds[0].values())) == 3
    assert all(0 <= seed < 2**31 for seed in seeds[0].values())


def test_a_requests_own_seed_is_sent_for_it(make: Make) -> None:
    with StubServer(lambda body: completion("x", [entry("x", -0.1)])) as stub:
        rows = [GenerateRequest(None, f"row {seed}", seed) for seed in (31, 32)]
        make(stub).generate_batch(rows, Sampling(temperature=1.0, seed=5))
        assert {text_of(body): body["seed"] for body in stub.chats} == {"row 31": 31, "row 32": 32}
