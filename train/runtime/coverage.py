"""Which weights of a model a training does not change: shown at its start, since LoRA on linear layers leaves
out more than one thinks, such as the experts of a mixture, which are no linear layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn

from videopro.train.runtime.trainable import part_of

_LEFT_OUT = ("base_model", "model", "language_model", "layers", "base_layer", "weight")
_PARTS = {"vision": "vision tower", "projector": "projector"}


def coverage_line(model: nn.Module) -> str:
    """What is not trained, for the line at a run's start: how many weights, their share, and the kinds."""
    trained, left = weights_by_kind(model)
    total = trained + left.total()
    if not left:
        return "no weights are left as they are"
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in left.most_common())
    line = f"left as they are: {left.total():,} of {total:,} weights ({left.total() / total:.1%}): {kinds}"
    experts = sorted(kind for kind in left if ".experts." in kind)
    if experts and any(isinstance(module, BaseTunerLayer) for module in model.modules()):
        line += f"\nto adapt the experts too: --lora_target_parameters {' '.join(experts)} --lora_dropout 0"
    return line


def weights_by_kind(model: nn.Module) -> tuple[int, Counter[str]]:
    """How many of the model's own weights are trained, or adapted by layers that are, and how many of each
    kind are not. An adapter's own weights do not count."""
    adapted, adapter_ids = set(), set()
    for module in model.modules():
        if isinstance(module, BaseTunerLayer):
            adapter_ids |= {id(weight) for weight in _adapter_weights(module)}
            base = module.get_base_layer()
            weight = getattr(base, getattr(module, "parameter_name", "weight"), None)
            if any(weight.requires_grad for weight in _adapter_weights(module)):
                adapted.add(id(weight))
    trained, left = 0, Counter[str]()
    for name, weight in model.named_parameters():
        # The adapter's own: they say nothing about the model that is adapted.
        if id(weight) in adapter_ids or ".modules_to_save." in name:
            continue
        if weight.requires_grad or id(weight) in adapted or ".original_module." in name:
            trained += _count(weight)
        else:
            left[kind_of(name)] += _count(weight)
    return trained, left


def kind_of(name: str) -> str:
    """What a parameter is, whatever its layer: "self_attn.q_norm", or the part outside the language model."""
    part = part_of(name)
    if part != "language":
        return _PARTS[part]
    pieces = [piece for piece in name.split(".") if not piece.isdigit() and piece not in _LEFT_OUT]
    return ".".join(pieces)


def _adapter_weights(module: BaseTunerLayer) -> Iterator[nn.Parameter]:
    for name in module.adapter_layer_names:
        layers = getattr(module, name, None)
        if isinstance(layers, nn.Module):
            yield from layers.parameters()
        elif isinstance(layers, nn.ParameterDict):
            yield from layers.values()


def _count(weight: nn.Parameter) -> int:
    # Under ZeRO-3 a weight is empty here, and bitsandbytes packs two in a byte.
    count = int(getattr(weight, "ds_numel", weight.numel()))
    state = getattr(weight, "quant_state", None)
    return int(state.shape.numel()) if state is not None else count
