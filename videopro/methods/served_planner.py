"""What a served planner's own record says of how it is asked, as options of a run.

They are settled before a run begins, so that its key and its folder have them, and every worker asks alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from videopro.planners import read_served_planner, spec_identity

_FORM = ("planner_prompt", "prompts", "planner_frames", "planner_pixels")


def settle_served_planner(options: Mapping[str, Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with the form of the prompts, the frames and the pixels of a planner `server:MODEL@URL`,
    as far as they are not given and its record is on this machine. Other planners' options are returned as
    they are. `recorded` is the method's part of the identity that the run's folder recorded: a run that goes
    on keeps what it has, and its server is not asked.

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
        return {**kept, **options}
    is_open = options.get("planner_prompt", "auto") == "auto" and options.get("prompts") is None
    frames, pixels = options.get("planner_frames"), options.get("planner_pixels")
    found = read_served_planner(
        spec,
        wants_prompts=is_open,
        sees_video=frames != 0,
        frames=frames or None,
        pixels=pixels,
        api_key_env=options.get("api_key_env"),
    )
    form: dict[str, Any] = {}
    if is_open:
        form = {"prompts": dict(found.prompts)} if found.prompts else {"planner_prompt": "short"}
    if frames is None and found.frames is not None:
        form["planner_frames"] = found.frames
    if pixels is None and found.pixels is not None and frames != 0:
        form["planner_pixels"] = found.pixels
    return {**options, **form}
