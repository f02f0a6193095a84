"""The wheel of this checkout, installed in a folder of its own beside the libraries of this environment."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT

PACKAGED = ("videopro", "modules", "train", "data_synthesis", "configs")


@dataclass(frozen=True)
class Installed:
    """Where the wheel is, and how to use what it installs."""

    wheel: Path
    site: Path
    """The folder that holds the installed package."""
    empty: Path
    """A folder to work in that is not the checkout."""

    @property
    def environment(self) -> dict[str, str]:
        """The installed package comes first on the path; the checkout is not on it."""
        return {
            **os.environ,
            "PYTHONPATH": str(self.site),
            "PATH": f"{self.site / 'bin'}:{os.environ['PATH']}",
            "VIDEOPRO_CACHE": str(self.empty.parent / "cache"),
            "COLUMNS": "100",
        }

    def start(self, *command: str) -> subprocess.Popen[str]:
        """A command in the empty folder."""
        return subprocess.Popen(
            command,
            cwd=self.empty,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str) -> str:
        """What a command prints; AssertionError with its errors if it fails."""
        process = self.start(*command)
        said, errors = process.communicate()
        assert process.returncode == 0, f"{' '.join(command)}\n{said[-2000:]}\n{errors[-3000:]}"
        return said


@functools.cache
def installed() -> Installed:
    """Builds the wheel from a copy of the checkout (what lies in its build/ would get in) and installs it."""
    folder = Path(tempfile.mkdtemp())
    source = folder / "source"
    for name in PACKAGED:
        shutil.copytree(
            ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    _run([sys.executable, "-c", build, str(folder)], source)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*install, "--no-deps", "--no-index", "--no-compile", "--target", str(site), str(wheel)], folder)
    empty = folder / "empty"
    empty.mkdir()
    return Installed(wheel, site, empty)


def _run(command: list[str], folder: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
