"""Vision features in place of pixels: the same logits. They are computed once for the same
frames, whatever the adapter's state, and never used for others."""

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.qwen_models import (
    FAMILIES,
    OTHER,
    PIXELS,
    QUESTION,
    checkpoint,
    close,
    load,
    lora,
    pictures,
    reference,
)
from videopro.backbones import BackboneConfig
from videopro.backbones.base import ChoiceRequest, GenerateRequest, Interleaved, Sampling, Stills
from videopro.backbones.qwen import (
    EncodedPrompt,
    QwenBackbone,
    QwenRunner,
    encode_vision,
    features,
    load_model,
)
from videopro.errors import BackboneError
from videopro.question import Answer, Question


def prompts(family: str) -> list[EncodedPrompt]:
    """Rows of several lengths: a video; text alone; a picture, a video and another picture."""
    inputs = load(family)._inputs
    video = inputs.head(pictures(4)).append_text(inputs.tail("Which?"))
    kinds = ("image", "video", "image")
    both = inputs.encode(
        inputs.render([{"role": "user", "content": [{"type": kind} for kind in kinds]}]),
        images=[frame.image for frame in pictures(2, seed=1)],
        videos=[inputs.as_video(pictures(2, 64, 96, seed=2))],
        size=inputs._size(1, 0),
    )
    return [video, inputs.text("How many rings?"), both]


def run(model: Any, row: QwenRunner, rows: list[EncodedPrompt]) -> torch.Tensor:
    logits: torch.Tensor = model(**row._batch(rows, row._positions(rows)), use_cache=False).logits
    return logits


# Those with experts have the same tower.
@pytest.mark.parametrize("family", [family for family in FAMILIES if "moe" not in family])
def test_features_give_the_logits_of_pixels(family: str) -> None:
    model, _ = reference(family)
    rows = prompts(family)
    runner = QwenRunner(model, ends=[0], pad=0)
    with torch.no_grad():
        expected = run(model, runner, rows)
        encoded = [encode_vision(model.model, row, runner.device) for row in rows]
        model.model.visual.register_forward_hook(lambda *_: pytest.fail("the tower ran again"))
        got = run(model, runner, encoded)
    assert encoded[0].features
    assert not encoded[1].features
    # The tower sums in another order for one row than for three. Tokens are on the right, after padding.
    for number, row in enumerate(rows):
        torch.testing.assert_close(
            got[number, -len(row.ids) :], expected[number, -len(row.ids) :], atol=2e-4, rtol=1e-3
        )


def test_rows_with_features_and_rows_with_pixels_are_refused() -> None:
    model, _ = reference("qwen3_vl")
    video, _, both = prompts("qwen3_vl")
    runner = QwenRunner(model, ends=[0], pad=0)
    with torch.no_grad(), pytest.raises(ValueError, match="some rows have features and others pixels"):
        run(model, runner, [encode_vision(model.model, video, runner.device), replace(both)])


TOWER = r".*visual.*\.(qkv|proj)"


def counted(own: QwenBackbone) -> list[int]:
    """Grows by one number with each call of the tower."""
    seen: list[int] = []
    own._runner.model.model.visual.register_forward_hook(lambda *_: seen.append(1))
    return seen


@pytest.fixture(scope="module")
def fresh() -> Callable[..., Answer]:
    """Answers of a model that has seen nothing before."""
    own = load("qwen3_vl")

    def answer(visual: Any, question: Question = QUESTION) -> Answer:
        own._features.clear()
        return own.answer(visual, question)

    return answer


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_planner_and_answerer_share_the_features_of_their_frames(family: str, tmp_path: Path) -> None:
    folder = str(lora(family, tmp_path / "adapter"))
    frames = pictures(4)
    own = load(family, adapter=folder)
    calls = counted(own)
    greedy = Sampling(max_new_tokens=6)
    with own.prefix(frames, system="Be brief.") as prefix:
        written = own.generate_batch([GenerateRequest(prefix, "Which?", system="Be brief.")], greedy)
    with own.adapter(False):
        with own.prefix(frames) as prefix:
            answers = own.answer_batch([ChoiceRequest(prefix, QUESTION), ChoiceRequest(prefix, OTHER)])
        # The same frames in another list, and a single question, which has no prefix.
        alone = own.answer(list(frames), QUESTION)
    assert len(calls) == 1
    fresh = load(family)
    assert close(answers[0], fresh.answer(frames, QUESTION))
    assert close(alone, answers[0])
    assert close(answers[1], fresh.answer(frames, OTHER))
    request = GenerateRequest(frames, "Which?", system="Be brief.")
    (again,) = load(family, adapter=folder).generate_batch([request], greedy)
    assert again.token_ids == written[0].token_ids


def test_an_adapter_on_the_tower_shares_nothing_with_the_base(
    fresh: Callable[..., Answer], tmp_path: Path
) -> None:
    folder = str(lora("qwen3_vl", tmp_path / "adapter", layers=TOWER))
    frames = pictures(4)
    own = load("qwen3_vl", adapter=folder)
    calls = counted(own)
    on = own.answer(frames, QUESTION)
    with own.adapter(False):
        off = own.answer(frames, QUESTION)
    assert close(own.answer(frames, QUESTION), on)
    assert len(calls) == 2
    assert close(off, fresh(frames))
    assert close(on, load("qwen3_vl", adapter=folder).answer(frames, QUESTION))
    assert not close(on, off)


def test_a_tower_in_training_is_run_again() -> None:
    loaded = load_model(BackboneConfig(str(checkpoint("qwen3_vl")), frames=8, pixels=PIXELS))
    own, frames = QwenBackbone.from_loaded(loaded, name="policy"), pictures(4)
    calls = counted(own)
    own.answer(frames, QUESTION)
    own.answer(frames, OTHER)
    assert len(calls) == 1, "frozen"
    calls.clear()
    weight = own._runner.model.model.visual.merger.linear_fc2.weight
    weight.requires_grad_(True)
    before = own.answer(frames, QUESTION)
    with torch.no_grad():
        weight.mul_(3)
    after = own.answer(frames, QUESTION)
    assert len(calls) == 2
    assert not close(before, after)


def test_other_pixels_are_seen_even_at_the_same_address_and_time(fresh: Callable[..., Answer]) -> None:
    own = load("qwen3_vl")
    for seed in range(4):
        frames = pictures(4, seed=seed)
        assert close(own.answer(frames, QUESTION), fresh(frames))
        fresh(None)
        # The next frames may get the memory of these.
        del frames
        gc.collect()


def test_the_same_pictures_shown_otherwise_are_other_prompts(fresh: Callable[..., Answer]) -> None:
    own, frames = load("qwen3_vl"), pictures(4)
    shown = [frames, Stills(frames), Interleaved(frames, ("", "a ring", "", "")), frames[:2], frames[::-1]]
    answers = [own.answer(visual, QUESTION) for visual in shown]
    assert all(close(fresh(visual), answer) for visual, answer in zip(shown, answers, strict=True))
    assert len({round(answer.letters["A"], 7) for answer in answers}) == len(shown)


def test_single_questions_about_several_videos_take_one_call_of_the_tower(
    fresh: Callable[..., Answer],
) -> None:
    own = load("qwen3_vl", batch_size=4)
    calls = counted(own)
    visuals = [*(pictures(2, seed=seed) for seed in range(3)), None]
    answers = own.answer_batch([ChoiceRequest(visual, QUESTION) for visual in visuals])
    assert len(calls) == 1
    assert all(close(fresh(visual), answer) for visual, answer in zip(visuals, answers, strict=True))


def test_a_store_that_is_too_small_keeps_the_latest_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # Four frames of 64 x 64 pixels: two pairs of 4 tokens, 32 numbers of 4 bytes, at two levels.
    size = 2 * 4 * 32 * 4 * 2
    for most, expected in ((size, 3), (size - 1, 4), (2 * size, 2)):
        monkeypatch.setattr(features, "_MOST_BYTES", most)
        own = load("qwen3_vl")
        calls = counted(own)
        first, second = pictures(4), pictures(4, seed=1)
        for frames in (first, second, second, first):
            own.answer(frames, QUESTION)
        assert len(calls) == expected


def test_running_out_of_memory_and_closing_release_the_features() -> None:
    own, frames = load("qwen3_vl"), pictures(4)
    own.answer(frames, QUESTION)
    assert own._features._entries
    with pytest.raises(BackboneError, match="ran out of memory"), own._guard():
        raise torch.OutOfMemoryError
    assert not own._features._entries
    own.answer(frames, QUESTION)
    own.close()
    assert not own._features._entries
