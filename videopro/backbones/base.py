"""The interface that every VideoLLM implements, with its requests, replies and settings.

Imports no model library: a backbone is imported only when it is loaded (`videopro.backbones.load_backbone`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from videopro.backbones.address import ServerSettings, check_key_name, url_problem
from videopro.backbones.model_record import ModelRecord, PlannerRecord, VideoMarks
from videopro.cli import answering_settings, did_you_mean
from videopro.errors import BackboneError, ConfigError
from videopro.question import Answer, Question

if TYPE_CHECKING:
    from videopro.video import Frame

YES_NO = ("Yes", "No")

# The paper's settings: frames per call, and pixels per frame (64 merged patches of 28 x 28).
DEFAULT_FRAMES = 64
DEFAULT_PIXELS = 50_176


@dataclass(frozen=True)
class Generation:
    """A generated reply, without the model's thoughts before it."""

    text: str
    token_ids: tuple[int, ...]
    """The text's tokens without the end-of-sequence token; empty if a server does not report them."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each token under the model's own softmax over the full vocabulary, before
    temperature, top-p and banned tokens are applied."""
    finish: Literal["stop", "length"]
    """Whether the model ended it; False: the token limit cut it off."""
    tokens_in: int
    is_constrained: bool = False
    """Whether decoding was constrained to the request's schema."""
    tokens: tuple[str, ...] = ()
    """The text of each token of `logprobs`; a token of part of a character has replacement characters."""
    thoughts: str = ""
    """The model's thoughts, with their marks if the server leaves them."""
    thought_tokens: int = 0
    """Tokens of the thoughts, which are neither in `token_ids` nor in `logprobs`."""

    @property
    def confidence(self) -> float:
        """Eq. 2: exp of the mean log-probability; 0.0 for an empty reply."""
        if not self.logprobs:
            return 0.0
        return math.exp(math.fsum(self.logprobs) / len(self.logprobs))

    @property
    def tokens_out(self) -> int:
        """The reply's tokens, with those of the thoughts. A server that lists no ids lists the
        log-probability of every token."""
        return max(len(self.token_ids), len(self.logprobs)) + self.thought_tokens


class Prefix:
    """A video that is encoded once and shared by many requests; created by `Backbone.prefix`.

    It holds the backbone's memory until `close()` (or the end of its `with` block). It can be used only with
    the backbone and the adapter state that created it; any other use raises `BackboneError`.
    """

    frames: tuple[Frame, ...]
    system: str = ""
    """The system turn before the frames; empty: the chat template's own."""
    tokens: int = 0
    """Prompt tokens that a request on this prefix does not process again; 0: a server does not say."""
    _content: Any = None

    def __init__(
        self,
        owner: Backbone,
        frames: Sequence[Frame],
        content: Any,
        *,
        system: str = "",
        tokens: int = 0,
        adapted: bool | None = None,
    ) -> None:
        """`owner` made `content` of the frames, and gets it by `use`; `adapted`: with the adapter on or off
        (None: it is the same)."""
        self.frames = tuple(frames)
        self.system = system
        self.tokens = tokens
        self._content = content
        self._owner = owner
        self._adapted = adapted

    def use(self, owner: Backbone, system: str, *, adapted: bool | None = None) -> Any:
        """The content, for a request of a backbone in this adapter state, with this system turn. Raises
        `BackboneError` for what it was not made for."""
        if self._content is None:
            raise BackboneError("this prefix is closed; make a new one with backbone.prefix(frames)")
        if owner is not self._owner:
            raise BackboneError(
                "this prefix belongs to another backbone; make one with this backbone's prefix(frames)"
            )
        if adapted != self._adapted:
            before, now = ("on", "off") if self._adapted else ("off", "on")
            raise BackboneError(
                f"this prefix was made with the adapter {before}, but the adapter is {now}; make one for "
                "this state"
            )
        if system != self.system:
            raise BackboneError(
                f"the request's system turn is {system!r}, but the prefix begins with {self.system!r}; make "
                "the prefix with the request's system turn"
            )
        return self._content

    def close(self) -> None:
        """Release the memory; calling it again does nothing."""
        self._content = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Stills(tuple["Frame", ...]):
    """Frames that a model sees one by one, as images after their times: for frames that lie far apart.

    Qwen's videos merge every two consecutive frames into one. That halves the tokens of a sampled moment, but
    unrelated frames can hardly be distinguished.
    """


class Interleaved(Stills):
    """Frames with texts between them, such as the subtitles spoken there.

    `texts` has one entry per frame: the text before it, or an empty string. Raises ValueError for another
    number of texts.
    """

    texts: tuple[str, ...]

    def __new__(cls, frames: Sequence[Frame], texts: Sequence[str]) -> Self:
        """Frames in order, and the text before each."""
        if len(frames) != len(texts):
            raise ValueError(f"{len(frames)} frames need as many texts, not {len(texts)}")
        self = super().__new__(cls, frames)
        self.texts = tuple(texts)
        return self


# What a model is shown: frames in order (a video, or `Stills`; one frame is an image), a shared prefix, or
# None (text only).
Visual: TypeAlias = "Sequence[Frame] | Prefix | None"


@dataclass(frozen=True)
class ChoiceRequest:
    """One multiple-choice question about one visual. `prompt` None means
    `prompts.multiple_choice(question)`."""

    visual: Visual
    question: Question
    prompt: str | None = None
    system: str = ""
    """The system turn; that of a `Prefix` must be the same. Empty: the chat template's own, if it has one."""
    prefill: str = ""
    """The start of the reply, which the model continues."""


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
    """Seed of this request, whatever its place in a batch: it samples the same tokens as in a separate call
    with that seed. None: `Sampling.seed` and the request's place in the batch."""
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    """JSON schema of the reply. A server that offers it constrains decoding to the schema; other backbones
    generate freely; see `Generation.is_constrained`."""
    system: str = ""
    """The system turn; that of a `Prefix` must be the same. Empty: the chat template's own, if it has one."""
    prefill: str = ""
    """The start of the reply, which the model continues; not part of the generated text."""

    def __post_init__(self) -> None:
        _check_seed(self.seed)


@dataclass(frozen=True)
class Sampling:
    """How a reply is generated. The default is greedy decoding.

    Raises ConfigError for a value out of range.

    >>> Sampling(max_new_tokens=1024, temperature=0.7, seed=3).top_p
    1.0
    """

    max_new_tokens: int = 256
    """Maximum reply length in tokens; at least 1."""
    temperature: float = 0.0
    """0: greedy; above 0: logits are divided by it and a token is sampled."""
    top_p: float = 1.0
    """Sample from the most likely tokens whose probabilities sum to this; above 0, at most 1 (1: all)."""
    seed: int | None = None
    """Random seed, 0 or more; None: a different sample each time."""

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise ConfigError(f"max_new_tokens is {self.max_new_tokens}; it must be at least 1")
        if not 0 <= self.temperature < math.inf:
            raise ConfigError(f"temperature is {self.temperature}; it must be 0 (greedy) or more")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p is {self.top_p}; it must be above 0 and at most 1")
        _check_seed(self.seed)


GREEDY = Sampling()


# Whether a setting can change an answer, of which kind of model: `identity` has those that can.
_ANY = {"answers": True}
_QWEN = {"answers": True, "kind": "qwen"}
_SERVER = {"answers": True, "kind": "server"}
_NEVER = {"answers": False}


@dataclass(frozen=True)
class BackboneConfig(ServerSettings):
    """What to load and how. Only `model` is required.

    >>> BackboneConfig(model="Qwen/Qwen3-VL-8B-Instruct", dtype="bf16").kind
    'qwen'
    """

    model: str = field(metadata=_ANY)
    """Hub name or folder (`qwen`), the name by which the server knows the model (`server`), or the plug-in's
    (`own`)."""
    kind: Literal["qwen", "server", "own"] = field(default="qwen", metadata=_ANY)
    """"own": a plug-in loads it."""
    frames: int | None = field(default=None, metadata=_ANY)
    """Maximum frames per call; None: what the adapter was trained with, or else the model (`videopro.json`
    in its folder), else 64."""
    pixels: int | None = field(default=None, metadata=_ANY)
    """Maximum pixels per frame (height x width after resizing); None: as `frames`, else 50,176."""
    video_marks: Literal[VideoMarks, None] = field(default=None, metadata=_QWEN)
    """Form of a video in prompts of Qwen3-VL and newer (`VideoMarks`); of a server, the one to expect. None:
    as `frames`, else "published"."""

    adapter: str | None = field(default=None, metadata=_QWEN)
    """Folder or hub name of a LoRA adapter for `model`."""
    dtype: Literal["auto", "bf16", "fp32"] = field(default="auto", metadata=_QWEN)
    """"auto": bf16 on an accelerator, fp32 on a CPU."""
    attention: Literal["sdpa", "eager", "flash_attention_2"] = field(default="sdpa", metadata=_QWEN)
    device_map: str | None = field(default=None, metadata=_NEVER)
    """"cpu", "cuda", "cuda:1", or "auto" to spread over several devices; None: the first accelerator, else
    the CPU."""
    batch_size: int = field(default=8, metadata=_NEVER)
    """Maximum requests in one forward pass."""

    base_url: str | None = field(default=None, metadata=_NEVER)
    """Address of an OpenAI-compatible endpoint, such as http://localhost:8000/v1."""
    api_key_env: str | None = field(default=None, metadata=_NEVER)
    """Environment variable that holds the API key; the key itself is never written anywhere. None:
    OPENAI_API_KEY for OpenAI's own address, no key for any other."""
    video: Literal["auto", "video", "frames"] = field(default="auto", metadata=_SERVER)
    """How frames are sent: as a video if the server accepts one ("auto"), always as a video, or as images."""
    adapter_model: str | None = field(default=None, metadata=_SERVER)
    """The server's name for `model` with its LoRA adapter (vLLM: --lora-modules NAME=PATH)."""
    extra_body: Mapping[str, Any] = field(default_factory=dict, hash=False, metadata=_SERVER)
    """Extra fields for every request, such as {"chat_template_kwargs": {"enable_thinking": True}}."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigError("backbone: 'model' is empty; set a hub name or a folder")
        for name, allowed in _ALLOWED.items():
            if getattr(self, name) not in allowed:
                raise ConfigError(
                    f"backbone: {name} is {getattr(self, name)!r}; it must be one of "
                    + ", ".join(map(repr, allowed))
                )
        for name in ("frames", "pixels", "batch_size", "concurrency"):
            value = getattr(self, name)
            # A bool is an int to Python, and `frames: true` a slip.
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ConfigError(f"backbone: {name} is {value!r}; it must be a whole number of at least 1")
        if self.kind == "server" and not self.base_url:
            raise ConfigError("backbone: kind 'server' needs 'base_url', such as http://localhost:8000/v1")
        if self.base_url is not None and (problem := url_problem(self.base_url)):
            raise ConfigError(f"backbone: base_url: {problem}; write it as in http://localhost:8000/v1")
        check_key_name(self.api_key_env)

    @property
    def server_settings(self) -> ServerSettings:
        """How requests are sent to a server."""
        return ServerSettings.given_in(vars(self))

    def answering(self) -> dict[str, Any]:
        """The settings that can change an answer of this kind of model, for its identity."""
        values = answering_settings(self)
        kinds = {option.name: option.metadata.get("kind", self.kind) for option in fields(self)}
        return {name: value for name, value in values.items() if kinds[name] == self.kind}

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> BackboneConfig:
        """The config for settings read from YAML. Raises `ConfigError` for an unknown key and names the
        nearest known one."""
        check_keys(settings, [field.name for field in fields(cls)])
        if "model" not in settings:
            raise ConfigError("backbone: 'model' is missing; set a hub name or a folder")
        return cls(**settings)

    def but(self, **changes: Any) -> BackboneConfig:
        """A copy with some settings changed. Raises `ConfigError` for an unknown setting."""
        check_keys(changes, [field.name for field in fields(self)])
        return replace(self, **changes)


# What a YAML file gives is not checked by Python against the types.
_ALLOWED: Mapping[str, tuple[str, ...]] = {
    name: get_args(hint)
    for name, hint in get_type_hints(BackboneConfig).items()
    if get_origin(hint) is Literal
}


def check_keys(settings: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise `ConfigError` for the first unknown key, naming the nearest known one."""
    for key in settings:
        if key not in names:
            raise ConfigError(f"backbone: unknown setting {key!r}; {did_you_mean(str(key), names)}")


class Backbone(ABC):
    """A VideoLLM. Every method raises `BackboneError` if the model or server cannot serve the request.

    `visual` is a sequence of frames in the order in which they are shown, a `Prefix` of this backbone, or
    None for text only. Batched calls return results in the order of the requests, equal to single calls up
    to rounding.
    """

    name: str
    """The model, as named by the user."""
    frames: int
    """Maximum frames per call; a longer sequence raises `BackboneError`."""
    context_tokens: int | None = None
    """Maximum prompt length in tokens; None: unknown, or a server, which refuses longer prompts."""
    planner: PlannerRecord | None = None
    """The planner record in its folder; None: it has none."""
    record: ModelRecord | None = None
    """The training record in its folder, or its adapter's; None: nothing is known."""
    checkpoint: Path | None = None
    """The folder of a served model's checkpoint, if it is on this machine."""
    notes: tuple[str, ...] = ()
    """Warnings to the user about how the model is prompted; recorded in every trace."""
    versions: Mapping[str, str] = MappingProxyType({})
    """Versions of the software that answers in another process, by name; recorded in every trace."""
    server_settings: ServerSettings = ServerSettings()
    """How requests are sent to the servers of a run, for this and its other models."""
    is_concurrent: bool = False
    """Whether it serves calls of several threads in parallel, as servers do."""

    @abstractmethod
    def identity(self) -> dict[str, object]:
        """JSON-serializable facts for a run's key: model, fingerprints of the weights and of the adapter,
        dtype, attention, frames, pixels. Backbones with equal identities give the same answers up to
        rounding."""

    @abstractmethod
    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        """(height, width) to which the model would resize `n_frames` frames of (height, width) pixels, so
        that they can be decoded at that size directly. None: the server resizes; decode at any size."""

    def answer(self, visual: Visual, question: Question, *, prompt: str | None = None) -> Answer:
        """Answer one multiple-choice question; `prompt` defaults to `prompts.multiple_choice(question)`."""
        return self.answer_batch([ChoiceRequest(visual, question, prompt)])[0]

    @abstractmethod
    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        """Answer several multiple-choice questions, about one or several visuals."""

    def yes_no(self, visual: Visual, text: str) -> Answer:
        """Answer the prompt `text` (see `prompts.yes_no`) with Yes or No."""
        return self.yes_no_batch([YesNoRequest(visual, text)])[0]

    @abstractmethod
    def yes_no_batch(self, requests: Sequence[YesNoRequest]) -> list[Answer]:
        """Answer several yes-or-no questions, about one or several visuals."""

    def generate(self, visual: Visual, text: str, sampling: Sampling = GREEDY) -> Generation:
        """Generate a reply to the prompt `text`."""
        return self.generate_batch([GenerateRequest(visual, text)], sampling)[0]

    @abstractmethod
    def generate_batch(
        self, requests: Sequence[GenerateRequest], sampling: Sampling = GREEDY
    ) -> list[Generation]:
        """Generate several replies. With `sampling.seed`, row i samples from (seed, i) only; a request's own
        seed replaces both."""

    @abstractmethod
    def prefix(self, frames: Sequence[Frame], *, system: str = "") -> Prefix:
        """Encode frames once, after a system turn if there is one, for use as `visual` in any number of
        calls."""

    @abstractmethod
    def adapter(self, enabled: bool) -> AbstractContextManager[None]:
        """Turn the adapter on or off within a `with` block. Without an adapter, turning it on raises
        `BackboneError` and turning it off does nothing."""

    @abstractmethod
    def close(self) -> None:
        """Release memory and connections."""


@dataclass(frozen=True, eq=False)
class Awaited:
    """A request to which somebody waits for a reply."""

    request: GenerateRequest
    number: int
    """The number of the request in its call."""
    done: Callable[[Generation], None]
    """Called with the reply, as soon as it is complete."""
    failed: Callable[[Exception], None]
    """Called with the error of a request that cannot be served, while others can."""
    is_cancelled: Callable[[], bool] = lambda: False
    """Whether nobody waits any more: the reply is not continued. It stays so."""


class Joining(Protocol):
    """The callers that wait while replies are generated."""

    def pause(self) -> None:
        """Called between two steps: serve what takes a single pass of the model."""

    def take(self, room: int) -> Sequence[Awaited]:
        """At most `room` more requests to write replies to, with the same sampling."""


@runtime_checkable
class JoiningBackbone(Protocol):
    """A backbone to whose batches more requests can be added."""

    def generate_joining(self, sampling: Sampling, joining: Joining) -> None:
        """Write replies to what `joining` has, until it has nothing more."""
