"""Planners, which write programs: `load_planner("pocket-teacher", ...)`.

Importing this package loads no model library.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from videopro.backbones import Backbone, Sampling, read_spec
from videopro.errors import ConfigError
from videopro.planners.answerer import check_answerer, load_answerer, spec_identity
from videopro.planners.base import (
    PLAN_KINDS,
    PLAN_SAMPLING,
    REFINEMENT_KINDS,
    EmptyReply,
    Planner,
    PlannerReply,
    PlanRequest,
    PromptKind,
)
from videopro.planners.prompt_file import API, PromptFile, read_prompts
from videopro.settings import did_you_mean

__all__ = [
    "API",
    "PLAN_KINDS",
    "PLAN_SAMPLING",
    "REFINEMENT_KINDS",
    "EmptyReply",
    "PlannerReply",
    "PromptFile",
    "PromptKind",
    "PlanRequest",
    "Planner",
    "check_answerer",
    "check_planner",
    "load_answerer",
    "load_planner",
    "read_prompts",
    "spec_identity",
    "teacher_of",
]

_NAMED = ("self", "pocket-teacher", "pocket-teacher:unread")


def check_planner(spec: str) -> None:
    """Raise ConfigError for an invalid spec."""
    if spec in _NAMED or (spec.startswith("api:") and len(spec) > len("api:")):
        return
    if spec.startswith("server:"):
        read_spec(spec)
        return
    known = [*_NAMED, "api:MODEL", "api:MODEL@URL", "server:MODEL@URL"]
    raise ConfigError(f"planner {spec!r} is not known; {did_you_mean(spec, known)}")


def teacher_of(spec: str) -> Planner:
    """The pocket world's teacher, by its spec."""
    # Imported by name: the pocket world imports planners, because its teacher is one.
    teacher: Planner = import_module("videopro.pocket.teacher").PocketTeacher(
        reads=spec != "pocket-teacher:unread"
    )
    return teacher


def load_planner(
    spec: str,
    backbone: Backbone,
    *,
    is_fine_tuned: bool = False,
    sampling: Sampling = PLAN_SAMPLING,
    api_key_env: str | None = None,
    concurrency: int | None = None,
    frames: int | None = None,
    pixels: int | None = None,
) -> Planner:
    """Load a planner.

    Parameters: `spec`, "self" (`backbone` itself), "pocket-teacher" ("pocket-teacher:unread": without its
    reader of questions), "api:MODEL", "api:MODEL@URL" or "server:MODEL@URL"; `is_fine_tuned`, whether "self"
    or a server's model was trained on the short prompts; `sampling`, how programs are sampled, whose seed is
    not used; `api_key_env`, the environment variable that holds a server's key; `concurrency`, maximum
    requests to a server at a time (None: 64 to "server:", 8 to "api:", which limits its rate); `frames` and
    `pixels`, of the video that a server's model is shown. Raises ConfigError for any other spec.
    """
    check_planner(spec)
    if spec.startswith("pocket-teacher"):
        return teacher_of(spec)
    if spec == "self":
        from videopro.planners.backbone import BackbonePlanner

        return BackbonePlanner(backbone, is_fine_tuned=is_fine_tuned, sampling=sampling)
    given: dict[str, Any] = {} if concurrency is None else {"concurrency": concurrency}
    if spec.startswith("server:"):
        from videopro.planners.server import ServerPlanner

        return ServerPlanner(
            spec,
            is_fine_tuned=is_fine_tuned,
            sampling=sampling,
            frames=frames,
            pixels=pixels,
            api_key_env=api_key_env,
            **given,
        )
    from videopro.planners.api import ApiPlanner

    return ApiPlanner(
        spec.removeprefix("api:"),
        sampling=sampling,
        api_key_env=api_key_env,
        **given,
    )
