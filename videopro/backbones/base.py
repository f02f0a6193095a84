"""The one interface behind which every VideoLLM stands, and the records that pass through it.

Knows frames and questions. Must not know any model library, benchmark, module or run: a backbone is imported
only when it is loaded (`videopro.backbones.load_backbone`).
"""

from __future__ import annotations

import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from videopro.errors import ConfigError
from videopro.question import Answer, Question

if TYPE_CHECKING:
    from videopro.video import Frame

YES_NO = ("Yes", "No")

# The paper's settings: frames a call, and pixels a frame (64 merged patches of 28 x 28).
DEFAULT_FRAMES = 64
DEFAULT_PIXELS = 50_176


@dataclass(frozen=True)
class Generation:
    """A written reply."""

    text: str
    token_ids: tuple[int, ...]
    """The reply's tokens without the end-of-sequence token; empty from a server that does not tell them."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each token under the full-vocabulary softmax of the model itself:
    temperature, top-p and banned tokens change what is drawn, never these numbers."""
    finish: Literal["stop", "length"]
    tokens_in: int

    @property
    def confidence(self) -> float:
        """Eq. 2: exp of the mean log-probability; 0.0 for an empty reply."""
        if not self.logprobs:
            return 0.0
        return math.exp(math.fsum(self.logprobs) / len(self.logprobs))


class Prefix(ABC):
    """A video that was encoded once and that many requests share; made by `Backbone.prefix`.

    It holds memory of the backbone until `close()` (or the end of its `with` block). It belongs to the
    backbone and to the adapter state that made it; any other use is a `BackboneError`.
    """

    frames: tuple[Frame, ...]
    tokens: int
    """Prompt tokens that a request on this prefix does not pay again."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the memory was given back."""

    @abstractmethod
    def close(self) -> None:
        """Give the memory back; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# What a model looks at: frames in the order in which they are shown (one frame goes as an image), a shared
# prefix, or nothing (text only).
Visual: TypeAlias = "Sequence[Frame] | Prefix | None"


@dataclass(frozen=True)
class ChoiceRequest:
    """One multiple-choice question about one visual. `prompt` None means
    `prompts.multiple_choice(question)`."""

    visual: Visual
    question: Question
    prompt: str | None = None


@dataclass(frozen=True)
class YesNoRequest:
    """One yes-or-no question about one visual; write `text` with `prompts.yes_no`."""

    visual: Visual
    text: str


def _check_seed(seed: int | None) -> None:
    if seed is not None and seed < 0:
        raise ConfigError(f"seed is {seed}; it must be 0 or more")


@dataclass(frozen=True)
class GenerateRequest:
    """One prompt about one visual. Raises ConfigError for a negative seed."""

    visual: Visual
    text: str
    seed: int | None = None
    """Fixes what sampling draws for this request, whatever its place in a batch: the same as that seed in a
    call of its own. None: `Sampling.seed` and the request's place in the batch."""

    def __post_init__(self) -> None:
        _check_seed(self.seed)


@dataclass(frozen=True)
class Sampling:
    """How a reply is written. The defaults are greedy: the most likely token each time.

    Raises ConfigError for a value out of its range.

    >>> Sampling(max_new_tokens=1024, temperature=0.7, seed=3).top_p
    1.0
    """

    max_new_tokens: int = 256
    """Longest reply, in tokens; at least 1."""
    temperature: float = 0.0
    """0 is greedy; above 0, logits are divided by it and a token is drawn."""
    top_p: float = 1.0
    """Draw among the most likely tokens whose probabilities sum to this, above 0 and at most 1 (1: all)."""
    seed: int | None = None
    """Fixes what is drawn, 0 or more; None: another draw each time."""

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens is {self.max_new_tokens}; it must be at least 1")
        if not 0 <= self.temperature < math.inf:
            raise ConfigError(f"temperature is {self.temperature}; it must be 0 (greedy) or more")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p is {self.top_p}; it must be above 0 and at most 1")
        _check_seed(self.seed)


GREEDY = Sampling()


@dataclass(frozen=True)
class BackboneConfig:
    """What to load and how. Only `model` is needed.

    >>> BackboneConfig(model="Qwen/Qwen3-VL-8B-Instruct", dtype="bf16").kind
    'qwen'
    """

    model: str
    """Hub name or folder (`qwen`), or the name by which the server knows the model (`server`)."""
    kind: Literal["qwen", "server"] = "qwen"
    frames: int | None = None
    """Frames a call; None: `videopro.json` in the model's folder, else 64."""
    pixels: int | None = None
    """Pixels a frame at most (height x width after resizing); None: `videopro.json`, else 50,176."""

    # qwen
    adapter: str | None = None
    """Folder or hub name of a LoRA adapter for `model`."""
    dtype: Literal["auto", "bf16", "fp32"] = "auto"
    """"auto": bf16 on an accelerator, fp32 on a CPU."""
    attention: Literal["sdpa", "eager", "flash_attention_2"] = "sdpa"
    device_map: str | None = None
    """"cpu", "cuda", "cuda:1", or "auto" to spread over several devices; None: the first accelerator, else
    the CPU."""
    batch_size: int = 8
    """Requests in one forward pass at most."""

    # server
    base_url: str | None = None
    """Address of an OpenAI-compatible endpoint, such as http://localhost:8000/v1."""
    api_key_env: str | None = None
    """Environment variable that holds the key; the key itself is never written anywhere. None:
    OPENAI_API_KEY for OpenAI's own address, and no key for any other."""
    concurrency: int = 8
    """Requests in flight at most."""
    timeout: float = 300.0
    """Seconds for one request."""
    retries: int = 4
    """Further tries after a failure that may pass."""
    video: Literal["auto", "video", "frames"] = "auto"
    """How frames are sent: as a video where the server takes one, always, or never."""
    adapter_model: str | None = None
    """The name by which the server knows `model` with its LoRA adapter (vLLM: --lora-modules NAME=PATH)."""
    extra_body: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Further fields of every request, such as {"chat_template_kwargs": {"enable_thinking": True}}."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigError("backbone: 'model' is empty; give a hub name, a folder or 'pocket'")
        for name, allowed in _ALLOWED.items():
            if getattr(self, name) not in allowed:
                raise ConfigError(
                    f"backbone: {name} is {getattr(self, name)!r}; it must be one of "
                    + ", ".join(map(repr, allowed))
                )
        for name in ("frames", "pixels", "batch_size", "concurrency"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ConfigError(f"backbone: {name} is {value!r}; it must be a whole number of at least 1")
        if self.kind == "server" and not self.base_url:
            raise ConfigError("backbone: kind 'server' needs 'base_url', such as http://localhost:8000/v1")

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> BackboneConfig:
        """Settings as read from YAML. An unknown key is a `ConfigError` that names the nearest known one."""
        check_keys(settings, [field.name for field in fields(cls)])
        if "model" not in settings:
            raise ConfigError("backbone: 'model' is missing; give a hub name, a folder or 'pocket'")
        return cls(**settings)

    def but(self, **changes: Any) -> BackboneConfig:
        """A copy with some settings changed; an unknown one is a `ConfigError`."""
        check_keys(changes, [field.name for field in fields(self)])
        return replace(self, **changes)


_ALLOWED: Mapping[str, tuple[str, ...]] = {
    "kind": ("qwen", "server"),
    "dtype": ("auto", "bf16", "fp32"),
    "attention": ("sdpa", "eager", "flash_attention_2"),
    "video": ("auto", "video", "frames"),
}


def check_keys(settings: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise `ConfigError` for the first key that is not known, naming the nearest one."""
    for key in settings:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
            raise ConfigError(f"backbone: unknown setting {key!r}; {hint}")


class Backbone(ABC):
    """A VideoLLM. Every method raises `BackboneError` when the model or server cannot serve the request.

    `visual` is a sequence of frames in the order in which they are shown, a `Prefix` of this backbone, or
    None for text only. Batched calls return results in the order of the requests, equal to single calls up
    to rounding.
    """

    name: str
    """The model as the user named it."""
    frames: int
    """Frame budget of one call; a longer sequence is a `BackboneError`."""

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """What a run's key hashes, JSON-able: model, fingerprint of the weights and of the adapter, dtype,
        attention, frames, pixels. Two backbones with equal identities give the same answers up to
        rounding."""

    @abstractmethod
    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        """(height, width) to which the model would resize `n_frames` frames of (height, width) pixels, so
        that they can be decoded at that size at once. None: the server resizes; decode as you like."""

    def answer(self, visual: Visual, question: Question, *, prompt: str | None = None) -> Answer:
        """One multiple-choice question; `prompt` defaults to `prompts.multiple_choice(question)`."""
        return self.answer_batch([ChoiceRequest(visual, question, prompt)])[0]

    @abstractmethod
    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        """Several multiple-choice questions, about one or several visuals."""

    def yes_no(self, visual: Visual, text: str) -> Answer:
        """The prompt `text` answered with Yes or No (write it with `prompts.yes_no`)."""
        return self.yes_no_batch([YesNoRequest(visual, text)])[0]

    @abstractmethod
    def yes_no_batch(self, requests: Sequence[YesNoRequest]) -> list[Answer]:
        """Several yes-or-no questions, about one or several visuals."""

    def generate(self, visual: Visual, text: str, sampling: Sampling = GREEDY) -> Generation:
        """A written reply to the prompt `text`."""
        return self.generate_batch([GenerateRequest(visual, text)], sampling)[0]

    @abstractmethod
    def generate_batch(
        self, requests: Sequence[GenerateRequest], sampling: Sampling = GREEDY
    ) -> list[Generation]:
        """Several written replies. With `sampling.seed`, what row i draws depends on (seed, i) only; a
        request's own seed takes the place of both."""

    @abstractmethod
    def chat(self, messages: Sequence[Mapping[str, Any]], sampling: Sampling = GREEDY) -> Generation:
        """A reply to ordinary Qwen chat messages with text, image and video parts."""

    @abstractmethod
    def prefix(self, frames: Sequence[Frame]) -> Prefix:
        """Encode frames once, to be used as `visual` in any number of calls."""

    @abstractmethod
    def adapter(self, enabled: bool) -> AbstractContextManager[None]:
        """Within the block, the adapter is on or off. A backbone without an adapter raises when asked to turn
        one on; turning off what is not there does nothing."""

    @abstractmethod
    def close(self) -> None:
        """Give memory and connections back."""
