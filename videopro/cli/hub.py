"""What is in the hub's cache on this machine, and what can be downloaded. Loads nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from videopro.cli.connections import check_connections, key_problem
from videopro.errors import ConfigError

_PATIENCE = 5.0
"""Seconds that the hub has to say whether it has a model."""
_WEIGHTS = (
    ("config.json", "model.safetensors"),
    ("config.json", "model.safetensors.index.json"),
    ("config.json", "pytorch_model.bin"),
    ("config.json", "pytorch_model.bin.index.json"),
    ("config.json", "model.bin"),
    ("adapter_config.json", "adapter_model.safetensors"),
    ("adapter_config.json", "adapter_model.bin"),
)
"""The files of a checkpoint, in one of the forms that we load: config and weights."""


def is_hub_name(name: str) -> bool:
    """Whether a name is one of the hub, and no folder of this machine."""
    try:
        is_folder = Path(name).expanduser().is_dir()
    except (OSError, RuntimeError):
        is_folder = False
    return not is_folder and name.count("/") == 1 and not name.startswith((".", "/", "~"))


def is_here(name: str) -> bool:
    """Whether a checkpoint is a folder, or in the cache of the hub with its config and all its weights."""
    if Path(name).is_dir():
        return True
    return is_hub_name(name) and any(
        (_cached(name, config) and (path := _cached(name, weights)) and _has_parts(name, path))
        for config, weights in _WEIGHTS
    )


def refusals(names: Iterable[str]) -> dict[str, str]:
    """Of models that are not on this machine: why they cannot be downloaded, by name. Asks the hub, at most a
    few seconds in all."""
    missing = [name for name in dict.fromkeys(names) if not is_here(name)]
    if not missing:
        return {}
    from huggingface_hub import constants, get_token

    if constants.HF_HUB_OFFLINE:
        return dict.fromkeys(missing, "HF_HUB_OFFLINE is set")
    try:
        check_connections(constants.ENDPOINT)
    except ConfigError as error:
        return dict.fromkeys(missing, f"the hub cannot be asked: {error}")
    token = get_token() or ""
    if problem := key_problem(token):
        return dict.fromkeys(missing, f"HF_TOKEN cannot be sent: {problem}; copy it again")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    # At once, because a hub that does not answer costs _PATIENCE for each of them.
    with ThreadPoolExecutor(len(missing)) as threads:
        reasons = threads.map(lambda name: _refusal(name, headers), missing)
        return {name: reason for name, reason in zip(missing, reasons, strict=True) if reason}


def use_cache_if_unreachable(names: Iterable[str]) -> str:
    """Where the hub cannot be reached, take models from its cache as they are, in this process and those that
    it starts. Otherwise the libraries would ask for every file of them, half a minute each. Returns what to
    tell the user; "" if the hub answers, or none of the models is of the hub."""
    named = [name for name in dict.fromkeys(names) if is_hub_name(name)]
    if not named:
        return ""
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return ""
    try:
        check_connections(constants.ENDPOINT)
        reason = _ask(named[0], {})
    except ConfigError as error:
        reason = str(error)
    # Any status is an answer: a mirror that refuses this question still serves the files.
    if isinstance(reason, int):
        return ""
    # Both: the variable for the processes that this one starts, the constant because huggingface_hub read the
    # variable when it was imported.
    os.environ["HF_HUB_OFFLINE"] = "1"
    constants.HF_HUB_OFFLINE = True
    return f"{_host()} cannot be reached ({reason}): models are taken from its cache as they are"


def download_command(names: Iterable[str]) -> str:
    """The command that downloads models, for messages."""
    return " && ".join(f"hf download {name}" for name in dict.fromkeys(names))


def _cached(name: str, file: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        path = try_to_load_from_cache(name, file)
    except HFValidationError:
        return None
    return Path(path) if isinstance(path, str) else None


def _has_parts(name: str, weights: Path) -> bool:
    """Whether all files are there that an index of weights lists: a download may have been stopped."""
    if not weights.name.endswith(".index.json"):
        return True
    try:
        parts = set(json.loads(weights.read_text(encoding="utf-8"))["weight_map"].values())
    # An index may be cut short, or no index at all: then the download is simply not complete.
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False
    return all(isinstance(part, str) and _cached(name, part) is not None for part in parts)


def _refusal(name: str, headers: Mapping[str, str]) -> str:
    """Why the hub does not give a model that is not on this machine; "" if it may."""
    host, status = _host(), _ask(name, headers)
    if isinstance(status, str):
        return f"{host} cannot be reached ({status})"
    # The hub says 401 for a repository that does not exist, so that private names stay hidden.
    if status in (401, 403, 404):
        return (
            f"{host} does not give it (status {status}): check the name; a gated model needs its licence "
            "accepted there, and HF_TOKEN"
        )
    # Mirrors refuse the question, not the model: by its method, or as one of too many.
    return ""


def _host() -> str:
    from huggingface_hub import constants

    return constants.ENDPOINT.partition("://")[2].rpartition("@")[2]


def _ask(name: str, headers: Mapping[str, str]) -> int | str:
    """The status with which the hub answers about a model; why it cannot be reached, if it does not."""
    from huggingface_hub import constants, get_session

    url = f"{constants.ENDPOINT}/api/models/{name}"
    try:
        # Not through the library's own functions, which try for half a minute.
        return int(get_session().head(url, headers=dict(headers), timeout=_PATIENCE).status_code)
    except Exception as error:  # of the HTTP library that this version of the hub's client uses
        return str(error).strip().split("\n")[0] or type(error).__name__
