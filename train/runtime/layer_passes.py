"""How the layers of a model in training run on a GPU: checkpointed, compiled, or as they are."""

from __future__ import annotations

from typing import Any

from accelerate.utils import is_peft_model
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

from videopro.train.runtime.checkpointing import CudaMemory, FittingCheckpoints
from videopro.train.runtime.compiled_layers import CompiledLayers
from videopro.train.settings import AUTO


def set_layer_passes(trainer: Any) -> None:
    """Follow a trainer's settings `checkpoint` and `compile_layers`. Without a GPU layers run as they are,
    all of them checkpointed with `gradient_checkpointing`."""
    settings, device = trainer.args, trainer.accelerator.device
    fits = settings.checkpoint == AUTO and settings.gradient_checkpointing
    if device.type != "cuda" or not (fits or settings.compile_layers):
        return
    if trainer.is_fsdp_enabled or is_deepspeed_zero3_enabled():
        trainer.accelerator.print(
            "checkpoint: auto and compile_layers do nothing here, where ranks gather each layer's weights "
            "together"
        )
        return
    tuned = trainer.model
    base = tuned.get_base_model() if is_peft_model(tuned) else tuned
    language = base.model.language_model
    if fits:
        FittingCheckpoints(language, language.layers, CudaMemory(device), tell=trainer.accelerator.print)
    if settings.compile_layers:
        CompiledLayers(language, language.layers)
