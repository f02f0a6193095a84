"""What Dockerfile, .dockerignore and compose.yaml name is there: files, extras, flags, ports, variables.

Whether an image can be built no test here says: there is no Docker daemon (docs/results/what-ran.md). `bash
launch/lint_docker.sh` has the tools of others read both.
"""

import contextlib
import io
import re
import shlex
import sys
import tomllib
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from tests.support import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVE, ENGINE = COMPOSE["services"]["serve"], COMPOSE["services"]["engine"]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile with their arguments, each on one line."""
    lines = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in joined.split("\n") if line)]


def all_of(name: str) -> list[str]:
    return [rest for found, rest in instructions() if found == name]


def defaults() -> dict[str, str]:
    """The build arguments with their defaults."""
    return dict(rest.split("=", 1) for rest in all_of("ARG"))


def test_what_is_copied_is_there_and_not_ignored() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [name for rest in all_of("COPY") for name in shlex.split(rest)[:-1]]
    assert set(copied) == kept
    assert all((ROOT / name).exists() for name in copied)
    # The package's links lead to folders that are copied too.
    links = [path.resolve().name for path in (ROOT / "videopro").iterdir() if path.is_symlink()]
    assert links
    assert set(links) <= kept


def test_the_build_arguments_are_ones_of_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    given = defaults()
    assert given["PYTHON"] in SpecifierSet(PROJECT["requires-python"])
    stages = [rest.split(" AS ")[1] for rest in all_of("FROM")]
    assert {f"torch-{device}" for device in ("cpu", "cuda")} <= set(stages)
    assert given["DEVICE"] in ("cpu", "cuda")
    # What the image installs, by the line that lists it.
    scripts = [re.search(r'python -c "(import sys.*?)"', rest) for rest in all_of("RUN")]
    (script,) = (match[1] for match in scripts if match is not None)
    monkeypatch.setattr(sys, "argv", ["-c", given["EXTRAS"]])
    monkeypatch.chdir(ROOT)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(script, {})
    extras = PROJECT["optional-dependencies"]
    needs = [*PROJECT["dependencies"], *extras["serve"], *extras["encoders"]]
    assert printed.getvalue().splitlines() == needs
    assert SERVE["build"]["args"].keys() <= given.keys()
