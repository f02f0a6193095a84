"""What a command needs before it loads a model: models of the hub, optional packages, servers, folders.

All that is missing is told at once, with one command to install it and one to download it, instead of one
error after the other, each after a model was loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from videopro.cli.connections import check_connections, check_key
from videopro.cli.extras import install, is_installed
from videopro.cli.hub import download_command, refusals, use_cache_if_unreachable
from videopro.errors import ConfigError


@dataclass(frozen=True)
class Need:
    """Something that has to be there, and what it is for."""

    subject: str
    """As messages call it."""
    hub: str = ""
    """The name of a model on the hub, which is in the cache or can be downloaded."""
    extra: str = ""
    package: str = ""
    """Of that extra."""
    url: str = ""
    """The address of a server."""
    key: str = ""
    """The environment variable with the key for it."""
    problem: str = ""
    """What is known to be wrong with it already."""
    otherwise: str = ""
    """How to do without it, or to have it from elsewhere."""


def check_needs(needs: Iterable[Need]) -> None:
    """Raise ConfigError, naming all of them, for needs that are not met. Loads nothing, and asks no more than
    the hub whether it has the models that are not on this machine."""
    # A run's model and its judge are often the same one.
    needs = list(dict.fromkeys(needs))
    refused = refusals(need.hub for need in needs if need.hub)
    # The same for all of them where the hub cannot be reached: told once.
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
    fixes = [f"the models: {next(iter(refused.values()))}"] if shared else []
    if extras:
        fixes.append(f"to install: {install(','.join(dict.fromkeys(extras)))}")
    if refused:
        fixes.append(f"to download, where the hub can be reached: {download_command(refused)}")
    # One line where one line will do, as every other error.
    if len(lines) == 1:
        raise ConfigError("; ".join([*lines, *fixes]))
    raise ConfigError(
        "\n".join(["these are missing, and nothing was loaded:", *(f"  {line}" for line in lines), *fixes])
    )


def folder_problem(folder: Path) -> str:
    """Why nothing can be written into a folder, which need not exist yet; "" if something can."""
    above = folder
    while not above.exists() and above != above.parent:
        above = above.parent
    if not above.is_dir():
        return f"{folder}: {above} is no folder"
    return "" if os.access(above, os.W_OK | os.X_OK) else f"{folder}: cannot be written"


def _connection_problems(need: Need) -> list[str]:
    problems = []
    try:
        if need.url:
            check_connections(need.url)
    except ConfigError as error:
        problems.append(str(error))
    try:
        if need.key:
            check_key(need.key)
    except ConfigError as error:
        problems.append(str(error))
    return problems
