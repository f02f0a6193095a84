"""Planners behind a server, and what a run settles about one before it begins.

`server:MODEL@URL` sees the video, which is sent as the server backbone sends it: as one video with its
frames' times, or as images after their times. `api:MODEL@URL` reads the prompt only (section 4), and needs no
log-probabilities, which endpoints of reasoning models do not return.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from videopro.backbones import (
    BackboneConfig,
    PlannerRecord,
    Sampling,
    ServerSettings,
    read_spec,
    reply_notes,
)
from videopro.backbones.server import (
    ChatClient,
    Completion,
    RequestRefused,
    ServerBackbone,
    api_config,
    read_reply,
)
from videopro.errors import BackboneError, ConfigError, RunError, VideoProError, unexpected_as
from videopro.methods.planners.answerer import spec_identity
from videopro.methods.planners.planner import (
    PLAN_SAMPLING,
    BackbonePlanner,
    EmptyReply,
    Planner,
    PlannerReply,
    PlanRequest,
    sampling_identity,
)
from videopro.methods.planners.prompt_file import prompt_notes, read_prompts

logger = logging.getLogger(__name__)

# HTTP statuses that concern one request: its form or its length. Any other means that none can be served.
_REQUEST_STATUSES = (400, 413, 422)
# A server that does not list its models within this time (s) counts as unreachable.
_LISTING_SECONDS = 10.0
_BUDGET_SETTINGS = "--planner-frames N --backbone pixels=N"
# The options that a resumed run takes from its record.
_OPTIONS = ("planner_prompt", "prompts", "reference", "planner_frames", "planner_pixels")


# ---- before a run ----------------------------------------------------------------------------------------


def settle_served_planner(
    options: Mapping[str, Any], recorded: Mapping[str, Any], server: ServerSettings, pixels: int | None = None
) -> dict[str, Any]:
    """The options, with the form of the prompts, the frames, the pixels and the weights of a planner
    `server:MODEL@URL`, if they are unset and its server reports them. Other planners' options are returned
    unchanged. They are settled before a run begins, so that its key and its folder have them, and every
    worker asks alike.

    `recorded` is the method's part of the identity that the run's folder recorded: a resumed run keeps what
    it has, and its server is asked for the weights alone. `server`: how requests go to it. `pixels`: of a
    frame, if nothing on this machine says what the planner was trained with.

    Asks the server, and warns of what it lacks. Raises ConfigError for a planner with unknown prompts,
    BackboneError for a server that cannot be reached or a model with unknown budgets.
    """
    spec = str(options.get("planner") or "")
    if not spec.startswith("server:"):
        return dict(options)
    if recorded.get("planner") == spec_identity(spec)["model"]:
        resumed = {name: recorded[name] for name in _OPTIONS if recorded.get(name) not in (None, "auto")}
        if options.get("prompts") is not None:
            # The user's prompts replace the form that the run began with.
            resumed.pop("planner_prompt", None)
        weights = _weights_now(spec, recorded["planner_weights"], options.get("api_key_env"))
        return {**resumed, **weights, **options}
    # Without a setting that says what its prompts are, its own record must.
    is_open = options.get("planner_prompt", "auto") == "auto" and options.get("prompts") is None
    frames, api_key_env = options.get("planner_frames"), options.get("api_key_env")
    config = read_spec(spec, frames=frames or None, api_key_env=api_key_env, **server.as_settings())
    if pixels is not None and frames != 0:
        with closing(ServerBackbone(config)) as backbone:
            if backbone.profile.record.pixels is None:
                config = config.but(pixels=pixels)
    settled: dict[str, Any] = {}
    with closing(ServerBackbone(config, budget_settings=_BUDGET_SETTINGS)) as backbone:
        if is_open:
            record = _planner_record(backbone)
            settled = {"prompts": dict(record.prompts)} if record.prompts else {"planner_prompt": "short"}
            if record.reference != "none" and options.get("reference", "auto") == "auto":
                settled["reference"] = record.reference
        if frames != 0:
            # Warnings about its videos come before the run, and not with the first question.
            backbone.identity()
        served, weights = backbone.profile.record, backbone.profile.weights
    form, reference = options.get("planner_prompt", "auto"), options.get("reference", "auto")
    custom = None if options.get("prompts") is None else read_prompts(options["prompts"])
    for note in prompt_notes(f"planner {spec}", served.planner, form, custom, reference):
        logger.warning("warning: %s", note)
    if frames is None and served.frames is not None:
        settled["planner_frames"] = served.frames
    if frames != 0 and (pixels := served.pixels or config.pixels) is not None:
        settled["planner_pixels"] = pixels
    return {**options, **settled, "planner_weights": weights}


def _planner_record(backbone: ServerBackbone) -> PlannerRecord:
    record = backbone.planner
    if record is None:
        spec = f"server:{backbone.name}@{backbone.config.base_url}"
        raise ConfigError(
            f"planner {spec!r}: this model's training prompts are unknown (its folder is not on this "
            "machine, or has another origin); set --options planner_prompt=short if it was trained on the "
            "default prompts, --prompts FILE if on others, else planner_prompt=full"
        )
    return record


def _weights_now(spec: str, recorded: Mapping[str, str], api_key_env: str | None) -> dict[str, Any]:
    """The option that says which weights the planner of a recorded run has now."""
    if not recorded:
        return {"planner_weights": {}}
    config = read_spec(spec, api_key_env=api_key_env, retries=0, timeout=_LISTING_SECONDS)
    try:
        with closing(ServerBackbone(config)) as backbone:
            now = backbone.profile.weights
    except BackboneError as error:
        logger.warning("warning: the planner was compared with the run's by name only: %s", error)
        return {"planner_weights": dict(recorded)}
    # The folder of its files may have been here when the run began and not now, or the other way round: then
    # they are not compared.
    if "files" in recorded and "files" not in now and now.get("root") == recorded.get("root"):
        now["files"] = recorded["files"]
    return {"planner_weights": {name: value for name, value in now.items() if name in recorded}}


# ---- the planners ----------------------------------------------------------------------------------------


@contextmanager
def _stopping_run(planner: str) -> Iterator[None]:
    """Within the block, a BackboneError becomes a RunError, except for a refusal of one request."""
    try:
        yield
    except BackboneError as error:
        if isinstance(error, RequestRefused) and error.status in _REQUEST_STATUSES:
            raise
        raise RunError(
            f"planner {planner}: {error}\nEvery other question would fail too, so the run stops. Finished "
            "answers are kept; fix this and re-run the same command to resume."
        ) from None


class ServerPlanner(BackbonePlanner):
    """`server:MODEL@URL`, with a separate backbone for the video."""

    def __init__(
        self,
        config: BackboneConfig,
        *,
        is_fine_tuned: bool | None,
        sampling: Sampling = PLAN_SAMPLING,
        weights: Mapping[str, str] | None = None,
    ) -> None:
        """`config` is that of the planner's server: its `frames` and `pixels` are of the video that it is
        shown. `is_fine_tuned` None: as the served model records, which the server is asked for. `sampling`:
        its seed is not used, because each request has its own. `weights`: what the run recorded of the
        model's weights. Raises ConfigError for a model that records nothing of its prompts; RunError if the
        server cannot be asked, or has the model from elsewhere."""
        backbone = ServerBackbone(config, budget_settings=_BUDGET_SETTINGS)
        try:
            with _stopping_run(f"server:{backbone.name}"):
                # Asked here, what is missing ends the run; asked later, it would fail single questions.
                record = _planner_record(backbone) if is_fine_tuned is None else PlannerRecord()
                _ = backbone.frames
                _check_weights(backbone, weights or {})
        except VideoProError:
            backbone.close()
            raise
        super().__init__(backbone, is_fine_tuned=is_fine_tuned is not False, sampling=sampling)
        self.name = f"server:{backbone.name}"
        self.backbone = backbone
        self.prompts = record.prompts
        self.reference = record.reference

    def identity(self) -> dict[str, object]:
        """The server's model, as its backbone describes it; the address is not part of it."""
        return {
            "planner": "server",
            **self._backbone.identity(),
            **sampling_identity(self._sampling),
        }

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        """Safe to call from several threads. Raises RunError if the server cannot serve any request."""
        with _stopping_run(self.name):
            return super().write(requests)

    def close(self) -> None:
        self._backbone.close()


def _check_weights(backbone: ServerBackbone, recorded: Mapping[str, str]) -> None:
    """Raise RunError if the server has the model from another place than the run recorded. Its files were
    compared where the run began; another machine may not have them."""
    if "root" not in recorded:
        return
    root = backbone.profile.weights.get("root")
    if root != recorded["root"]:
        raise RunError(
            f"planner server:{backbone.name}: the server loads it from {root}, but the run from "
            f"{recorded['root']}; serve that one under this name, or pass another --output"
        )


class ApiPlanner(Planner):
    """`api:MODEL@URL`."""

    def __init__(
        self,
        spec: str,
        *,
        sampling: Sampling = PLAN_SAMPLING,
        **settings: Any,
    ) -> None:
        """`sampling`: its seed is not used, because each request has its own. `settings`: `api_key_env`,
        `concurrency` (at most so many requests at a time, over all threads), `timeout` and `retries` of the
        `BackboneConfig`. Raises ConfigError for an invalid spec."""
        config = api_config(spec, "planner", **settings)
        self.name = spec
        self._model = config.model
        self._sampling = sampling
        self._client = ChatClient(config)

    def identity(self) -> dict[str, object]:
        return {
            "planner": "api",
            "model": self._model,
            "url": self._client.url,
            **self._client.identity(),
            **sampling_identity(self._sampling),
        }

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        """Safe to call from several threads. Raises RunError if the endpoint cannot serve any request: it is
        unreachable, or refuses the key or the model. Raises EmptyReply for a reply without text."""
        with _stopping_run(self.name):
            completions, left_out = self._client.complete([self._body(request) for request in requests])
        with unexpected_as():
            return [self._read(completion, left_out) for completion in completions]

    def close(self) -> None:
        self._client.close()

    def _body(self, request: PlanRequest) -> Mapping[str, Any]:
        return {
            "model": self._model,
            "messages": [{"role": "user", "content": request.prompt}],
            "temperature": self._sampling.temperature,
            "top_p": self._sampling.top_p,
            "max_tokens": self._sampling.max_new_tokens,
            "seed": request.seed,
        }

    def _read(self, completion: Completion, left_out: frozenset[str]) -> PlannerReply:
        reply = read_reply(completion, f"planner {self.name}", self._sampling.max_new_tokens)
        if not reply.text.strip():
            message = f"planner {self.name}: {reply.why_empty}"
            raise EmptyReply(message, reply.tokens_in, reply.tokens_out)
        notes = {"left out": ", ".join(sorted(left_out))} if left_out else {}
        notes |= reply_notes(reply.thoughts, reply.cut_at)
        return PlannerReply(reply.text, reply.tokens_in, reply.tokens_out, 1, notes)
