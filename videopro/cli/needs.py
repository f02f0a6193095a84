"""What a command needs before it loads a model: optional packages, models of the hub, servers, trackers.

Everything missing is reported in one error, with one command to install it and one to download it, before any
model is loaded.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

from videopro.cli.environment import check_connections, check_key, key_problem, wandb_problem
from videopro.errors import ConfigError, first_line

TRACKERS = ("wandb", "trackio", "tensorboard")


@dataclass(frozen=True)
class Need:
    """Something that a command needs, and what for."""

    subject: str
    """Its name in messages."""
    hub: str = ""
    """The hub name of a model that is in the cache or can be downloaded."""
    extra: str = ""
    package: str = ""
    """Of that extra."""
    url: str = ""
    """The address of a server."""
    key: str = ""
    """The environment variable with the key for it."""
    problem: str = ""
    """A problem that is already known."""
    otherwise: str = ""
    """How to do without it, or get it elsewhere."""


def check_needs(needs: Iterable[Need]) -> None:
    """Raise ConfigError, listing all needs that are not met. Loads nothing, and only asks the hub for models
    that are not on this machine."""
    # A run's model and its judge are often the same one.
    needs = list(dict.fromkeys(needs))
    refused = refusals(need.hub for need in needs if need.hub)
    # If the hub cannot be reached, it is the same for all of them: reported once.
    shared = len(refused) > 1 and len(set(refused.values())) == 1
    lines, extras = [], []
    for need in needs:
        problems = []
        if need.hub in refused:
            name = "" if need.subject.endswith(need.hub) else f"{need.hub} is "
            problems.append(f"{name}not on this machine" + ("" if shared else f", and {refused[need.hub]}"))
        if need.package and not is_installed(need.package):
            problems.append(f"needs the package {need.package}")
            extras.append(need.extra)
        problems += [need.problem] if need.problem else []
        problems += _connection_problems(need)
        if problems:
            otherwise = f" ({need.otherwise})" if need.otherwise else ""
            lines.append(f"{need.subject}: {'; '.join(dict.fromkeys(problems))}{otherwise}")
    if not lines:
        notice = use_cache_if_unreachable(need.hub for need in needs if need.hub)
        if notice and os.environ.get("RANK", "0") == "0":
            print(notice, file=sys.stderr)
        return
    fixes = [f"the models cannot be downloaded: {next(iter(refused.values()))}"] if shared else []
    if extras:
        fixes.append(f"install with {install(','.join(dict.fromkeys(extras)))}")
    if refused:
        fixes.append(f"download where the hub is reachable: {download_command(refused)}")
    # One line where one line will do, as every other error.
    if len(lines) == 1:
        raise ConfigError("; ".join([*lines, *fixes]))
    raise ConfigError("\n".join(["missing (nothing was loaded):", *(f"  {line}" for line in lines), *fixes]))


def tracker_needs(names: Iterable[str]) -> list[Need]:
    """What the trackers among these names need. Imports nothing and makes no connection."""
    return [
        Need(
            f"report_to {name}",
            extra="tracking",
            package=name,
            problem=wandb_problem() if name == "wandb" else "",
        )
        for name in dict.fromkeys(names)
        if name in TRACKERS
    ]


def _connection_problems(need: Need) -> list[str]:
    problems = []
    # A user may have to mend both, so one does not hide the other.
    for check, subject in ((check_connections, need.url), (check_key, need.key)):
        try:
            if subject:
                check(subject)
        except ConfigError as error:
            problems.append(str(error))
    return problems


# ---- optional packages -------------------------------------------------------------------------------------


class MissingExtra(ConfigError, ImportError):
    """A package of an extra that is not installed."""


def install(extras: str) -> str:
    """The command that installs the packages of extras ("serve", "tracking,encoders"), for messages. It names
    the packages themselves: VideoPro is installed from a checkout or a wheel, and pip finds it nowhere."""
    requirements = map(Requirement, metadata.requires("videopro") or ())
    needed = [
        f"{each.name}{each.specifier}"
        for each in requirements
        if each.marker and any(each.marker.evaluate({"extra": extra}) for extra in extras.split(","))
    ]
    return shlex.join(["pip", "install", *needed])


@contextmanager
def needs_extra(extra: str, user: str, module: str = "") -> Iterator[None]:
    """Import packages of `extra` inside the block; `user`, which the message names, needs them. Raises
    MissingExtra if they cannot be imported.

    A command module that cannot be imported without the extra passes its `__name__` as `module`: if it is
    being run, the line is printed and the process exits with status 2.
    """
    try:
        yield
    except ImportError as error:
        name = (error.name or "").partition(".")[0]
        if isinstance(error, MissingExtra):
            message = str(error)
        # A mistake of ours, or a package that is there and fails in its own code: its traceback is needed.
        elif name in ("", "videopro"):
            raise
        elif isinstance(error, ModuleNotFoundError):
            message = f"{user} needs {name}: {install(extra)}"
        else:
            message = f"{user}: {name} cannot be imported ({first_line(error)}); run {install(extra)}"
        if module == "__main__":
            print(f"error: {message}", file=sys.stderr)
            raise SystemExit(2) from error
        raise MissingExtra(message) from error


def is_installed(package: str) -> bool:
    """Whether a package is installed; it is not imported."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def check_extra(extra: str, user: str, package: str) -> None:
    """Raise MissingExtra if a package is not installed, without importing it."""
    if not is_installed(package):
        raise MissingExtra(f"{user} needs {package}: {install(extra)}")


# ---- models of the hub -------------------------------------------------------------------------------------

_PATIENCE = 5.0
"""Seconds that the hub gets to report whether it has a model."""
_WEIGHTS = {
    "config.json": (
        *("model.safetensors", "model.safetensors.index.json"),
        *("pytorch_model.bin", "pytorch_model.bin.index.json", "model.bin"),
    ),
    "adapter_config.json": ("adapter_model.safetensors", "adapter_model.bin"),
}
"""The files of a checkpoint: its config, and its weights in one of the forms that we load."""


def is_hub_name(name: str) -> bool:
    """Whether a name is a hub name, and no path on this machine."""
    try:
        is_path = Path(name).expanduser().exists()
    except (OSError, RuntimeError):
        is_path = False
    return not is_path and name.count("/") == 1 and not name.startswith((".", "/", "~"))


def is_here(name: str) -> bool:
    """Whether a checkpoint is a folder, or in the cache of the hub with its config and all its weights."""
    if Path(name).is_dir():
        return True
    return is_hub_name(name) and any(
        (_cached(name, config) and (path := _cached(name, weights)) and _has_parts(name, path))
        for config, forms in _WEIGHTS.items()
        for weights in forms
    )


def folder_here(name: str, file: str = "config.json") -> Path | None:
    """The folder on this machine of a checkpoint or an adapter with this file, in the cache of the hub for a
    hub name; None if it is not here."""
    path = Path(name).expanduser() / file
    found = path if path.is_file() else _cached(name, file) if is_hub_name(name) else None
    return found and found.parent


def refusals(names: Iterable[str]) -> dict[str, str]:
    """Why models that are not on this machine cannot be downloaded, by name. Asks the hub, for a few seconds
    at most."""
    missing = [name for name in dict.fromkeys(names) if not is_here(name)]
    if not missing:
        return {}
    from huggingface_hub import constants, get_token

    if constants.HF_HUB_OFFLINE:
        return dict.fromkeys(missing, "HF_HUB_OFFLINE is set")
    try:
        check_connections(constants.ENDPOINT)
    except ConfigError as error:
        return dict.fromkeys(missing, f"the hub cannot be reached: {error}")
    token = get_token() or ""
    if problem := key_problem(token):
        return dict.fromkeys(missing, f"HF_TOKEN cannot be sent: {problem}; copy it again")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    # At once, because a hub that does not answer costs _PATIENCE for each of them.
    with ThreadPoolExecutor(len(missing)) as threads:
        reasons = threads.map(lambda name: _refusal(name, headers), missing)
        return {name: reason for name, reason in zip(missing, reasons, strict=True) if reason}


def use_cache_if_unreachable(names: Iterable[str]) -> str:
    """If the hub cannot be reached, use cached models without checking for updates, in this process and its
    children. Otherwise libraries retry every file of a model for half a minute. Returns a notice for the
    user; "" if the hub answers, or no model is from the hub."""
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
    return f"{_host()} cannot be reached ({reason}); using models from its cache"


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
    """Why the hub refuses a model that is not on this machine; "" if it does not."""
    host, status = _host(), _ask(name, headers)
    if isinstance(status, str):
        return f"{host} cannot be reached ({status})"
    # The hub says 401 for a repository that does not exist, so that private names stay hidden.
    if status in (401, 403, 404):
        return (
            f"{host} refused it (status {status}); check the name, and for a gated model accept its license "
            "there and set HF_TOKEN"
        )
    # Mirrors refuse the question, not the model: by its method, or as one of too many.
    return ""


def _host() -> str:
    from huggingface_hub import constants

    return constants.ENDPOINT.partition("://")[2].rpartition("@")[2]


def _ask(name: str, headers: Mapping[str, str]) -> int | str:
    """The hub's HTTP status for a model, or why the hub cannot be reached."""
    from huggingface_hub import constants, get_session

    url = f"{constants.ENDPOINT}/api/models/{name}"
    try:
        # Not through the library's own functions, which try for half a minute.
        return int(get_session().head(url, headers=dict(headers), timeout=_PATIENCE).status_code)
    except Exception as error:  # of the HTTP library that this version of the hub's client uses
        return first_line(error)
