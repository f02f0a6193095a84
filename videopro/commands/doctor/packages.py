"""The optional packages, by extra."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata

from videopro.cli import install
from videopro.commands.doctor.findings import Finding

_DEVELOPMENT = ("test", "docs", "perf")
"""Extras for working on this package."""
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def packages() -> Iterator[Finding]:
    """Which extras are complete, with versions, and what the others lack."""
    by_extra: dict[str, list[str]] = {}
    for line in _required():
        of_extra, name = _EXTRA.search(line), _NAME.match(line)
        if name is not None:
            by_extra.setdefault(of_extra[1] if of_extra else "", []).append(name[0])
    lacking = [name for name in by_extra.pop("", []) if _version(name) is None]
    if lacking:
        text = f"without {', '.join(lacking)}: pip install --upgrade videopro"
        yield Finding("packages", "videopro", "broken", text)
    for extra, names in by_extra.items():
        if extra in _DEVELOPMENT:
            continue
        versions = {name: _version(name) for name in names}
        absent = [name for name, version in versions.items() if version is None]
        if absent:
            text = f"without {', '.join(absent)}: {install(extra)}"
            yield Finding("packages", extra, "missing", text)
        else:
            text = ", ".join(f"{name} {version}" for name, version in versions.items())
            yield Finding("packages", extra, "ok", text)


def _required() -> list[str]:
    try:
        return metadata.requires("videopro") or []
    except metadata.PackageNotFoundError:
        return []


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
