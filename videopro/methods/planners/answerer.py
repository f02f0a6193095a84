"""Who answers inside programs: the backbone with its adapter off, the base that a merged planner records, or
a model that is named. Inference, GRPO's rewards and rejection sampling choose in the same way.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from videopro.backbones import Backbone, folder_fingerprint, load_backbone, read_spec
from videopro.errors import ConfigError

_DTYPES = {"bfloat16": "bf16", "float32": "fp32"}


def check_answerer(named: str) -> None:
    """Raise ConfigError for an invalid name of an answerer. Nothing is loaded."""
    if named.startswith("api:"):
        raise ConfigError(
            f"answerer {named!r}: answers need log-probabilities, which api: does not request; pass "
            "server:MODEL@URL"
        )
    model = read_spec(named).model
    is_path = model.startswith((".", "/", "~"))
    if is_path and not Path(model).expanduser().is_dir():
        raise ConfigError(f"answerer {named!r}: no such folder; pass an existing one or a hub name")


def load_answerer(named: str | None, planner: Backbone, *, api_key_env: str | None = None) -> Backbone:
    """The backbone that answers inside the programs that `planner` writes: the model `named`, else the base
    that the planner's folder records, else `planner` itself, whose adapter the caller turns off.

    Another model gets the planner's frames and pixels and, if both run in this process, its dtype, attention
    and device; a server gets its server settings. Raises ConfigError or BackboneError if it cannot be loaded,
    and ConfigError if it is not the base that was recorded.
    """
    record, identity = planner.planner, planner.identity()
    base = "" if record is None else record.base
    name = named or base
    if not name:
        return planner
    if named is None and identity.get("kind") == "server":
        raise ConfigError(
            f"model 'server:{planner.name}' is a planner made from {base!r}, which answers inside its "
            f"programs; pass --answerer server:NAME@URL if it is served, or --answerer {base} to load it here"
        )
    names = ("pixels", "attention", "video_marks")
    shared: dict[str, Any] = {key: identity[key] for key in names if key in identity}
    spec = read_spec(name, frames=planner.frames, pixels=shared.get("pixels"))
    if spec.kind == "qwen" and spec.model == planner.name:
        # The planner with its adapter off: not loaded a second time.
        return planner
    if spec.kind == "server":
        spec = spec.but(api_key_env=api_key_env, **planner.server_settings.as_settings())
    elif identity.get("kind") == "qwen":
        dtype = _DTYPES.get(str(identity["dtype"]), "auto")
        device = getattr(planner, "device", None)
        spec = spec.but(dtype=dtype, device_map=None if device is None else str(device), **shared)
    if named is None and record is not None:
        _check_base(spec.model, base, record.weights, planner.name)
    return load_backbone(spec)


def _check_base(folder: str, base: str, weights: str, planner: str) -> None:
    """Raise ConfigError if a folder has other weights than those from which the planner was made. A hub name
    is trusted: which of its files are here differs between machines."""
    if Path(folder).is_dir() and folder_fingerprint(Path(folder)) != weights:
        raise ConfigError(
            f"model {planner!r} was made from {base!r}, which has changed since, so other weights would "
            f"answer inside its programs. Pass --answerer {base} to use it anyway, or restore it"
        )


def spec_identity(named: str) -> dict[str, str]:
    """What a run's key hashes of another model than its own: the name without a server's address, which
    changes no answer, and the fingerprint of a folder. Raises ConfigError for a malformed name."""
    spec = read_spec(named)
    if spec.kind == "server":
        return {"model": f"server:{spec.model}"}
    folder = Path(spec.model).expanduser()
    return {"model": named, **({"weights": folder_fingerprint(folder)} if folder.is_dir() else {})}
