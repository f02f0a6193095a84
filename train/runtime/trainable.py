"""Selects what is trained in a Qwen vision-language model: adapters or weights, of which part, at which rate.

A model has three parts: the language model, the vision tower, and the projector between them (Qwen's
"merger").
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any, Literal

import torch
from accelerate import PartialState
from peft import PeftConfig
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn
from transformers import PreTrainedModel
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from trl import ModelConfig, get_peft_config, get_quantization_config

from videopro.backbones.qwen import Checkpoint, attach_adapter, load_weights
from videopro.cli import check_extra
from videopro.errors import ConfigError

Part = Literal["language", "projector", "vision"]

_PROJECTOR = re.compile(r"(^|\.)visual\.(merger|deepstack_merger_list)\.")
_VISION = re.compile(r"(^|\.)visual\.")


def part_of(name: str) -> Part:
    """The part to which a parameter or module of a Qwen vision-language model belongs, by its name."""
    if _PROJECTOR.search(name):
        return "projector"
    return "vision" if _VISION.search(name) else "language"


def linear_pattern(model: nn.Module, parts: Collection[Part]) -> str:
    """A pattern for PEFT's `target_modules`: every linear layer within these parts except the language
    model's head. (`all-linear` would also adapt a vision tower that is to stay frozen.)"""
    in_lists = {
        f"{name}.{i}" if name else str(i)
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList)
        for i in range(len(module))
    }

    def general(name: str) -> str:
        """A regular expression for the name, with any index in a list of layers."""
        pieces = name.split(".")
        return r"\.".join(
            r"\d+" if ".".join(pieces[: i + 1]) in in_lists else re.escape(piece)
            for i, piece in enumerate(pieces)
        )

    head = model.get_output_embeddings() if isinstance(model, PreTrainedModel) else None
    patterns = {
        general(name)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module is not head and part_of(f"{name}.") in parts
    }
    if not patterns:
        raise ConfigError(f"the model has no linear layers in its {' and '.join(sorted(parts))} to adapt")
    return "|".join(sorted(patterns))


def trained_parts(vision: str, projector: str) -> list[Part]:
    """The parts that a run trains, by its settings ("frozen" or "trained")."""
    settings: dict[Part, str] = {"language": "trained", "projector": projector, "vision": vision}
    return [part for part, setting in settings.items() if setting == "trained"]


def load_trainable(checkpoint: Checkpoint, settings: ModelConfig) -> PreTrainedModel:
    """A checkpoint's model in the dtype that the settings ask for and, for QLoRA, with 4-bit weights."""
    options: dict[str, Any] = {}
    quantization = get_quantization_config(settings)
    if quantization is not None:
        if not settings.use_peft:
            raise ConfigError(
                "load_in_4bit and load_in_8bit need use_peft: true; quantized weights are not trainable"
            )
        check_extra("qlora", "load_in_4bit or load_in_8bit", "bitsandbytes")
        # The vision tower is not quantized, so that its features are those of inference.
        quantization.llm_int8_skip_modules = ["lm_head", "model.visual"]
        options["quantization_config"] = quantization
        if torch.cuda.is_available():
            options["device_map"] = {"": PartialState().local_process_index}
    if settings.attn_implementation is not None:
        options["attn_implementation"] = settings.attn_implementation
    model = load_weights(checkpoint, None, dtype=settings.dtype, **options)
    # An adapter's config names its base as the settings do, not by its path on this machine.
    model.name_or_path = settings.model_name_or_path
    if is_deepspeed_zero3_enabled():
        _keep_used_conversions(model)
    return model


def _keep_used_conversions(model: Any) -> None:
    """Keep only the weight-name conversions that were used on loading, which are reversed on saving. Under
    ZeRO-3, transformers (5.23) keeps all that were possible, and would save under other names."""
    conversions = model._weight_conversions or ()
    model._weight_conversions = [conversion for conversion in conversions if conversion.was_used()]


def without_adapter(model: PreTrainedModel) -> PreTrainedModel:
    """A copy of the model's modules that shares its weights, made before an adapter is added.

    The adapter's layers then go into `model` only, so that the base can answer whatever happens to the
    policy, also in other threads, and takes no extra memory. Only for weights that stay frozen."""
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    base = copy.deepcopy(model, shared)
    return base.eval()


def choose_trained(
    model: PreTrainedModel, settings: ModelConfig, parts: Collection[Part]
) -> PeftConfig | None:
    """Train these parts only. Returns the LoRA configuration to apply; without `use_peft`, None, after
    setting `requires_grad` on the parts' own weights and unsetting it on all others."""
    if settings.use_peft:
        _check_parameters(model, settings)
        if settings.lora_target_modules is None:
            settings.lora_target_modules = linear_pattern(model, parts)  # type: ignore[assignment]
        return get_peft_config(settings)
    for name, weight in model.named_parameters():
        weight.requires_grad_(part_of(name) in parts)
    return None


def _check_parameters(model: nn.Module, settings: ModelConfig) -> None:
    """Raise ConfigError for `lora_target_parameters` that no weight has as the end of its name, or that PEFT
    cannot adapt so. They are for weights outside linear layers, such as the experts of a mixture."""
    named = settings.lora_target_parameters
    if named is None:
        return
    if isinstance(named, str):
        settings.lora_target_parameters = named = [named]
    linear = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    outside = [name for name, _ in model.named_parameters() if name not in linear]
    for target in named:
        if not any(name == target or name.endswith(f".{target}") for name in outside):
            experts = [name.split(".")[-3:] for name in outside if ".experts." in name]
            kinds = sorted({".".join(pieces) for pieces in experts})
            fix = f"its experts are {', '.join(kinds)}" if kinds else "leave it out"
            raise ConfigError(
                f"lora_target_parameters: {target!r} is not a weight of this model outside its linear "
                f"layers; {fix}"
            )
    for name, value in (("lora_dropout", settings.lora_dropout), ("use_dora", settings.use_dora)):
        if value:
            raise ConfigError(
                f"{name} is {value}, which PEFT does not support with lora_target_parameters; set it to "
                f"{'false' if value is True else 0}"
            )


def put_trained(
    model: PreTrainedModel,
    settings: ModelConfig,
    parts: Collection[Part],
    *,
    adapter: str | None,
    base: str,
) -> tuple[PreTrainedModel, PeftConfig | None]:
    """The model, prepared for training: with `adapter` (a folder or hub name, made for the model named
    `base`) loaded into it; or, without one, with the result of `choose_trained`, whose LoRA layers the
    trainer adds."""
    if adapter is None:
        return model, choose_trained(model, settings, parts)
    return attach_adapter(model, adapter, base, trained=True), None  # type: ignore[return-value]


_LEFT_OUT = ("base_model", "model", "language_model", "layers", "base_layer", "weight")
_PARTS = {"vision": "vision tower", "projector": "projector"}


def coverage_line(model: nn.Module) -> str:
    """What is not trained, for the line at a run's start: how many weights, their share, and the kinds."""
    trained, left = weights_by_kind(model)
    total = trained + left.total()
    if not left:
        return "all weights are trained"
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in left.most_common())
    line = f"frozen: {left.total():,} of {total:,} weights ({left.total() / total:.1%}): {kinds}"
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
