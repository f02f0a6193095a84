"""Layers that compute what the library's compute. The vision tower's attention, for all chunks of a length at
once: values, gradients, and what it calls. Norms in one kernel: values and dtype, under autocast too. And a
merged copy of base and adapter, which leaves the base's weights as they are."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLRMSNorm
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRMSNorm

from tests.support.qwen_models import FAMILIES, backbone, reference
from videopro.backbones.qwen import MergedCopy, can_copy, layers
from videopro.backbones.qwen.layers import fused_norms

# Grids (time, height, width) in patches. Windows of qwen2_5_vl have 4 x 4 patches here.
GRIDS = {
    "equal chunks, whole windows": [[3, 4, 8]],
    "equal chunks, cut windows": [[2, 6, 10], [1, 6, 10]],
    "chunks of three lengths": [[2, 4, 4], [1, 6, 10], [3, 4, 6], [1, 4, 4]],
    "one chunk": [[1, 2, 2]],
}


def see(family: str, grids: list[list[int]], *, whole: bool) -> tuple[Any, Any]:
    """A tower's output for noise, and its pixels."""
    model, _ = reference(family)
    if whole:
        layers.attend_by_chunk(model)
    tower = model.model.visual
    settings = tower.config
    grid = torch.tensor(grids)
    values = settings.in_channels * settings.temporal_patch_size * settings.patch_size**2
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(int(grid.prod(1).sum()), values, generator=generator, requires_grad=True)
    return tower(pixels, grid_thw=grid).pooler_output, pixels


@pytest.mark.parametrize("grids", GRIDS.values(), ids=GRIDS)
# Those with experts have the same tower.
@pytest.mark.parametrize("family", [family for family in FAMILIES if "moe" not in family])
def test_outputs_and_gradients_are_those_of_single_chunks(family: str, grids: list[list[int]]) -> None:
    results = []
    for whole in (False, True):
        output, pixels = see(family, grids, whole=whole)
        output.square().sum().backward()
        results.append((output, pixels.grad))
    for got, expected in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("family", "grids", "calls"),
    [
        # 2 layers.
        ("qwen3_vl", "chunks of three lengths", 6),
        # 6 x 10 patches: windows of 4 x 4, 4 x 2, 2 x 4 and 2 x 2, hence of 16, 8 and 4 patches.
        ("qwen2_5_vl", "equal chunks, cut windows", 4),
    ],
)
def test_one_call_a_layer_and_length(
    family: str, grids: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    attend = layers.scaled_dot_product_attention
    monkeypatch.setattr(
        layers, "scaled_dot_product_attention", lambda *of, **more: seen.append(1) or attend(*of, **more)
    )
    with torch.no_grad():
        see(family, GRIDS[grids], whole=True)
    assert len(seen) == calls


def test_a_loaded_model_uses_it_unless_another_attention_is_set() -> None:
    visual = backbone("qwen3_vl")._runner.model.model.visual  # type: ignore[attr-defined]
    assert visual.config._attn_implementation == layers._NAME
    model, _ = reference("qwen3_vl", attn_implementation="eager")
    layers.attend_by_chunk(model)
    assert model.model.visual.config._attn_implementation == "eager"


NORMS = (Qwen2_5_VLRMSNorm, Qwen3VLTextRMSNorm)


@pytest.fixture
def gpu_autocast() -> Iterator[None]:
    """Autocast to bf16 on a GPU, for tensors that are described and not there."""
    before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    try:
        with FakeTensorMode():
            yield
    finally:
        torch.set_autocast_enabled("cuda", before[0])
        torch.set_autocast_dtype("cuda", before[1])


@pytest.mark.usefixtures("gpu_autocast")
@pytest.mark.filterwarnings("ignore:.*CUDA is not available.*")
@pytest.mark.parametrize("kind", NORMS)
def test_keys_stay_in_16_bits_under_autocast_on_a_gpu(kind: type[torch.nn.Module]) -> None:
    # torch 2.12 and newer compute rms_norm in float32 there; a cache of bf16 takes no such keys.
    norm = kind(8)
    norm.weight = torch.nn.Parameter(torch.empty(8, dtype=torch.bfloat16, device="cuda"))
    states = torch.empty(2, 8, dtype=torch.bfloat16, device="cuda")
    assert norm(states).dtype == torch.bfloat16
    with fused_norms(norm, enabled=True):
        assert norm(states).dtype == torch.bfloat16


@pytest.mark.parametrize("kind", NORMS)
def test_values_are_those_of_the_library(kind: type[torch.nn.Module]) -> None:
    draw = torch.Generator().manual_seed(0)
    norm = kind(16)
    with torch.no_grad():
        norm.weight.copy_(torch.randn(16, generator=draw))
        states = torch.randn(3, 16, generator=draw)
        expected = norm(states)
        with fused_norms(norm, enabled=True):
            torch.testing.assert_close(norm(states), expected)


# ---- a merged copy of base and adapter ---------------------------------------------------------------------

IDS = torch.tensor([[5, 9, 4, 7, 21, 3]])
LAYERS = r".*language_model.*\.(q_proj|v_proj|down_proj)"


def adapted(**settings: Any) -> Any:
    """A model with an adapter that changes what it says."""
    torch.manual_seed(0)
    model = reference("qwen3_vl")[0]
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
