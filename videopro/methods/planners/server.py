"""A planner behind an OpenAI-compatible server that sees the video. It is sent as the server backbone sends
it: as one video with its frames' times, or as images after their times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from videopro.backbones import PlannerRecord, Sampling, ServerSettings, read_spec
from videopro.backbones.server import ServerBackbone
from videopro.errors import ConfigError, RunError, VideoProError
from videopro.methods.planners.backbone import BackbonePlanner
from videopro.methods.planners.base import PLAN_SAMPLING, PlannerReply, PlanRequest, sampling_identity
from videopro.methods.planners.served import stopping_run

# A server that does not list its models within this time (s) counts as unreachable.
_SECONDS = 10.0
_BUDGET_SETTINGS = "--planner-frames N --options planner_pixels=N"


def _record(served: ServerBackbone, spec: str) -> PlannerRecord:
    record = served.planner
    if record is None:
        raise ConfigError(
            f"planner {spec!r}: nothing here says what this model was trained on (its folder is not on this "
            "machine, or is of another origin); give --options planner_prompt=short if on our prompts, "
            "--prompts FILE if on others, else planner_prompt=full"
        )
    return record


@dataclass(frozen=True)
class ServedForm:
    """How a served planner wants to be asked, as far as its own record says."""

    prompts: Mapping[str, str]
    """The texts of the user's prompts on which it was trained; empty: ours."""
    frames: int | None
    """Frames of the video, and pixels of a frame; None: nothing says so."""
    pixels: int | None
    weights: Mapping[str, str]
    """What the server says of its weights; empty: nothing."""
    planner: PlannerRecord | None
    """What it records of its training as a planner; None: nothing is known here."""


def read_served_planner(
    spec: str,
    *,
    wants_prompts: bool,
    sees_video: bool,
    frames: int | None = None,
    pixels: int | None = None,
    api_key_env: str | None = None,
    server: ServerSettings,
) -> ServedForm:
    """Ask the server of a planner, before a run, and warn of what it lacks for the planner's videos.

    `wants_prompts`: no setting says what its prompts are, so its record must. `sees_video`: it is shown
    frames. `frames` and `pixels`: those of the settings. `server`: how requests go to it. Raises ConfigError
    for a planner whose prompts nothing tells, BackboneError for a server that cannot be asked, or a model
    whose budgets nothing tells."""
    config = read_spec(spec, frames=frames, pixels=pixels, api_key_env=api_key_env, **server.as_settings())
    with closing(ServerBackbone(config, budget_settings=_BUDGET_SETTINGS)) as served:
        record = _record(served, spec) if wants_prompts else None
        if sees_video:
            served.identity()
        known = served.served
        weights = served.weights
    return ServedForm(
        record.prompts if record is not None else {}, known.frames, known.pixels, weights, known.planner
    )


def read_planner_weights(spec: str, *, api_key_env: str | None = None) -> dict[str, str]:
    """What the server of a planner says of its weights, asked once and briefly. Raises BackboneError if it
    does not answer."""
    config = read_spec(spec, api_key_env=api_key_env, retries=0, timeout=_SECONDS)
    with closing(ServerBackbone(config)) as served:
        return served.weights


def _check_weights(served: ServerBackbone, recorded: Mapping[str, str]) -> None:
    """Raise RunError if the server has the model from another place than the run recorded. Its files were
    compared where the run began; another machine may not have them."""
    if "root" not in recorded:
        return
    root = served.weights.get("root")
    if root != recorded["root"]:
        raise RunError(
            f"planner server:{served.name}: the server has it from {root}, and the run from "
            f"{recorded['root']}; serve that one under this name, or give another --output"
        )


class ServerPlanner(BackbonePlanner):
    """`server:MODEL@URL`, with a backbone of its own for the video."""

    def __init__(
        self,
        spec: str,
        *,
        is_fine_tuned: bool | None,
        sampling: Sampling = PLAN_SAMPLING,
        frames: int | None = None,
        pixels: int | None = None,
        api_key_env: str | None = None,
        server: ServerSettings | None = None,
        weights: Mapping[str, str] | None = None,
    ) -> None:
        """`is_fine_tuned` None: as the served model records, which the server is asked for. `frames` and
        `pixels`: the most frames of a video, and pixels of a frame; None: those of the model's own record,
        else 64 and 50,176. `sampling`: its seed is not used, because each request has its own. `api_key_env`:
        the variable that holds the server's key. `server`: how requests go to it. `weights`: what the
        run recorded of the model's weights. Raises ConfigError for a malformed spec, and for a model that
        records nothing of its prompts; RunError if the server cannot be asked, or has the model from
        elsewhere."""
        config = read_spec(
            spec,
            frames=frames,
            pixels=pixels,
            api_key_env=api_key_env,
            **(server or ServerSettings()).as_settings(),
        )
        served = ServerBackbone(config, budget_settings=_BUDGET_SETTINGS)
        try:
            with stopping_run(f"server:{served.name}"):
                record = _record(served, spec) if is_fine_tuned is None else None
                # Found out now, where it ends the run; later, it would fail single questions.
                _ = served.frames
                _check_weights(served, weights or {})
        except VideoProError:
            served.close()
            raise
        super().__init__(served, is_fine_tuned=is_fine_tuned is not False, sampling=sampling)
        self.name = f"server:{served.name}"
        self.backbone = served
        self.prompts = record.prompts if record is not None else {}
        """The texts of the user's prompts that the served model records; empty: ours."""

    def identity(self) -> dict[str, object]:
        """The server's model, as its backbone describes it; the address is not part of it."""
        return {
            "planner": "server",
            **self._backbone.identity(),
            **sampling_identity(self._sampling),
        }

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        """Safe to call from several threads. Raises RunError if the server cannot serve any request."""
        with stopping_run(self.name):
            return super().write(requests)

    def close(self) -> None:
        self._backbone.close()
