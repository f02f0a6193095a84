"""Planners, which write programs: `load_planner("self", backbone)`.

Importing this package loads no model library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from videopro.backbones import (
    Backbone,
    Sampling,
    ServerSettings,
    default_key_name,
    read_address,
    read_spec,
)
from videopro.cli import Need, did_you_mean
from videopro.errors import ConfigError
from videopro.methods.planners.answerer import check_answerer as check_answerer
from videopro.methods.planners.answerer import load_answerer as load_answerer
from videopro.methods.planners.answerer import spec_identity as spec_identity
from videopro.methods.planners.planner import FILE as FILE
from videopro.methods.planners.planner import PAPER_TEMPERATURE as PAPER_TEMPERATURE
from videopro.methods.planners.planner import PLAN_SAMPLING as PLAN_SAMPLING
from videopro.methods.planners.planner import BackbonePlanner, FilePlanner
from videopro.methods.planners.planner import EmptyReply as EmptyReply
from videopro.methods.planners.planner import Planner as Planner
from videopro.methods.planners.planner import PlannerReply as PlannerReply
from videopro.methods.planners.planner import PlanRequest as PlanRequest
from videopro.methods.planners.planner import program_digest as program_digest
from videopro.methods.planners.planner import read_program as read_program
from videopro.methods.planners.planner import recorded_file as recorded_file
from videopro.methods.planners.prompt_file import API as API
from videopro.methods.planners.prompt_file import PromptFile as PromptFile
from videopro.methods.planners.prompt_file import prompt_notes as prompt_notes
from videopro.methods.planners.prompt_file import read_prompts as read_prompts
from videopro.methods.planners.server import ApiPlanner, ServerPlanner
from videopro.methods.planners.server import settle_served_planner as settle_served_planner
from videopro.plugins import Registry

PLANNERS: Registry[type[Planner]] = Registry(
    "planner",
    lambda value: isinstance(value, type) and issubclass(value, Planner) and value is not Planner,
    {},
    what="a subclass of Planner (videopro.methods.planners)",
    more_names=("self", "api", "server", "file"),
)
"""Planners from plug-ins, in addition to the four built-in kinds of a setting."""

# Requests in flight to "api:", which limits its rate.
_API_REQUESTS = 8


def check_planner(spec: str) -> None:
    """Raise ConfigError for an invalid spec."""
    if spec == "self" or own_planner(spec) is not None:
        return
    if spec.startswith("api:"):
        read_address(spec, "planner")
        return
    if spec.startswith("server:") or "://" in spec:
        read_spec(spec)
        return
    if spec.startswith(FILE):
        # Its file is read where a run begins: a worker on another machine gets the text.
        if spec == FILE:
            raise ConfigError(f"planner {spec!r}: the file is missing; pass file:PROGRAM.py")
        return
    specs = ["self", *PLANNERS, "api:MODEL@URL", "server:MODEL@URL", "file:PROGRAM.py"]
    raise ConfigError(f"unknown planner {spec!r}; {did_you_mean(spec, specs)}")


def planner_needs(spec: str, api_key_env: str | None) -> list[Need]:
    """What a planner needs in addition to the backbone: its server. Raises ConfigError for an invalid
    spec."""
    check_planner(spec)
    if not spec.startswith(("api:", "server:")):
        return []
    model, url = read_address(spec, "planner")
    return [Need(f"planner {model}", url=url, key=api_key_env or default_key_name(url) or "")]


def own_planner(spec: str) -> Planner | None:
    """The planner of a plug-in, by its name or file, after which one of its variants may stand: NAME:VARIANT.
    None for the others. Raises ConfigError for an unknown variant, or a plug-in that cannot be loaded."""
    name, _, variant = spec.partition(":")
    return PLANNERS[name].named(variant) if name in PLANNERS else None


def load_planner(
    spec: str,
    backbone: Backbone | None,
    *,
    is_fine_tuned: bool | None = False,
    sampling: Sampling = PLAN_SAMPLING,
    api_key_env: str | None = None,
    concurrency: int | None = None,
    frames: int | None = None,
    pixels: int | None = None,
    server: ServerSettings | None = None,
    weights: Mapping[str, str] | None = None,
    program: str | None = None,
) -> Planner:
    """Load a planner.

    Parameters: `spec`, "self" (`backbone` itself, which no other needs), a plug-in's, "api:MODEL@URL",
    "server:MODEL@URL" or "file:PROGRAM.py"; `is_fine_tuned`, whether "self" or a server's model was trained
    on the short prompts (None: of a server's model, as its own record says); `sampling`, how programs are
    sampled, whose seed is not used; `api_key_env`, the environment variable that holds a server's key;
    `server`, how requests go to a server (None: the defaults), of which at most 8 at a time to "api:", which
    limits its rate; `concurrency` replaces that of both; `frames` and `pixels`, of the video that a server's
    model is shown; `weights`, what the run recorded of those of a server's model; `program`, the text of the
    file where that was read before. Raises ConfigError for any other spec, for a file that holds no program,
    and for a server's model without a record; RunError if a server cannot be asked for it, or serves other
    weights."""
    check_planner(spec)
    if (own := own_planner(spec)) is not None:
        return own
    if spec.startswith(FILE):
        return FilePlanner(spec, read_program(spec) if program is None else program)
    if spec == "self":
        if backbone is None:
            raise ConfigError("planner 'self': this process has no backbone; pass another planner")
        return BackbonePlanner(backbone, is_fine_tuned=bool(is_fine_tuned), sampling=sampling)
    server = server or ServerSettings()
    if concurrency is not None:
        server = replace(server, concurrency=concurrency)
    if spec.startswith("server:"):
        config = read_spec(
            spec, frames=frames, pixels=pixels, api_key_env=api_key_env, **server.as_settings()
        )
        return ServerPlanner(config, is_fine_tuned=is_fine_tuned, sampling=sampling, weights=weights)
    return ApiPlanner(
        spec,
        sampling=sampling,
        api_key_env=api_key_env,
        **server.for_api(_API_REQUESTS if concurrency is None else concurrency),
    )
