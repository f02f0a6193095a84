"""Checks of a model other than its answers: what it needs before it is loaded, its identity, and whether it
serves requests at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from videopro.backbones.address import default_key_name
from videopro.backbones.base import Backbone, BackboneConfig
from videopro.backbones.fingerprint import folder_fingerprint
from videopro.backbones.own_models import MODELS, missing_folder
from videopro.cli import Need, folder_here, is_hub_name
from videopro.errors import BackboneError
from videopro.question import Question


def model_needs(config: BackboneConfig, role: str = "model") -> list[Need]:
    """The checkpoint and the adapter of a config, or its server. `role`: the model's part, for messages."""
    if config.kind == "server":
        url = config.base_url or ""
        key = config.api_key_env or default_key_name(url) or ""
        return [Need(f"{role} server:{config.model}", url=url, key=key)]
    if config.kind == "own":
        return []  # Its plug-in says what is missing.
    named = [(f"{role} {config.model}", config.model)]
    if config.adapter:
        named.append((f"adapter {config.adapter}", config.adapter))
    return [_checkpoint(subject, name) for subject, name in named]


def _checkpoint(subject: str, name: str) -> Need:
    if is_hub_name(name):
        return Need(subject, hub=name)
    path = Path(name).expanduser()
    if path.is_dir():
        return Need(subject)
    problem = (
        "it is a file; pass the folder with its config and weights"
        if path.exists()
        else missing_folder(subject.partition(" ")[0])
    )
    return Need(subject, problem=problem)


def check_alive(backbone: Backbone, message: str) -> None:
    """Raise BackboneError, with `message` and the cause, if the backbone can serve no request at all: a
    server is unreachable, or a device has failed. Otherwise every remaining question would be recorded as
    unanswerable."""
    try:
        # Without any picture: a video that the model cannot take must not count as a dead model.
        backbone.answer(None, Question("Is one more than two?", ("yes", "no")))
    except BackboneError as error:
        raise BackboneError(
            f"{message}\nEvery other request fails too, so the run stops. Finished answers are kept; fix "
            "this and re-run the same command to resume."
        ) from error


def has_files_of(config: BackboneConfig, recorded: Mapping[str, Any]) -> bool:
    """Whether a checkpoint and its adapter are on this machine, with the files that an identity recorded.
    Imports no model library, which takes seconds and half a gigabyte."""
    if config.kind in ("server", "own"):
        return False
    folders = {"weights": folder_here(config.model)}
    if config.adapter is not None:
        folders["adapter"] = folder_here(config.adapter, "adapter_config.json")
    return all(folder and folder_fingerprint(folder) == recorded.get(key) for key, folder in folders.items())


# A server that does not list its models within this time counts as unreachable.
_SECONDS = 10.0


def identify(config: BackboneConfig, recorded: Mapping[str, Any]) -> dict[str, object]:
    """What `load_backbone(config).identity()` would return. `recorded` is the identity that a run recorded;
    it supplies what would otherwise need further requests to a server. Raises ConfigError, and BackboneError
    if files are missing or broken or a server is unreachable."""
    if config.kind == "server":
        from videopro.backbones.server import ServerBackbone

        # One short try: a finished run can be reported without its server.
        server = ServerBackbone(config.but(retries=0, timeout=min(config.timeout, _SECONDS)))
        try:
            return server.identity(recorded=recorded)
        finally:
            server.close()
    if config.kind == "own":
        with closing(MODELS[config.model].load(config)) as own:
            return own.identity()
    from videopro.backbones.qwen import checkpoint_identity, find_checkpoint

    return checkpoint_identity(config, find_checkpoint(config.model))
