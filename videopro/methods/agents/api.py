"""Models behind a server in a role: an endpoint without log-probabilities, and a served backbone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from videopro.backbones import DEFAULT_FRAMES, DEFAULT_PIXELS, BackboneConfig, Sampling
from videopro.backbones.server import (
    ChatClient,
    RequestRefused,
    ServerBackbone,
    encode_frames,
    response_format,
    sent_size,
    visual_parts,
)
from videopro.errors import BackboneError
from videopro.methods.agents.models import (
    AgentModel,
    BackboneModel,
    ModelReply,
    Tool,
    ToolCall,
    ToolsRefused,
    Turn,
)
from videopro.question import Answer, Question, extract_letter
from videopro.storage import encodable
from videopro.video import Frame

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
        return {"kind": "api", "model": self.name, "frames": self.frames, "pixels": self._pixels}

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

    def close(self) -> None:
        self._client.close()

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
            tuple(
                ToolCall(call.function.name, encodable(call.function.arguments), call.id)
                for call in reply.calls
            ),
            tuple(f"{name} left out: the server refuses it" for name in sorted(left_out)),
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

    def close(self) -> None:
        self._chat.close()
        super().close()


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
