"""Norms in one kernel have the values and the dtype of the library's, under autocast too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLRMSNorm
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRMSNorm

from videopro.backbones.qwen.layers import fused_norms

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
