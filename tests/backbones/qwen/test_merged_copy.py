"""A merged copy computes what base and adapter compute, and leaves the base's weights as they are."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from tests.support.qwen_models import reference
from videopro.backbones.qwen import MergedCopy, can_copy

IDS = torch.tensor([[5, 9, 4, 7, 21, 3]])
LAYERS = r".*language_model.*\.(q_proj|v_proj|down_proj)"


def adapted(**settings: Any) -> Any:
    """A model with an adapter that changes what it says."""
    torch.manual_seed(0)
    model = copy.deepcopy(reference("qwen3_vl")[0])
    config = LoraConfig(r=4, lora_alpha=8, target_modules=LAYERS, init_lora_weights=False, **settings)
    return get_peft_model(model, config).eval()


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=IDS, use_cache=False).logits


def test_the_base_is_equal_to_the_bit_after_many_updates() -> None:
    model = adapted()
    before = {name: weight.clone() for name, weight in model.named_parameters() if "lora" not in name}
    merged = MergedCopy(model.get_base_model())
    addresses = set()
    for _ in range(20):
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora" in name:
                    weight.add_(0.01)
        merged.update()
        addresses.add(tuple(weight.weight.data_ptr() for weight in merged._copies))
        with merged.in_use():
            logits(model)
    after = dict(model.named_parameters())
    assert all(torch.equal(after[name], weight) for name, weight in before.items())
    assert merged.nbytes == sum(weight.weight.nbytes for weight in merged._copies)
    # Captured steps read the copy where it was first.
    assert len(addresses) == 1
    expected = logits(model)
    with merged.in_use():
        torch.testing.assert_close(logits(model), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("settings", [{"use_dora": True}, {"lora_bias": True}])
def test_an_adapter_that_is_more_than_a_sum_or_none_is_not_copied(settings: dict[str, Any]) -> None:
    assert can_copy(adapted().get_base_model())
    assert not can_copy(adapted(**settings).get_base_model())
    assert not can_copy(reference("qwen3_vl")[0])
