"""The model that judges: behind a chat endpoint, which needs no log-probabilities, or in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from videopro.backbones import (
    DEFAULT_FRAMES,
    DEFAULT_PIXELS,
    Backbone,
    BackboneConfig,
    GenerateRequest,
    Sampling,
    read_spec,
)
from videopro.backbones.server import ChatClient, api_config, encode_frames, visual_parts
from videopro.video import Frame

# Requests in flight: most judges are hosted, and limit their rate.
_CONCURRENCY = 8


@dataclass(frozen=True)
class JudgeReply:
    """What a judge said, without what it thought."""

    text: str
    thoughts: str = ""
    cut_at: int | None = None
    """The limit in tokens that cut the reply off; None: it ended by itself."""


class Judge(ABC):
    """Replies to prompts. Every call raises BackboneError for a request that cannot be served."""

    frames: int
    """Maximum frames per call."""
    threads: int = 1
    """How many threads may ask at a time."""

    @abstractmethod
    def reply(self, text: str, *, system: str = "", frames: Sequence[Frame] = ()) -> JudgeReply:
        """The reply to a prompt about frames (none: text only)."""

    @abstractmethod
    def close(self) -> None:
        """Release what it holds."""


def load_judge(
    spec: str, settings: Mapping[str, Any], max_new_tokens: int, *, load: Callable[..., Backbone]
) -> Judge:
    """The judge that `spec` names, whose replies have at most `max_new_tokens` tokens, thoughts included.
    `load(spec, **settings)` loads a model into this process. Raises ConfigError or BackboneError."""
    config = judge_config(spec, settings)
    if config.kind == "server":
        return _ServedJudge(config, max_new_tokens)
    return _LocalJudge(load(spec, **settings), max_new_tokens)


def judge_config(spec: str, settings: Mapping[str, Any]) -> BackboneConfig:
    """The config of a judge. Raises ConfigError for a malformed spec or setting."""
    settings = {"concurrency": _CONCURRENCY, **settings}
    return api_config(spec, "judge", **settings) if spec.startswith("api:") else read_spec(spec, **settings)


class _ServedJudge(Judge):
    """Frames are sent as images after their times, or with video=video as one video."""

    def __init__(self, config: BackboneConfig, max_new_tokens: int) -> None:
        self.frames = config.frames or DEFAULT_FRAMES
        self.threads = config.concurrency
        self._config = config
        self._limit = max_new_tokens
        self._client = ChatClient(config)

    def reply(self, text: str, *, system: str = "", frames: Sequence[Frame] = ()) -> JudgeReply:
        content: Any = text
        extra: Mapping[str, Any] = {}
        if frames:
            encoded = encode_frames(frames, self._config.pixels or DEFAULT_PIXELS)
            as_video = self._config.video == "video" and len(frames) > 1
            parts, extra = visual_parts(encoded, as_video=as_video)
            content = [*parts, {"type": "text", "text": text}]
        messages = [{"role": "user", "content": content}]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        reply, _ = self._client.reply(messages, self._limit, {"temperature": 0.0, **extra})
        return JudgeReply(reply.text, reply.thoughts, reply.cut_at)

    def close(self) -> None:
        self._client.close()


class _LocalJudge(Judge):
    def __init__(self, backbone: Backbone, max_new_tokens: int) -> None:
        self.frames = backbone.frames
        self._backbone = backbone
        self._limit = max_new_tokens

    def reply(self, text: str, *, system: str = "", frames: Sequence[Frame] = ()) -> JudgeReply:
        request = GenerateRequest(frames or None, text, system=system)
        (reply,) = self._backbone.generate_batch([request], Sampling(self._limit))
        return JudgeReply(reply.text, reply.thoughts, self._limit if reply.finish == "length" else None)

    def close(self) -> None:
        self._backbone.close()
