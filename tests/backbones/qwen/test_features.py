"""Vision features in place of pixels: the same logits and gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from tests.support.qwen_models import FAMILIES, load, pictures, reference
from videopro.backbones.qwen import EncodedPrompt, QwenRunner, encode_vision


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


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_adapters_and_recomputation_get_the_gradients_of_pixels(family: str) -> None:
    rows = prompts(family)
    gradients = []
    for uses_features in (False, True):
        model, _ = reference(family)
        torch.manual_seed(0)
        # On the language layers alone: the tower is frozen.
        targets = r".*language_model.*(q_proj|v_proj|up_proj)"
        adapted = get_peft_model(model, LoraConfig(r=4, target_modules=targets, init_lora_weights=False))
        adapted.gradient_checkpointing_enable()
        adapted.enable_input_require_grads()
        adapted.train()
        runner = QwenRunner(model, ends=[0], pad=0)
        inputs = rows
        if uses_features:
            with torch.no_grad():
                inputs = [encode_vision(model.model, row, runner.device) for row in rows]
        run(adapted, runner, inputs).log_softmax(-1)[:, -4:].square().mean().backward()
        gradients.append(
            {name: weight.grad for name, weight in adapted.named_parameters() if weight.requires_grad}
        )
    pixels, features = gradients
    assert len(pixels) > 4
    for name, gradient in pixels.items():
        assert gradient is not None
        assert gradient.abs().max() > 0, name
        torch.testing.assert_close(features[name], gradient, atol=1e-5, rtol=1e-4, msg=name)


def test_rows_with_features_and_rows_with_pixels_are_refused() -> None:
    model, _ = reference("qwen3_vl")
    video, _, both = prompts("qwen3_vl")
    runner = QwenRunner(model, ends=[0], pad=0)
    with torch.no_grad(), pytest.raises(ValueError, match="some rows have features and others pixels"):
        run(model, runner, [encode_vision(model.model, video, runner.device), replace(both)])
