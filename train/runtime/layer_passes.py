"""How the layers of a model in training run on a GPU: checkpointed, or unchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from peft.tuners.lora import LoraLayer
from torch import nn
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

from videopro.train.settings import AUTO

_USED = 0.9
"""The share of the memory that is planned with: the rest is for fragments, and for batches whose heads and
towers need more than the first batch's."""


class CudaMemory:
    """The memory of a CUDA device, in bytes."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def allocated(self) -> int:
        """The memory that torch has allocated."""
        return torch.cuda.memory_allocated(self._device)

    def peak(self) -> int:
        """The maximum that torch has allocated since `reset_peak`."""
        return torch.cuda.max_memory_allocated(self._device)

    def reset_peak(self) -> None:
        """Reset `peak`."""
        torch.cuda.reset_peak_memory_stats(self._device)

    def limit(self) -> int:
        """The memory that is free or reserved by torch; other processes may hold the rest."""
        free, _ = torch.cuda.mem_get_info(self._device)
        return free + torch.cuda.memory_reserved(self._device)


@dataclass(frozen=True)
class LayerCosts:
    """The memory that a training pass needs per token, in bytes."""

    activations: float
    """By a layer that is not checkpointed."""
    transient: float
    """By all else, every layer being checkpointed."""

    def layers_that_fit(self, tokens: int, free: float) -> int:
        """The number of layers whose activations for these tokens fit in `free` bytes."""
        return max(0, int((free - tokens * self.transient) // (tokens * self.activations)))


class FittingCheckpoints:
    """Decides before each training pass of `language`, a model of checkpointed `layers`, which of them are
    computed again. `tell` is called with a line that says what was decided for the first batch."""

    def __init__(
        self,
        language: nn.Module,
        layers: Sequence[nn.Module],
        memory: CudaMemory,
        *,
        tell: Callable[[str], object] = print,
    ) -> None:
        self._layers: list[Any] = list(layers)
        self._memory = memory
        self._tell = tell
        self._first: _FirstPass | None = None
        self._costs: LayerCosts | None = None
        language.register_forward_pre_hook(self._before, with_kwargs=True)

    def _before(self, language: Any, arguments: Any, inputs: dict[str, Any]) -> None:
        if not (language.training and torch.is_grad_enabled()):
            return
        tokens = inputs["inputs_embeds"].shape[:2].numel()
        if self._first is None:
            self._first = _FirstPass(self._layers[-1], tokens, self._memory)
            # One layer is enough to measure, and the first batch must fit on any device.
            self._keep(1)
            return
        free = _USED * self._memory.limit() - self._memory.allocated()
        if self._costs is None:
            self._costs = self._first.costs()
            without_checkpoint = min(self._costs.layers_that_fit(tokens, free), len(self._layers))
            self._tell(self._line(tokens, free, without_checkpoint))
        self._keep(self._costs.layers_that_fit(tokens, free))

    def _keep(self, count: int) -> None:
        """Checkpoint all layers but the last `count`, whose memory the backward pass frees first."""
        for number, layer in enumerate(self._layers):
            layer.gradient_checkpointing = number < len(self._layers) - count

    def _line(self, tokens: int, free: float, without_checkpoint: int) -> str:
        assert self._costs is not None
        size = self._costs.activations * tokens / 2**30
        again = len(self._layers) - without_checkpoint
        return (
            f"checkpoint: auto: {again} of {len(self._layers)} layers are recomputed in the backward pass of "
            f"{tokens:,} tokens: a layer would keep {size:.2f} GiB, and {max(free, 0) / 2**30:.1f} GiB are "
            "free; decided per batch"
        )


class _FirstPass:
    """Measures what `layer`, which is not checkpointed in this pass, keeps of it, and what all else takes."""

    def __init__(self, layer: nn.Module, tokens: int, memory: CudaMemory) -> None:
        self._tokens, self._memory = tokens, memory
        self._before = memory.allocated()
        memory.reset_peak()
        # What is saved but kept anyway: weights, and what the layer is called with.
        self._storages: dict[int, int] = {}
        self._not_activations = {_storage(weight) for weight in layer.parameters()}
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._save, lambda tensor: tensor)
        self._handles = [
            layer.register_forward_pre_hook(self._enter, with_kwargs=True),
            layer.register_forward_hook(self._leave),
        ]

    def _enter(self, layer: Any, arguments: Any, inputs: dict[str, Any]) -> None:
        inputs_of_layer = [*arguments, *inputs.values(), *(inputs.get("position_embeddings") or ())]
        self._not_activations |= {
            _storage(each) for each in inputs_of_layer if isinstance(each, torch.Tensor)
        }
        self._hooks.__enter__()

    def _leave(self, *_: Any) -> None:
        self._hooks.__exit__(None, None, None)
        for handle in self._handles:
            handle.remove()

    def _save(self, tensor: torch.Tensor) -> torch.Tensor:
        storage = _storage(tensor)
        if storage not in self._not_activations:
            self._storages[storage] = tensor.untyped_storage().nbytes()
        # Detached: an output that is saved undetached would hold the graph that holds it.
        return tensor.detach()

    def costs(self) -> LayerCosts:
        """Called after the backward pass."""
        activations = sum(self._storages.values())
        transient = max(self._memory.peak() - self._before - activations, 0)
        return LayerCosts(activations / self._tokens, transient / self._tokens)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def set_layer_passes(trainer: Any) -> None:
    """Follow a trainer's setting `checkpoint`. Without a GPU all layers are checkpointed with
    `gradient_checkpointing`."""
    settings, device = trainer.args, trainer.accelerator.device
    if device.type != "cuda" or settings.checkpoint != AUTO or not settings.gradient_checkpointing:
        return
    if trainer.is_fsdp_enabled or is_deepspeed_zero3_enabled():
        trainer.accelerator.print(
            "checkpoint: auto has no effect under ZeRO-3 or FSDP, where ranks gather each layer's weights "
            "together"
        )
        return
    language = trainer._base.model.language_model
    FittingCheckpoints(language, language.layers, CudaMemory(device), tell=trainer.accelerator.print)


def leave_casts_to_autocast(model: nn.Module) -> None:
    """Pass inputs to the model's LoRA layers unchanged, wherever autocast casts both factors of a product.
    Outside of autocast PEFT casts as before."""
    for module in model.modules():
        if isinstance(module, LoraLayer):
            layer: Any = module
            layer._cast_input_dtype = _cast_outside_of_autocast


def _cast_outside_of_autocast(x: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    if x is None or torch.is_autocast_enabled(x.device.type):
        return x
    return x.to(dtype)
