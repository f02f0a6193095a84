"""Letters and confidences against transformers' own `generate`; batches and shared prefixes against single
calls.

Everything runs in float32, where two ways to compute the same logits agree to about 1e-6; tests allow 1e-5.
"""

import weakref
from contextlib import ExitStack
from typing import Any

import pytest
import torch

from tests.support.qwen_models import (
    FAMILIES,
    OTHER,
    QUESTION,
    TOLERANCE,
    backbone,
    close,
    leaning,
    load,
    official_inputs,
    pictures,
    reference,
)
from videopro.backbones.base import ChoiceRequest
from videopro.errors import BackboneError
from videopro.question import prompts

ALL = list(FAMILIES)
# Experts change none of what is compared here.
DENSE = [family for family in ALL if "moe" not in family]


def first_scores(family: str, frames: Any, text: str, lean: tuple[int, float] = (0, 0.0)) -> torch.Tensor:
    """Scores of the first token that `generate` itself reports."""
    model, processor = reference(family)
    inputs = official_inputs(family, processor, frames, text)
    options = {"do_sample": False, "return_dict_in_generate": True, "output_logits": True}
    with leaning(model, *lean):
        return model.generate(**inputs, max_new_tokens=1, **options).logits[0][0]


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize("seen", [True, False])
def test_the_distribution_is_that_of_generate(family: str, seen: bool) -> None:
    frames = pictures(4) if seen else None
    chances = first_scores(family, frames, prompts.multiple_choice(QUESTION)).double().softmax(-1)
    made = backbone(family).answer(frames, QUESTION)
    ids = reference(family)[1].tokenizer.convert_tokens_to_ids(["A", "B", "C"])
    assert [made.letters[letter] for letter in "ABC"] == pytest.approx(chances[ids].tolist(), abs=TOLERANCE)
    # A random model's most likely token is not one of the letters: the reply is unparsed, never guessed.
    assert int(chances.argmax()) not in ids
    assert (made.letter, made.confidence, made.tokens_out) == (None, 0.0, 1)


def test_a_letter_that_names_no_option_is_not_an_answer() -> None:
    own = backbone("qwen3_vl")
    with leaning(own._runner.model, reference("qwen3_vl")[1].tokenizer.convert_tokens_to_ids("C")):
        made = own.answer(pictures(4), OTHER)  # A and B only
        assert (made.letter, made.confidence, made.raw) == (None, 0.0, "C")
        assert set(made.letters) == {"A", "B"}
        offered = own.answer(pictures(4), QUESTION)
    assert (offered.letter, offered.raw, offered.confidence) == ("C", "C", offered.letters["C"])


def test_yes_and_no() -> None:
    own, tokenizer = backbone("qwen3_vl"), reference("qwen3_vl")[1].tokenizer
    scores = first_scores("qwen3_vl", pictures(4), "Is there a ring?").double().softmax(-1)
    yes, no = tokenizer.convert_tokens_to_ids(["Yes", "No"])
    made = own.yes_no(pictures(4), "Is there a ring?")
    assert made.letters["Yes"] == pytest.approx(float(scores[yes]), abs=TOLERANCE)
    with leaning(own._runner.model, no):
        made = own.yes_no(None, "Is there a ring?")
    assert made.letter == "No"
    assert made.confidence > 0.99


def mixed() -> list[ChoiceRequest]:
    return [
        ChoiceRequest(pictures(4), QUESTION),
        ChoiceRequest(None, OTHER),
        ChoiceRequest(pictures(7, seed=1), OTHER, "Which?"),
        ChoiceRequest(pictures(1, seed=2), QUESTION),
        ChoiceRequest(None, QUESTION, "Pick red."),
        ChoiceRequest(pictures(2, 96, 32, seed=6), QUESTION),
    ]


@pytest.mark.parametrize("family", ALL)
def test_a_batch_of_all_kinds_equals_single_calls(family: str) -> None:
    own = backbone(family)
    together = own.answer_batch(mixed())
    alone = [own.answer(request.visual, request.question, prompt=request.prompt) for request in mixed()]
    assert all(close(*pair) for pair in zip(together, alone, strict=True))
    # The rows differ by far more than the tolerance, so that a mix-up would show.
    pairs = [(answer, earlier) for i, answer in enumerate(alone) for earlier in alone[:i]]
    assert min(max(abs(x.letters[key] - y.letters[key]) for key in "AB") for x, y in pairs) > 3 * TOLERANCE


def test_small_batches_give_the_same_as_large_ones() -> None:
    small, large = load("qwen3_vl", batch_size=2), backbone("qwen3_vl")
    pairs = zip(small.answer_batch(mixed()), large.answer_batch(mixed()), strict=True)
    assert all(close(*pair) for pair in pairs)


@pytest.mark.parametrize("family", DENSE)
def test_a_prefix_does_not_change_answers(family: str) -> None:
    own, frames = backbone(family), pictures(5)
    asked = [(QUESTION, None), (OTHER, None), (QUESTION, "Which?")]
    alone = [own.answer(frames, question, prompt=prompt) for question, prompt in asked]
    with own.prefix(frames) as prefix:
        assert prefix.tokens < alone[0].tokens_in
        single = [own.answer(prefix, question, prompt=prompt) for question, prompt in asked]
        requests = [ChoiceRequest(prefix, question, prompt) for question, prompt in asked]
        # Twice, since a call that wrote into the prefix would spoil the next one.
        batched = [own.answer_batch(requests), own.answer_batch(requests)]
    for made in (single, *batched):
        assert all(close(*pair) for pair in zip(made, alone, strict=True))


@pytest.mark.parametrize("family", DENSE)
def test_passes_about_several_videos_have_as_many_rows_as_fit(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if these are prefixes, of other lengths. On a CPU, `batch_size` rows."""
    own = load(family, batch_size=2)
    visuals = [pictures(number, seed=number) for number in (2, 4, 6, 3)]
    asked = [
        (QUESTION, None),
        (OTHER, "Which?"),
        (QUESTION, "What is it, of all that is shown?"),
        (OTHER, None),
    ]
    alone = [
        own.answer(visual, each, prompt=text) for visual, (each, text) in zip(visuals, asked, strict=True)
    ]
    longest = max(answer.tokens_in for answer in alone)
    passes: list[int] = []
    hook = own._runner.model.lm_head.register_forward_hook(lambda _m, _a, out: passes.append(len(out)))
    # Half of the memory, for three of the longest, counts.
    for free, expected in ((0, [2, 2]), (2 * 3 * own._runner.pass_bytes(longest), [3, 1]), (2**40, [4])):
        monkeypatch.setattr(own, "_free", lambda free=free: free)
        passes.clear()
        made = own.answer_batch(
            [ChoiceRequest(visual, *rest) for visual, rest in zip(visuals, asked, strict=True)]
        )
        assert passes == expected
        assert all(close(*pair) for pair in zip(made, alone, strict=True))
    with ExitStack() as stack:
        prefixes = [stack.enter_context(own.prefix(visual)) for visual in visuals]
        passes.clear()
        made = own.answer_batch(
            [ChoiceRequest(prefix, *rest) for prefix, rest in zip(prefixes, asked, strict=True)]
        )
    # A recurrent model's rows cannot be padded.
    assert passes == ([1] * 4 if own._runner.is_recurrent else [4])
    assert all(close(*pair) for pair in zip(made, alone, strict=True))
    hook.remove()


@pytest.mark.parametrize("family", DENSE)
def test_questions_about_the_same_frames_share_them(family: str) -> None:
    own = backbone(family)
    frames, others = pictures(4), pictures(3, seed=5)
    asked = [(frames, QUESTION), (others, OTHER), (frames, OTHER), (None, OTHER)]
    requests = [ChoiceRequest(*pair) for pair in asked]
    seen: list[int] = []
    hook = own._runner.model.model.visual.register_forward_hook(lambda *_: seen.append(1))
    made = own.answer_batch(requests)
    hook.remove()
    assert len(seen) == 2  # two videos, four questions
    alone = [own.answer(request.visual, request.question) for request in requests]
    assert all(close(*pair) for pair in zip(made, alone, strict=True))


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl", "qwen3_5"])
def test_one_pass_and_one_row_of_logits(family: str) -> None:
    own = backbone(family)
    passes: list[tuple[int, ...]] = []
    hook = own._runner.model.lm_head.register_forward_hook(
        lambda _m, _a, out: passes.append(tuple(out.shape[:2]))
    )
    own.answer(pictures(4), QUESTION)
    assert passes == [(1, 1)]
    hook.remove()


def test_a_prefix_is_refused_when_closed_or_elsewhere_and_a_closed_backbone_answers_nothing() -> None:
    own, other = backbone("qwen3_vl"), load("qwen3_vl")
    prefix = own.prefix(pictures(2))
    with pytest.raises(BackboneError, match="another backbone"):
        other.answer(prefix, QUESTION)
    for _ in range(2):
        prefix.close()
        other.close()
    with pytest.raises(BackboneError, match=r"prefix.* closed"):
        own.answer(prefix, QUESTION)
    with pytest.raises(BackboneError, match="is closed; load it again"):
        other.answer(None, QUESTION)


def test_running_out_of_memory_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    own = load("qwen3_vl")

    allocated: list[weakref.ref[torch.Tensor]] = []

    def fail(*_: Any, **__: Any) -> None:
        states = torch.zeros(8)
        allocated.append(weakref.ref(states))
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(own._runner.model, "forward", fail)
    expected = r"ran out of memory on cpu; lower 'batch_size' \(now 8\)"
    with pytest.raises(BackboneError, match=expected) as kept:
        own.answer(pictures(2), QUESTION)
    # Whoever keeps the error keeps none of the memory, which the next pass needs.
    assert [tensor() for tensor in allocated] == [None]
    assert kept.value is not None
