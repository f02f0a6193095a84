"""Sends a LoRA policy's weights to vLLM without changing the base, where TRL samples with vLLM.

TRL merges the adapter into the base's own weights before it sends them, and subtracts it afterwards. In bf16
that does not restore them: after 100 steps half of them differ from those with which the adapter will be
used. And meanwhile everything else on these weights, such as what answers inside programs, is the policy.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from accelerate.utils import is_peft_model
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from transformers.integrations.fsdp import is_fsdp_enabled
from trl import ModelConfig

from videopro.errors import ConfigError
from videopro.train.rl.config import VideoGRPOConfig


def check_vllm(training: VideoGRPOConfig, model: ModelConfig) -> None:
    """Raise ConfigError for an adapter whose merged weights cannot be sent to vLLM without changing the
    base."""
    if not training.use_vllm or not (model.use_peft or training.adapter):
        return
    reason = ""
    if model.load_in_4bit or model.load_in_8bit:
        reason = (
            "a quantized base, which has no merged weights to send; leave load_in_4bit or load_in_8bit out"
        )
    elif is_deepspeed_zero3_enabled() or is_fsdp_enabled():
        reason = (
            "ZeRO-3 or FSDP, under which TRL merges the adapter into the base and changes it; use "
            "ACCELERATE=multi_gpu or zero2"
        )
    if reason:
        raise ConfigError(f"use_vllm is true, with an adapter on {reason}, or use_vllm: false")


def send_copies(vllm: Any) -> None:
    """Have TRL's `VLLMGeneration` send copies with the adapter merged into them, one weight after the
    other."""
    if is_peft_model(vllm.model):
        vllm._iter_named_params = functools.partial(_merged_parameters, vllm)


def _merged_parameters(vllm: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """All of a policy's weights by vLLM's names, as TRL's own `_iter_named_params` yields them."""
    model = vllm.model
    adapted = _adapted(model)
    for name, weight in list(model.named_parameters()):
        plain = name.removeprefix("base_model.model.").replace(".base_layer", "")
        # The adapter's own weights, and what its whole modules stand in for, are unknown to vLLM.
        if model.prefix in plain or "original_module" in plain:
            continue
        layer = adapted.get(id(weight))
        value = weight.data if layer is None else _merged(layer, name.rpartition(".")[2])
        yield vllm._fix_param_name_to_vllm(plain, extra_prefixes=["modules_to_save.default."]), value


def _adapted(model: nn.Module) -> dict[int, BaseTunerLayer]:
    """The adapter's layer of each weight of the base that has one."""
    layers: dict[int, BaseTunerLayer] = {}
    for module in model.modules():
        if isinstance(module, BaseTunerLayer):
            base = module.get_base_layer()
            # One of an expert's weights, or all of a linear layer's.
            only = getattr(module, "parameter_name", None)
            for name, weight in base.named_parameters(recurse=False):
                if only in (None, name):
                    layers[id(weight)] = module
    return layers


def _merged(layer: BaseTunerLayer, name: str) -> torch.Tensor:
    """A weight with the adapter merged into a copy of it, by PEFT. Meanwhile the copies stand in for the
    weights, in the policy's own module alone: what answers has a module of its own around the same
    weights."""
    base = layer.get_base_layer()
    originals = dict(base.named_parameters(recurse=False))
    try:
        for key, weight in originals.items():
            base._parameters[key] = nn.Parameter(weight.detach().clone(), requires_grad=False)
        layer.merge()
        return base._parameters[name].data  # type: ignore[union-attr]
    finally:
        layer.merged_adapters.clear()
        base._parameters.update(originals)
