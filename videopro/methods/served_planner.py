"""What a served planner's own record says of how it is asked, as options of a run.

They are settled before a run begins, so that its key and its folder have them, and every worker asks alike.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from videopro.backbones import PlannerRecord, ServerSettings
from videopro.errors import BackboneError, ConfigError
from videopro.methods.planners import (
    prompt_notes,
    read_planner_weights,
    read_prompts,
    read_served_planner,
    spec_identity,
)

logger = logging.getLogger(__name__)

_FORM = ("planner_prompt", "prompts", "planner_frames", "planner_pixels")


def settle_served_planner(
    options: Mapping[str, Any], recorded: Mapping[str, Any], server: ServerSettings
) -> dict[str, Any]:
    """The options, with the form of the prompts, the frames, the pixels and the weights of a planner
    `server:MODEL@URL`, as far as they are not given and known. Other planners' options are returned as they
    are. `recorded` is the method's part of the identity that the run's folder recorded: a run that goes on
    keeps what it has, and its server is asked for the weights alone. `server`: how its requests go.

    Asks the server, and warns of what it lacks. Raises ConfigError for a planner whose prompts nothing tells,
    BackboneError for a server that cannot be asked, or a model whose budgets nothing tells.
    """
    spec = str(options.get("planner") or "")
    if not spec.startswith("server:"):
        return dict(options)
    if recorded.get("planner") == spec_identity(spec)["model"]:
        kept = {name: recorded[name] for name in _FORM if recorded.get(name) not in (None, "auto")}
        if options.get("prompts") is not None:
            kept.pop("planner_prompt", None)
        weights = _weights_now(spec, recorded.get("planner_weights"), options.get("api_key_env"))
        return {**kept, **weights, **options}
    is_open = options.get("planner_prompt", "auto") == "auto" and options.get("prompts") is None
    frames, pixels = options.get("planner_frames"), options.get("planner_pixels")
    found = read_served_planner(
        spec,
        wants_prompts=is_open,
        sees_video=frames != 0,
        frames=frames or None,
        pixels=pixels,
        api_key_env=options.get("api_key_env"),
        server=server,
    )
    if not is_open and found.planner is not None:
        for note in _form_notes(spec, found.planner, options):
            logger.warning("warning: %s", note)
    form: dict[str, Any] = {}
    if is_open:
        form = {"prompts": dict(found.prompts)} if found.prompts else {"planner_prompt": "short"}
    if frames is None and found.frames is not None:
        form["planner_frames"] = found.frames
    if pixels is None and found.pixels is not None and frames != 0:
        form["planner_pixels"] = found.pixels
    if found.weights and options.get("planner_weights") is None:
        form["planner_weights"] = dict(found.weights)
    return {**options, **form}


def _form_notes(spec: str, recorded: PlannerRecord, options: Mapping[str, Any]) -> list[str]:
    """Where the settings ask a planner otherwise than it was trained."""
    given, prompts = None, options.get("prompts")
    if prompts is not None:
        try:
            given = read_prompts(prompts)
        except ConfigError:
            # Reported where the method reads it.
            return []
    return prompt_notes(f"planner {spec}", recorded, options.get("planner_prompt", "auto"), given)


def _weights_now(spec: str, recorded: Mapping[str, str] | None, api_key_env: str | None) -> dict[str, Any]:
    """The option that says which weights the planner of a recorded run has now. The folder of its files may
    have been here when the run began and not now, or the other way round: then they are not compared."""
    if recorded is None:
        logger.warning(
            "warning: planner %s: the run did not record its weights, so they are not compared",
            spec_identity(spec)["model"],
        )
        return {}
    try:
        now = read_planner_weights(spec, api_key_env=api_key_env)
    except BackboneError as error:
        logger.warning("warning: the planner was compared with the run's by its name only: %s", error)
        return {"planner_weights": dict(recorded)}
    if "files" in recorded and "files" not in now and now.get("root") == recorded.get("root"):
        now["files"] = recorded["files"]
    return {"planner_weights": {name: value for name, value in now.items() if name in recorded}}
