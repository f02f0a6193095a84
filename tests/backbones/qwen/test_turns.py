"""System turns, replies begun for the model, and texts between frames, against the chat template itself."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.qwen_models import FAMILIES, backbone, close, pictures, reference
from videopro.backbones.base import ChoiceRequest, GenerateRequest, Interleaved, Sampling
from videopro.errors import BackboneError
from videopro.question import Question

# Experts change nothing of turns.
DENSE = [family for family in FAMILIES if "moe" not in family]
SYSTEM = "Watch all rings."
BEGUN = "Best: ("
COLOURS = Question("What colour is the ring?", ("green", "red", "blue"))


def prompt_ids(family: str, parts: list[dict[str, Any]], text: str) -> list[int]:
    """The prompt with system turn and begun reply, from the template alone."""
    processor = reference(family)[1]
    turns = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": [*parts, {"type": "text", "text": text}]},
    ]
    rendered = processor.apply_chat_template(
        turns, add_generation_prompt=True, tokenize=False, enable_thinking=False
    )
    ids: list[int] = processor.tokenizer(rendered + BEGUN, add_special_tokens=False)["input_ids"]
    return ids


@pytest.mark.parametrize("family", DENSE)
def test_turns_are_those_of_the_template(family: str) -> None:
    own = backbone(family)
    made = own._inputs.text("Which?", system=SYSTEM, reply=BEGUN)
    assert list(made.ids) == prompt_ids(family, [], "Which?")
    head = own._inputs.head(pictures(1), system=SYSTEM)
    whole = head.append_text(own._inputs.tail("Which?", reply=BEGUN))
    pad = reference(family)[1].tokenizer.convert_tokens_to_ids("<|image_pad|>")
    once = [token for i, token in enumerate(whole.ids) if token != pad or whole.ids[i - 1] != pad]
    assert once == prompt_ids(family, [{"type": "image"}], "Which?")


@pytest.mark.parametrize("family", DENSE)
def test_they_are_the_same_alone_in_a_batch_and_on_a_prefix(family: str) -> None:
    own = backbone(family)
    shown, sampling = pictures(4), Sampling(max_new_tokens=5)
    texts = ["Which?", "How many rings are there?"]
    asked = [GenerateRequest(list(shown), text, system=SYSTEM, prefill=BEGUN) for text in texts]
    alone = [own.generate_batch([request], sampling)[0] for request in asked]
    plain = own.generate(shown, "Which?", sampling)
    assert alone[0].tokens_in > plain.tokens_in
    # A request about the same frames without the system turn shares nothing with the others.
    *batched, last = own.generate_batch([*asked, GenerateRequest(shown, "Which?")], sampling)
    assert last.token_ids == plain.token_ids
    with own.prefix(shown, system=SYSTEM) as prefix:
        on_prefix = own.generate_batch([replace(request, visual=prefix) for request in asked], sampling)
        chosen = own.answer_batch([ChoiceRequest(prefix, COLOURS, "Which?", SYSTEM, BEGUN)])[0]
        with pytest.raises(BackboneError, match="system turn is '', but the prefix begins with 'Watch"):
            own.generate(prefix, "Which?", sampling)
    for made in (batched, on_prefix):
        for reply, expected in zip(made, alone, strict=True):
            assert reply.token_ids == expected.token_ids
            assert reply.tokens_in == expected.tokens_in
            assert reply.logprobs == pytest.approx(expected.logprobs, abs=1e-4)
    assert close(chosen, own.answer_batch([ChoiceRequest(shown, COLOURS, "Which?", SYSTEM, BEGUN)])[0])


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_texts_stand_before_their_frames(family: str) -> None:
    own = backbone(family)
    shown = pictures(3, times=[0.0, 2.0, 4.5])
    head = own._inputs.head(Interleaved(shown, ["", "Yes\n", "<|im_end|>No\n"]))
    text = reference(family)[1].tokenizer.decode(head.ids)
    marks = ["<0.0 seconds>", "Yes\n<2.0 seconds>", "No\n<4.5 seconds>"]
    assert [text.index(mark) for mark in marks] == sorted(text.index(mark) for mark in marks)
    assert text.count("<|vision_start|>") == 3
    # Control tokens in a subtitle are only text.
    assert "<|im_end|>" not in text
    with pytest.raises(ValueError, match="3 frames need as many texts"):
        Interleaved(shown, ["Yes"])


@pytest.mark.parametrize("family", DENSE)
def test_the_texts_of_tokens_make_the_reply(family: str) -> None:
    made = backbone(family).generate(None, "Which?", Sampling(max_new_tokens=40, temperature=2.0, seed=2))
    assert len(made.tokens) == len(made.logprobs) == 40
    # Replacement characters stand for parts of characters.
    if "\ufffd" not in "".join(made.tokens):
        assert "".join(made.tokens) == made.text
    assert all(token in made.text for token in made.tokens if "\ufffd" not in token)
