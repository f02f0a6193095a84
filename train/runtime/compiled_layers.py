"""Decoder layers compiled one by one for training passes: norms, rotations and activations become one kernel
each, and less is kept for the backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

_GRAPHS = 128
"""Compiled graphs that are kept. All layers share one for each width; in transformers 5.24, where a layer's
checkpoint is compiled with it, those that are computed again share one and the others another."""


class CompiledLayers:
    """Compiles the `layers` of `language`, a model of them, for its training passes. Replies are written, and
    reference passes run, by the layers as they are: every length of a cache would be compiled anew.

    The first training pass is as it is, too: in it `FittingCheckpoints` measures a layer."""

    def __init__(self, language: nn.Module, layers: Sequence[nn.Module], **settings: Any) -> None:
        config: Any = torch._dynamo.config
        config.recompile_limit = max(config.recompile_limit, _GRAPHS)
        self._layers: list[tuple[Any, Any]] = []
        for layer in layers:
            compiled: Any = layer
            compiled.compile(dynamic=False, **settings)
            self._layers.append((layer, compiled._compiled_call_impl))
            compiled._compiled_call_impl = None
        self._began = False
        language.register_forward_pre_hook(self._before)

    def _before(self, language: nn.Module, _: Any) -> None:
        trains = language.training and torch.is_grad_enabled()
        # It stays so until the next pass: a checkpointed layer is computed again in the backward pass.
        for layer, call in self._layers:
            layer._compiled_call_impl = call if trains and self._began else None
        self._began |= trains
