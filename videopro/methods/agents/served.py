"""A served backbone in a role: with log-probabilities, and with the tool calls of its server."""

from __future__ import annotations

from collections.abc import Sequence

from videopro.backbones import Sampling
from videopro.backbones.server import ServerBackbone
from videopro.methods.agents.api import ApiModel
from videopro.methods.agents.models import BackboneModel, ModelReply, Tool, Turn


class ServedModel(BackboneModel):
    """Prompts about frames go through the backbone, conversations with tools through its chat endpoint."""

    def __init__(self, backbone: ServerBackbone) -> None:
        super().__init__(backbone)
        self._chat = ApiModel(backbone.config)

    def converse(self, turns: Sequence[Turn], tools: Sequence[Tool], sampling: Sampling) -> ModelReply:
        return self._chat.converse(turns, tools, sampling)

    def close(self) -> None:
        self._chat.close()
        super().close()
