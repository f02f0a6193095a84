"""The models behind an agent, behind one interface: its language model, its captioner, its VQA model.

A role names a model: "self" (the run's backbone), any backbone (a hub name, a folder, a plug-in,
server:MODEL@URL), with an adapter as MODEL+ADAPTER, or api:MODEL@URL for an endpoint that returns no
log-probabilities, such as those of reasoning models.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from videopro.backbones import Backbone, ChoiceRequest, GenerateRequest, Sampling, YesNoRequest
from videopro.question import Answer, Question
from videopro.video import Frame


@dataclass(frozen=True)
class Tool:
    """A tool that a model may call."""

    name: str
    description: str
    arguments: type[BaseModel]

    def as_openai(self) -> dict[str, Any]:
        """The tool in a chat request."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.arguments.model_json_schema(),
            },
        }


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool, as the model wrote it."""

    name: str
    arguments: str
    """JSON, perhaps malformed."""
    id: str = ""


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation with tools: the user's or the model's text, or a tool's result."""

    role: str
    """ "system", "user", "assistant" or "tool"."""
    text: str
    calls: tuple[ToolCall, ...] = ()
    """Of an assistant's turn."""
    call_id: str = ""
    """Of a tool's turn: the call that it answers."""


@dataclass(frozen=True)
class ModelReply:
    """A reply, with what it cost."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0
    is_constrained: bool = False
    """Whether decoding was constrained to the schema."""
    cut_at: int | None = None
    """The limit in tokens that cut it off; None: it ended by itself."""
    calls: tuple[ToolCall, ...] = ()
    notes: tuple[str, ...] = ()
    """What the model left out of the request, because the server refused it."""
    thoughts: str = ""
    """What the model thought before it."""


class ToolsRefused(Exception):
    """The model offers no tool calls; use the text protocol."""


class AgentModel(ABC):
    """A model in a role. Thread-safe. Every call raises BackboneError for a request that cannot be served."""

    name: str
    frames: int
    """Maximum frames per call."""

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """What replies depend on, JSON-serializable; the address of a server is not part of it."""

    @abstractmethod
    def frame_size(self, height: int, width: int, count: int) -> tuple[int, int] | None:
        """(height, width) at which `count` frames should be decoded; None: any."""

    @abstractmethod
    def reply(
        self,
        prompt: str,
        frames: Sequence[Frame],
        sampling: Sampling,
        schema: Mapping[str, Any] | None = None,
    ) -> ModelReply:
        """Generate a reply to a prompt about frames (none: text only). `schema`: JSON schema of the reply,
        for models that can constrain their decoding to it."""

    @abstractmethod
    def choose(self, question: Question, prompt: str, frames: Sequence[Frame]) -> Answer:
        """Answer a multiple-choice question with one letter. A model without log-probabilities gives no
        confidence (0.0)."""

    @abstractmethod
    def decide(self, prompt: str, frames: Sequence[Frame]) -> Answer:
        """Answer Yes or No; as `choose`, with "Yes", "No" or None as the letter."""

    def converse(self, turns: Sequence[Turn], tools: Sequence[Tool], sampling: Sampling) -> ModelReply:
        """Reply to a conversation, calling tools. Raises ToolsRefused if the model offers none."""
        raise ToolsRefused(f"{self.name} offers no tool calls")

    @abstractmethod
    def close(self) -> None:
        """Release what it holds."""


class BackboneModel(AgentModel):
    """A backbone in a role. `backbone` must be thread-safe."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone = backbone
        self.name = backbone.name
        self.frames = backbone.frames

    def identity(self) -> dict[str, object]:
        return self.backbone.identity()

    def frame_size(self, height: int, width: int, count: int) -> tuple[int, int] | None:
        return self.backbone.frame_size(height, width, count)

    def reply(
        self,
        prompt: str,
        frames: Sequence[Frame],
        sampling: Sampling,
        schema: Mapping[str, Any] | None = None,
    ) -> ModelReply:
        request = GenerateRequest(frames or None, prompt, sampling.seed, schema)
        reply = self.backbone.generate_batch([request], sampling)[0]
        return ModelReply(
            reply.text,
            reply.tokens_in,
            reply.tokens_out,
            reply.is_constrained,
            sampling.max_new_tokens if reply.finish == "length" else None,
            thoughts=reply.thoughts,
        )

    def choose(self, question: Question, prompt: str, frames: Sequence[Frame]) -> Answer:
        return self.backbone.answer_batch([ChoiceRequest(frames or None, question, prompt)])[0]

    def decide(self, prompt: str, frames: Sequence[Frame]) -> Answer:
        return self.backbone.yes_no_batch([YesNoRequest(frames or None, prompt)])[0]

    def close(self) -> None:
        self.backbone.close()
