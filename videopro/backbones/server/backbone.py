"""The backbone for an OpenAI-compatible endpoint with log-probabilities: vLLM, SGLang, OpenAI.

`client` sends requests, `messages` encodes frames, `replies` reads replies, and `profile` has what the server
says of itself.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from videopro.backbones.base import (
    GREEDY,
    YES_NO,
    Backbone,
    BackboneConfig,
    ChoiceRequest,
    GenerateRequest,
    Generation,
    Prefix,
    Sampling,
    Visual,
    YesNoRequest,
)
from videopro.backbones.model_record import PlannerRecord
from videopro.backbones.server.clients import refuses_schema
from videopro.backbones.server.endpoint import Endpoint, RequestRefused
from videopro.backbones.server.messages import (
    CHOICE_FIELDS,
    NEUTRAL_SAMPLING,
    RESERVED_FIELDS,
    EncodedFrames,
    Messages,
    Prompted,
    check_budget,
    encode_frames,
    reply_fields,
    request_body,
    row_seed,
    sent_size,
    user_message,
)
from videopro.backbones.server.profile import ENGINES, ServerProfile
from videopro.backbones.server.replies import NO_LOGPROBS, Completion, read_choice, read_generation
from videopro.errors import BackboneError, ConfigError
from videopro.question import Answer, prompts

if TYPE_CHECKING:
    from videopro.video import Frame

logger = logging.getLogger(__name__)


class ServerBackbone(Backbone):
    """A served VideoLLM.

    `config` has kind "server". `budget_settings` says how the user gives frames and pixels, for messages.
    Nothing is sent until the first call, or until frames or pixels are asked for that the config does not
    give. Thread-safe; all threads together have at most `config.concurrency` requests in flight.

    Video: with `config.video` "video", frames are sent as one video; with "frames", as images after their
    times; with "auto", the first call about several frames probes the server with two small requests: frames
    are sent as a video if the server accepts one *and* the frames' times change the prompt's length, else as
    images, with a warning. Qwen2.5-VL does not write times, so "auto" sends it images with times; "video" is
    cheaper there, but preserves the mean interval at best.

    Before the first video, the ids of the prompt that vLLM's model saw are compared with ours, if the model's
    processor is on this machine; a difference is a warning. Warnings are also in `notes`.

    Frames and pixels: those of the settings, else those that the model's own record gives, where its files
    are on this machine (`profile.record`), else the defaults, with a warning.

    Thinking is turned off if the server is vLLM or SGLang (see `ServerProfile.engine`), as for local models;
    `extra_body` can turn it on for generated replies. One-letter answers need it off.

    Raises `ConfigError` for invalid settings. Every call raises `BackboneError` if the server is
    unreachable, refuses, does not know the model or returns no log-probabilities.
    """

    is_concurrent = True

    def __init__(
        self,
        config: BackboneConfig,
        *,
        budget_settings: str = "--backbone frames=N pixels=N",
    ) -> None:
        _check(config)
        self.config = config
        self.name = config.model
        self.server_settings = config.server_settings
        self._endpoint = Endpoint(config)
        self._server = f"server {self._endpoint.url}"
        self.profile = ServerProfile(config, self._endpoint, budget_settings, self._probe)
        """What the server reports about itself and its model. May query it."""
        self._offers_schemas = True
        """Until the server refuses one."""
        # Per thread: one question's planner and another question's answers may run at the same time.
        self._adapter_on: ContextVar[bool] = ContextVar(
            "adapter_on", default=config.adapter_model is not None
        )

    # -- the model

    @property
    def frames(self) -> int:  # type: ignore[override]
        """Frames a call. May query the server once, unless the settings give frames and pixels."""
        return self.profile.budget[0]

    @property
    def pixels(self) -> int:
        """Pixels a frame; as `frames`."""
        return self.profile.budget[1]

    @property
    def planner(self) -> PlannerRecord | None:  # type: ignore[override]
        """What the served model or its adapter records of itself, if its files are on this machine."""
        return self.profile.record.planner

    @property
    def checkpoint(self) -> Path | None:  # type: ignore[override]
        """That of an adapter's base."""
        return self.profile.record.folder

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.profile.notes

    @property
    def versions(self) -> Mapping[str, str]:  # type: ignore[override]
        return self.profile.versions

    # -- identity

    def identity(self, *, recorded: Mapping[str, Any] | None = None) -> dict[str, object]:
        """Model, what the server reports about its weights, and everything that affects a request.

        The address is not part of it: the same model at another port gives the same answers. The first call
        queries the server. `recorded`: the identity of a run, whose form of videos saves probing the server.
        """
        profile, config = self.profile, self.config
        profile.compare_budget()
        form, marks = (recorded or {}).get("video"), (recorded or {}).get("video_marks")
        if form is None:
            profile.require_video()
            form, marks = profile.video_form, profile.video_marks
        elif config.video != "auto":
            form = config.video
        return {
            **config.answering(),
            "engine": profile.engine,
            "weights": profile.card.get("root"),
            "adapter_weights": profile.adapter_root,
            "frames": self.frames,
            "pixels": self.pixels,
            "video": form,
            "video_marks": marks,
            "extra_body": self._extra_body(),
            **({} if self.planner is None else self.planner.identity()),
        }

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        """The (height, width) at which frames are sent: at most `pixels`, in multiples of 32, never
        enlarged."""
        return sent_size(height, width, self.pixels)

    # -- calls

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        """Answer questions, one request and one reply token each, up to `concurrency` at a time.

        See `replies` for which token counts, and for letters outside the 20 that a server lists.
        """
        prompted = [
            GenerateRequest(
                request.visual,
                prompts.multiple_choice(request.question) if request.prompt is None else request.prompt,
                system=request.system,
                prefill=request.prefill,
            )
            for request in requests
        ]
        return [
            read_choice(completion, request.question.letters, self._server)
            for completion, request in zip(self._choose(prompted), requests, strict=True)
        ]

    def yes_no_batch(self, requests: Sequence[YesNoRequest]) -> list[Answer]:
        """Answer yes-or-no questions, in the same way as letters."""
        prompted = [GenerateRequest(request.visual, request.text) for request in requests]
        return [read_choice(completion, YES_NO, self._server) for completion in self._choose(prompted)]

    def generate_batch(
        self, requests: Sequence[GenerateRequest], sampling: Sampling = GREEDY
    ) -> list[Generation]:
        """Generate replies. Row 0 uses `sampling.seed` itself, row i a seed derived from it and i."""
        rows = self._rows(requests)
        seed = sampling.seed
        seeds = [
            row_seed(seed, row) if request.seed is None and seed is not None else request.seed
            for row, request in enumerate(requests)
        ]
        schemas = [request.schema or None if self._offers_schemas else None for request in requests]
        try:
            return self._write(rows, sampling, seeds, schemas)
        except RequestRefused as refused:
            if not any(schemas) or not refuses_schema(refused):
                raise
            logger.warning("%s does not constrain replies to a schema: %s", self._server, refused)
            self._offers_schemas = False
        return self._write(rows, sampling, seeds, [None] * len(rows))

    def prefix(self, frames: Sequence[Frame], *, system: str = "") -> Prefix:
        """Encode frames as JPEGs once, for both states of the adapter.

        The server caches the rest: requests begin with the same bytes, so its own prefix and image caches
        (vLLM and SGLang: on by default) save the encoding and the keys and values.
        """
        check_budget(len(frames), self.frames)
        return Prefix(self, frames, encode_frames(frames, self.pixels), system=system)

    @contextmanager
    def adapter(self, enabled: bool) -> Iterator[None]:
        """Within the block, this thread's calls go to `config.adapter_model` (on) or `config.model` (off).

        An adapter, if there is one, is on at the start. Raises `BackboneError` if there is none to turn on.
        """
        if enabled and self.config.adapter_model is None:
            raise BackboneError(
                f"{self._server} serves an adapter as a separate model; set the backbone's 'adapter_model' "
                "to its name (vLLM: --enable-lora --lora-modules NAME=PATH)"
            )
        token = self._adapter_on.set(enabled)
        try:
            yield
        finally:
            self._adapter_on.reset(token)

    def close(self) -> None:
        """Cancel requests in flight and close the connections."""
        self._endpoint.close()

    # -- requests

    def _choose(self, requests: Sequence[GenerateRequest]) -> list[Completion]:
        return self._send([(row, CHOICE_FIELDS) for row in self._rows(requests)])

    def _rows(self, requests: Sequence[GenerateRequest]) -> list[Callable[[], Messages]]:
        """What makes the messages of each request, when it is sent."""
        if any(request.prefill for request in requests) and self.profile.engine not in ENGINES:
            raise BackboneError(
                f"{self._server} does not report itself as {' or '.join(ENGINES)}, which can continue a "
                f"started reply; if it is one, pass --backbone engine={ENGINES[0]}, else use such a server, "
                "a local model, or a --protocol without a started reply"
            )
        as_video = self._as_video([request.visual for request in requests])
        return [functools.partial(self._message, request, as_video) for request in requests]

    def _write(
        self,
        rows: Sequence[Callable[[], Messages]],
        sampling: Sampling,
        seeds: Sequence[int | None],
        schemas: Sequence[Mapping[str, Any] | None],
    ) -> list[Generation]:
        fields = [reply_fields(sampling, seed, schema) for seed, schema in zip(seeds, schemas, strict=True)]
        completions = self._send(list(zip(rows, fields, strict=True)))
        return [
            replace(
                read_generation(completion, self._server, sampling.max_new_tokens),
                is_constrained=schema is not None,
            )
            for completion, schema in zip(completions, schemas, strict=True)
        ]

    def _send(self, rows: Sequence[Prompted]) -> list[Completion]:
        if not rows:
            return []
        # An unknown model is reported before anything is sent to it.
        _ = self.profile.cards
        model = self.config.model
        if self._adapter_on.get() and self.config.adapter_model is not None:
            model = self.config.adapter_model
        extra = self._extra_body()
        neutral = NEUTRAL_SAMPLING if self.profile.engine in ENGINES else {}

        def body(row: Callable[[], Messages], fields: Mapping[str, Any]) -> dict[str, Any]:
            return request_body(model, row(), {**fields, **neutral, **extra})

        try:
            return self._endpoint.complete([functools.partial(body, row, fields) for row, fields in rows])
        except RequestRefused as refused:
            if refused.status in (400, 422) and "logprob" in str(refused).lower():
                raise BackboneError(f"{self._server} {NO_LOGPROBS}. It reports: {refused}") from None
            raise

    def _message(self, request: GenerateRequest, as_video: bool) -> Messages:
        encoded = self._encoded(request)
        return user_message(encoded, request.text, as_video, system=request.system, prefill=request.prefill)

    def _encoded(self, request: GenerateRequest) -> EncodedFrames | None:
        visual = request.visual
        if visual is None:
            return None
        if isinstance(visual, Prefix):
            shared: EncodedFrames = visual.use(self, request.system)
            return shared
        check_budget(len(visual), self.frames)
        return encode_frames(visual, self.pixels)

    def _as_video(self, visuals: Sequence[Visual]) -> bool:
        counts = [len(visual.frames if isinstance(visual, Prefix) else visual or ()) for visual in visuals]
        return max(counts, default=0) > 1 and self.profile.video_form == "video"

    def _extra_body(self) -> dict[str, Any]:
        extra = dict(self.config.extra_body)
        if self.profile.engine in ENGINES:
            extra["chat_template_kwargs"] = {
                "enable_thinking": False,
                **extra.get("chat_template_kwargs", {}),
            }
        return extra

    def _probe(self, rows: Sequence[Prompted]) -> list[Completion]:
        """Send requests about the server, to the base."""
        with self.adapter(False):
            return self._send(rows)


def _check(config: BackboneConfig) -> None:
    if config.kind != "server":
        raise ConfigError(f"backbone: kind is {config.kind!r}; a served model needs 'server'")
    if config.timeout <= 0:
        raise ConfigError(f"backbone: timeout is {config.timeout!r}; it must be above 0 (seconds)")
    if config.retries < 0:
        raise ConfigError(f"backbone: retries is {config.retries!r}; it must be 0 or more")
    reserved = sorted(RESERVED_FIELDS & set(config.extra_body))
    if reserved:
        raise ConfigError(f"backbone: extra_body sets {', '.join(reserved)}, which is reserved; leave it out")
