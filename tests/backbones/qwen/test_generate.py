"""Written replies against transformers' own `generate` and against a plain forward pass over what was
written."""

import math
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.support.qwen_models import FAMILIES, backbone, leaning, official_inputs, pictures, reference
from videopro.backbones.base import GenerateRequest, Generation, Sampling
from videopro.backbones.qwen.runner import QwenRunner
from videopro.errors import ConfigError

ALL = list(FAMILIES)
# Experts change none of what is compared here.
DENSE = [family for family in ALL if "moe" not in family]
# float32; eight steps of a tiny model
TOLERANCE = 1e-4


def same(left: Generation, right: Generation) -> bool:
    return (
        left.token_ids == right.token_ids
        and left.text == right.text
        and left.finish == right.finish
        and left.tokens_in == right.tokens_in
        and left.logprobs == pytest.approx(right.logprobs, abs=TOLERANCE)
    )


def rescored(family: str, frames: Any, text: str, ids: tuple[int, ...]) -> list[float]:
    """Log-probabilities of tokens from one plain pass over prompt and reply: no cache, no loop."""
    model, processor = reference(family)
    inputs = dict(official_inputs(family, processor, frames, text))
    length = inputs["input_ids"].shape[1]
    added = torch.tensor([ids])
    inputs["input_ids"] = torch.cat([inputs["input_ids"], added], dim=1)
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    inputs["mm_token_type_ids"] = torch.cat(
        [torch.as_tensor(inputs["mm_token_type_ids"]), torch.zeros_like(added)], dim=1
    )
    with torch.no_grad():
        logits = model(**inputs).logits[0, length - 1 : -1].double()
    return logits.log_softmax(-1).gather(1, added.T)[:, 0].tolist()


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize("seen", [True, False])
def test_greedy_replies_are_those_of_generate(family: str, seen: bool) -> None:
    frames = pictures(4) if seen else None
    own = backbone(family)
    model, processor = reference(family)
    out = model.generate(
        **official_inputs(family, processor, frames, "Which?"),
        max_new_tokens=8,
        do_sample=False,
        suppress_tokens=own._inputs.visual_tokens(),
        return_dict_in_generate=True,
        output_logits=True,
    )
    made = own.generate(frames, "Which?", Sampling(max_new_tokens=8))
    written = out.sequences[0, -len(out.logits) :].tolist()
    scores = torch.cat(out.logits).double().log_softmax(-1).gather(1, torch.tensor(written)[:, None])[:, 0]
    ended = written[-1] == processor.tokenizer.eos_token_id
    if ended:
        written, scores = written[:-1], scores[:-1]
    assert list(made.token_ids) == written
    assert made.logprobs == pytest.approx(scores.tolist(), abs=TOLERANCE)
    assert made.text == processor.tokenizer.decode(written, skip_special_tokens=True)
    assert made.confidence == pytest.approx(math.exp(float(scores.mean())), abs=TOLERANCE)
    assert made.finish == ("stop" if ended else "length")


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl", "qwen3_5"])
def test_temperature_changes_what_is_drawn_and_not_what_is_reported(family: str) -> None:
    # Of a video of many seconds: Qwen2.5-VL spreads it over more positions than the whole prompt has tokens.
    own, frames = backbone(family), pictures(4, times=[0.0, 60.0, 120.0, 180.0])
    sampling = Sampling(max_new_tokens=10, temperature=3.0, top_p=0.9, seed=1)
    made = own.generate(frames, "Which?", sampling)
    assert len(made.token_ids) == 10
    assert made.token_ids != own.generate(frames, "Which?", Sampling(max_new_tokens=10)).token_ids
    assert made.logprobs == pytest.approx(rescored(family, frames, "Which?", made.token_ids), abs=TOLERANCE)
    with own.prefix(frames) as prefix:
        assert same(own.generate(prefix, "Which?", sampling), made)


@pytest.mark.parametrize("family", ALL)
def test_batches_and_prefixes_write_the_same(family: str) -> None:
    own = backbone(family)
    frames, other, sampling = pictures(4), pictures(3, seed=4), Sampling(max_new_tokens=6)
    longer = "How many rings are there, and which of them?"
    visuals = [frames, None, list(frames), other]
    texts = ["Which?", "How many rings are there?", longer, "What colour?"]
    asked = [GenerateRequest(*pair) for pair in zip(visuals, texts, strict=True)]
    alone = [own.generate(request.visual, request.text, sampling) for request in asked]
    assert all(same(*pair) for pair in zip(own.generate_batch(asked, sampling), alone, strict=True))
    with own.prefix(frames) as prefix:
        shared = [GenerateRequest(prefix, texts[0]), GenerateRequest(prefix, texts[2])]
        for _ in range(2):
            made = own.generate_batch(shared, sampling)
            assert all(same(*pair) for pair in zip(made, alone[::2], strict=True))


@pytest.mark.parametrize("family", DENSE)
def test_replies_about_several_prefixes_are_written_together(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Videos of other lengths and prompts of other lengths, two about one of the videos."""
    own = backbone(family)
    videos = [pictures(4), pictures(2, seed=5), pictures(6, seed=6, times=[0.0, 9.0, 21.0, 40.0, 60.0, 90.0])]
    asked = [
        (0, "Which?"),
        (1, "How many rings are there, and which of them?"),
        (2, "What?"),
        (0, "Where is it?"),
    ]
    sampling = Sampling(max_new_tokens=6, temperature=1.5)
    alone = [
        own.generate(videos[video], text, replace(sampling, seed=seed))
        for seed, (video, text) in enumerate(asked)
    ]
    passes: list[int] = []
    start_after = QwenRunner.start_after
    monkeypatch.setattr(
        QwenRunner,
        "start_after",
        lambda self, heads, tails: passes.append(len(tails)) or start_after(self, heads, tails),
    )
    with ExitStack() as stack:
        prefixes = [stack.enter_context(own.prefix(video)) for video in videos]
        requests = [GenerateRequest(prefixes[video], text, seed) for seed, (video, text) in enumerate(asked)]
        for _ in range(2):
            made = own.generate_batch(requests, sampling)
            assert all(same(*pair) for pair in zip(made, alone, strict=True))
    # A recurrent model's rows cannot be padded.
    assert passes == ([1, 1, 1, 1] * 2 if own._runner.is_recurrent else [4, 4])


def test_a_seed_fixes_each_row_whatever_the_batch() -> None:
    own = backbone("qwen3_vl")
    sampling = Sampling(max_new_tokens=8, temperature=2.0, seed=7)
    which, before = GenerateRequest(None, "Which?"), torch.get_rng_state()
    rows = own.generate_batch([which] * 3, sampling)
    assert len({row.token_ids for row in rows}) == 3
    again = own.generate_batch([which, GenerateRequest(None, "How many?")], sampling)
    assert again[0].token_ids == rows[0].token_ids
    assert torch.equal(torch.get_rng_state(), before)
    unseeded = replace(sampling, seed=None)
    assert len({own.generate(None, "Which?", unseeded).token_ids for _ in range(3)}) == 3
    # A request with a seed of its own is written as in a call with that seed, wherever it stands.
    alone = own.generate(None, "Which?", replace(sampling, seed=11))
    mixed = own.generate_batch([which, replace(which, seed=12), replace(which, seed=11)], sampling)
    assert same(mixed[2], alone)
    assert same(mixed[0], rows[0])
    assert len({row.token_ids for row in mixed}) == 3


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_visual_tokens_are_never_written(temperature: float) -> None:
    own, tokenizer = backbone("qwen3_vl"), reference("qwen3_vl")[1].tokenizer
    sampling = Sampling(max_new_tokens=5, temperature=temperature, seed=0)
    for name in ("<|video_pad|>", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>"):
        banned = tokenizer.convert_tokens_to_ids(name)
        with leaning(own._runner.model, banned):
            made = own.generate(pictures(2), "Which?", sampling)
        assert len(made.token_ids) == 5
        assert banned not in made.token_ids
        # The model wanted that token, and its log-probabilities say so.
        assert max(made.logprobs) < -20


def test_the_end_is_not_part_of_the_reply() -> None:
    own, tokenizer = backbone("qwen3_vl"), reference("qwen3_vl")[1].tokenizer
    with leaning(own._runner.model, tokenizer.convert_tokens_to_ids("<|im_end|>")):
        made = own.generate(None, "Which?", Sampling(max_new_tokens=5))
    assert made == Generation("", (), (), "stop", made.tokens_in, is_constrained=False)
    assert made.confidence == 0.0


@pytest.mark.parametrize(
    ("name", "value"), [("max_new_tokens", 0), ("temperature", -1.0), ("top_p", 0.0), ("seed", -1)]
)
def test_invalid_settings_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{name} is {value}"):
        Sampling(**{name: value})
    with pytest.raises(ConfigError, match="seed is -2"):
        GenerateRequest(None, "Which?", -2)
