"""The packages that a machine lacks, as pins for pip: those that this environment has and that one has not.

    python -m perf.battery.wheels PRESENT [--python 3.12] [--output FILE]

Follows the requirements of the project's extras "train" and "deepspeed" through the packages installed here.
A package that the other machine has in a version that the requirements admit is left as it is there. RapidOCR
is left out: the check reads no text in frames, and its wheel carries models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from perf.command import run_command
from videopro.cli import setting

EXTRAS = ("train", "deepspeed")
LEFT_OUT = ("rapidocr",)
Requires = Callable[[str], list[str]]
"""A package's requirements by its name."""


@dataclass(frozen=True)
class WheelSettings:
    """Print the packages that a machine lacks, as pins for pip."""

    present: Path = field(
        metadata=setting("output of pip list --format=freeze on the other machine", positional=True)
    )
    python: str = field(default="3.12", metadata=setting("its Python"))
    output: Path | None = field(default=None, metadata=setting("file for the pins; unset: print them"))


def read_present(text: str) -> dict[str, str]:
    """The versions of `pip list --format=freeze`, by canonical name."""
    pairs = (line.split("==") for line in text.splitlines() if line.count("==") == 1)
    return {canonicalize_name(name.strip()): version.strip() for name, version in pairs}


def lacking(
    project: Iterable[str],
    present: Mapping[str, str],
    python: str,
    requires: Requires,
    version: Callable[[str], str],
) -> list[str]:
    """NAME==VERSION of every package that these requirements need and `present` lacks or has too old."""
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_machine": "x86_64",
    }
    waiting = [Requirement(line) for line in project]
    done: set[tuple[str, frozenset[str]]] = set()
    required: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        installed = present.get(name)
        if installed is not None and requirement.specifier.contains(installed, prereleases=True):
            continue
        required.add(name)
        if (name, extras) in done:
            continue
        done.add((name, extras))
        for line in requires(name):
            inner = Requirement(line)
            marker = inner.marker
            if marker is None or any(
                marker.evaluate({**environment, "extra": extra}) for extra in ("", *extras)
            ):
                waiting.append(inner)
    return sorted(f"{name}=={version(name)}" for name in required)


def write_pins(request: WheelSettings) -> None:
    """Print the pins, or write them."""
    project = [
        line
        for line in metadata.requires("videopro") or []
        if Requirement(line).name not in LEFT_OUT
        and (
            (marker := Requirement(line).marker) is None
            or any(marker.evaluate({"extra": extra}) for extra in EXTRAS)
        )
    ]
    pins = lacking(
        project,
        read_present(request.present.read_text(encoding="utf-8")),
        request.python,
        lambda name: metadata.requires(name) or [],
        metadata.version,
    )
    text = "".join(f"{pin}\n" for pin in pins)
    if request.output is None:
        print(text, end="")
    else:
        request.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run_command(WheelSettings, write_pins, "stopped")
