"""The models behind an agent, behind one interface: its language model, its captioner, its VQA model.

A role names a model: "self" (the run's backbone), any backbone (a hub name, a folder, a plug-in,
server:MODEL@URL), with an adapter as MODEL+ADAPTER, or api:MODEL@URL for an endpoint that returns no
log-probabilities, such as those of reasoning models.
"""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from videopro.backbones import (
    DEFAULT_FRAMES,
    DEFAULT_PIXELS,
    Backbone,
    BackboneConfig,
    ChoiceRequest,
    GenerateRequest,
    Sampling,
    YesNoRequest,
    load_backbone,
    read_spec,
    without_address,
)
from videopro.backbones.server import (
    ChatClient,
    RequestRefused,
    ServerBackbone,
    api_config,
    encode_frames,
    response_format,
    sent_size,
    visual_parts,
)
from videopro.backbones.wrappers import share_backbone
from videopro.errors import BackboneError, ConfigError, acquired
from videopro.question import Answer, Question, extract_letter
from videopro.storage import encodable
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
    """The token limit that cut it off; None: the model ended it."""
    calls: tuple[ToolCall, ...] = ()
    notes: tuple[str, ...] = ()
    """Request fields omitted because the server rejects them."""
    thoughts: str = ""
    """The model's thoughts before it."""


class ToolsRefused(Exception):
    """The model does not support tool calls; use the text protocol."""


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
        raise ToolsRefused(f"{self.name} does not support tool calls")


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
        cut_at = sampling.max_new_tokens if reply.finish == "length" else None
        tokens = (reply.tokens_in, reply.tokens_out)
        return ModelReply(reply.text, *tokens, reply.is_constrained, cut_at, thoughts=reply.thoughts)

    def choose(self, question: Question, prompt: str, frames: Sequence[Frame]) -> Answer:
        return self.backbone.answer_batch([ChoiceRequest(frames or None, question, prompt)])[0]

    def decide(self, prompt: str, frames: Sequence[Frame]) -> Answer:
        return self.backbone.yes_no_batch([YesNoRequest(frames or None, prompt)])[0]


# Tokens of a reply from which one letter is read: a model may think before it answers.
_LETTER_TOKENS = 1024
_TOOL_STATUSES = (400, 404, 422, 501)


class ApiModel(AgentModel):
    """The model of `config` (kind "server"; see `videopro.backbones.server.api_config`). Frames are sent as
    images after their times. A field that the server refuses is left out from then on, and the replies' notes
    name it."""

    def __init__(self, config: BackboneConfig) -> None:
        self.name = config.model
        self.frames = config.frames or DEFAULT_FRAMES
        self._pixels = config.pixels or DEFAULT_PIXELS
        self._client = ChatClient(config)

    def identity(self) -> dict[str, object]:
        shown = {"frames": self.frames, "pixels": self._pixels}
        return {"kind": "api", "model": self.name, **shown, **self._client.identity()}

    def frame_size(self, height: int, width: int, count: int) -> tuple[int, int] | None:
        return sent_size(height, width, self._pixels)

    def reply(
        self,
        prompt: str,
        frames: Sequence[Frame],
        sampling: Sampling,
        schema: Mapping[str, Any] | None = None,
    ) -> ModelReply:
        message = {"role": "user", "content": self._content(prompt, frames)}
        fields = {} if schema is None else {"response_format": response_format(schema)}
        return self._complete([message], sampling, fields)

    def choose(self, question: Question, prompt: str, frames: Sequence[Frame]) -> Answer:
        reply = self.reply(prompt, frames, Sampling(_LETTER_TOKENS))
        return _answer(reply, extract_letter(reply.text, question))

    def decide(self, prompt: str, frames: Sequence[Frame]) -> Answer:
        reply = self.reply(prompt, frames, Sampling(_LETTER_TOKENS))
        # Without log-probabilities: the first word is the decision, whatever follows.
        word = re.match(r"\W*(yes|no)\b", reply.text, re.IGNORECASE)
        return _answer(reply, word[1].capitalize() if word else None)

    def converse(self, turns: Sequence[Turn], tools: Sequence[Tool], sampling: Sampling) -> ModelReply:
        fields = {"tools": [tool.as_openai() for tool in tools]} if tools else {}
        try:
            return self._complete([_message(turn) for turn in turns], sampling, fields)
        except RequestRefused as refused:
            if tools and refused.status in _TOOL_STATUSES and "tool" in str(refused).lower():
                raise ToolsRefused(str(refused)) from None
            raise

    def _content(self, prompt: str, frames: Sequence[Frame]) -> Any:
        if not frames:
            return prompt
        if len(frames) > self.frames:
            raise BackboneError(f"{len(frames)} frames in one call; {self.name} takes {self.frames}")
        parts, _ = visual_parts(encode_frames(frames, self._pixels), as_video=False)
        return [*parts, {"type": "text", "text": prompt}]

    def _complete(
        self, messages: Sequence[Mapping[str, Any]], sampling: Sampling, fields: Mapping[str, Any]
    ) -> ModelReply:
        sampled: dict[str, Any] = {"temperature": sampling.temperature}
        if sampling.temperature > 0:
            sampled["top_p"] = sampling.top_p
            if sampling.seed is not None:
                sampled["seed"] = sampling.seed
        reply, left_out = self._client.reply(messages, sampling.max_new_tokens, {**sampled, **fields})
        return ModelReply(
            reply.text,
            reply.tokens_in,
            reply.tokens_out,
            "response_format" in fields and "response_format" not in left_out,
            reply.cut_at,
            tuple(ToolCall(c.function.name, encodable(c.function.arguments), c.id) for c in reply.calls),
            tuple(f"{name} omitted, as the server rejects it" for name in sorted(left_out)),
            reply.thoughts,
        )


class ServedModel(BackboneModel):
    """A served backbone: prompts about frames go through it, with log-probabilities, and conversations with
    tools through its chat endpoint."""

    def __init__(self, backbone: ServerBackbone) -> None:
        super().__init__(backbone)
        self._chat = ApiModel(backbone.config)

    def converse(self, turns: Sequence[Turn], tools: Sequence[Tool], sampling: Sampling) -> ModelReply:
        return self._chat.converse(turns, tools, sampling)


def _answer(reply: ModelReply, letter: str | None) -> Answer:
    return Answer(letter, 0.0, {}, reply.text, reply.tokens_in, reply.tokens_out, reply.cut_at)


def _message(turn: Turn) -> dict[str, Any]:
    if turn.role == "tool":
        return {"role": "tool", "tool_call_id": turn.call_id, "content": turn.text}
    message: dict[str, Any] = {"role": turn.role, "content": turn.text}
    if turn.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in turn.calls
        ]
    return message


SELF = "self"


class ModelLoader:
    """Models by the name that a role gives them; equal names share one model. `backbone` is the run's own.
    Thread-safe.

    `load(config)` makes a backbone; tests pass their own.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        api_key_env: str | None = None,
        frames: int | None = None,
        pixels: int | None = None,
        load: Callable[[BackboneConfig], Backbone] = load_backbone,
    ) -> None:
        """`frames`: maximum frames per call of every model, `pixels`: maximum pixels of a frame for every
        one but the run's own; None: each model's own."""
        self.backbone = backbone
        self._api_key_env = api_key_env
        self._frames = frames
        self._pixels = pixels
        self._load = load
        self._models: dict[str, AgentModel] = {}
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> AgentModel:
        """The model that `name` names. Raises ConfigError for a malformed name, BackboneError for a model
        that cannot be loaded."""
        with acquired(self._lock):
            if name not in self._models:
                self._models[name] = self._make(name)
            return self._models[name]

    def _make(self, name: str) -> AgentModel:
        if name == SELF:
            return _around(self.backbone)
        config = read_role(name, self._api_key_env)
        config = config.but(**self._server_settings(config, name))
        if self._frames is not None:
            config = config.but(frames=self._frames)
        if self._pixels is not None:
            config = config.but(pixels=self._pixels)
        if name.startswith("api:"):
            return ApiModel(config)
        return _around(self._load(config))

    def _server_settings(self, config: BackboneConfig, name: str) -> dict[str, Any]:
        """The run's, for a server; a hosted endpoint, which limits its rate, keeps its own concurrency or a
        smaller one."""
        if config.kind != "server":
            return {}
        settings = self.backbone.server_settings
        is_api = name.startswith("api:")
        return settings.for_api(config.concurrency) if is_api else settings.as_settings()


def read_role(name: str, api_key_env: str | None = None) -> BackboneConfig:
    """The config of a model that is not "self". Raises ConfigError."""
    if not name or name == SELF:
        raise ConfigError(f"model {name!r}: pass a backbone or api:MODEL@URL")
    settings = {} if api_key_env is None else {"api_key_env": api_key_env}
    if name.startswith("api:"):
        return api_config(name, "model", **settings)
    spec, adapter = split_role(name)
    if spec.startswith("server:"):
        return read_spec(spec, **settings, **adapter)
    return read_spec(spec, **adapter)


def split_role(name: str) -> tuple[str, dict[str, str]]:
    """The model that `name` names, as `--model` takes it, and the setting of the backbone that names its
    adapter, if it has one. Not for "self" and "api:"."""
    spec, plus, adapter = name.rpartition("+")
    # A folder's own name may contain a +.
    if not plus or not adapter or Path(name).exists():
        return name, {}
    return spec, {"adapter_model" if spec.startswith("server:") else "adapter": adapter}


def public_role(name: str) -> str:
    """The name without a server's address, which changes no answer; its adapter stays."""
    if name.startswith("api:"):
        return without_address(name)
    if name.startswith("server:"):
        spec, adapter = split_role(name)
        return "+".join([without_address(spec), *adapter.values()])
    return name


def _around(backbone: Backbone) -> AgentModel:
    if isinstance(backbone, ServerBackbone):
        return ServedModel(backbone)
    # Questions in flight make one request at a time each; served together, they are one batch.
    return BackboneModel(share_backbone(backbone))
