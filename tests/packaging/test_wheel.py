"""The wheel: what is in it, and every command of it, outside the checkout."""

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.support import ROOT
from tests.support.making_videos import as_pocket, make
from videopro import __version__
from videopro.backbones import library_versions
from videopro.cli import COMMANDS

pytestmark = pytest.mark.wheel

# Commands whose settings are our own, with the folder of configs that each takes by name.
CONFIGS = {"infer": "infer", "compare": "compare", "synthesize": "synthesis", "asp-clip": "retrieval"}

# Runs many commands in one process: importing the model libraries takes longer than any of them.
MANY = """
import contextlib, io, json, runpy, sys

results = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    sys.argv = list(words)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as stopped:
        code = stopped.code
    except BaseException as error:
        code = repr(error)
    results.append([code, out.getvalue(), err.getvalue()])
elsewhere = sorted(
    name
    for name, module in sys.modules.items()
    if name.split(".")[0] in ("videopro", "modules", "train", "data_synthesis", "tests", "perf")
    and not (getattr(module, "__file__", None) or "").startswith(SITE)
)
print(json.dumps({"results": results, "elsewhere": elsewhere}))
"""


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

    def run(self, *command: str) -> str:
        """What a command in the empty folder prints; AssertionError with its errors if it fails."""
        return _run(command, self.empty, self.environment)


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
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    _run([sys.executable, "-c", build, str(folder)], source, environment)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    install += ["--no-deps", "--no-index", "--no-compile", "--target", str(site), str(wheel)]
    _run(install, folder, environment)
    empty = folder / "empty"
    empty.mkdir()
    return Installed(wheel, site, empty)


def _run(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def source_files() -> set[str]:
    """The files of the package, links followed, but for what makes the pocket world's models."""
    found = set()
    for folder, _, names in os.walk(ROOT / "videopro", followlinks=True):
        if Path(folder).name != "__pycache__" and "train/pocket" not in folder:
            found |= {str((Path(folder) / name).relative_to(ROOT)) for name in names}
    return found


@functools.cache
def helps() -> list[list[str]]:
    """`videopro NAME --help`, and `python -m MODULE --help` for every module that can be run."""
    modules = sorted(
        name.removesuffix(".py").removesuffix("/__main__").replace("/", ".")
        for name in source_files()
        if name.endswith(".py") and '\nif __name__ == "__main__":' in (ROOT / name).read_text()
    )
    return [["videopro", *name.split(), "--help"] for name in COMMANDS] + [
        [name, "--help"] for name in modules
    ]


@functools.cache
def printed_configs() -> list[list[str]]:
    """Every shipped config whose command has our own settings, by name."""
    asked = []
    for command, folder in CONFIGS.items():
        for path in sorted((ROOT / "configs" / folder).glob("*.yaml")):
            output = [] if "output" in yaml.safe_load(path.read_text()) else ["--output", "runs/x"]
            asked.append(["videopro", command, "--config", path.stem, *output, "--print-config"])
    return asked


TRAINED = [["videopro", stage, "--config", "pocket", "--output_dir", "out"] for stage in ("sft", "grpo")]


@functools.cache
def outcomes() -> dict[tuple[str, ...], tuple[object, str, str]]:
    """Exit status, output and errors of each `python -m WORDS`, run from the wheel outside the checkout."""
    place = installed()
    commands = [*helps(), *printed_configs(), *TRAINED]
    code = MANY.replace("SITE", repr(str(place.site)))
    said = json.loads(place.run(sys.executable, "-c", code, json.dumps(commands)).splitlines()[-1])
    assert said["elsewhere"] == []
    results = [(code, out, err) for code, out, err in said["results"]]
    return {tuple(words): result for words, result in zip(commands, results, strict=True)}


def test_the_wheel_has_the_packages_files_and_nothing_else() -> None:
    with zipfile.ZipFile(installed().wheel) as wheel:
        names = set(wheel.namelist())
        about = f"videopro-{__version__}.dist-info"
        assert {name.partition("/")[0] for name in names} == {"videopro", about}
        assert {name for name in names if name.startswith("videopro/")} == source_files()
        points = wheel.read(f"{about}/entry_points.txt").decode()
        assert points.startswith("[console_scripts]\nvideopro = videopro.__main__:main\n")
        assert "[videopro.backbones]\npocket = videopro.pocket.model:POCKET\n" in points


def test_the_console_script_is_the_installed_package() -> None:
    place = installed()
    assert place.run("videopro", "--version").strip() == __version__
    assert "Answer" in place.run("videopro", "--help")
    where = place.run(sys.executable, "-c", "import videopro; print(videopro.__file__)").strip()
    assert where == str(place.site / "videopro" / "__init__.py")
    build = "from videopro.backbones import library_versions as v; print(v()['videopro'])"
    assert place.run(sys.executable, "-c", build).strip() == library_versions()["videopro"]


def test_every_command_has_help_outside_the_checkout() -> None:
    for words in helps():
        code, out, err = outcomes()[tuple(words)]
        # None: `python -m videopro.modules` prints its reference and takes no flag.
        assert code in (0, None), (words, code, err[-2000:])
        assert len(out) > 100, (words, out)


def test_every_shipped_config_is_found_by_name() -> None:
    assert len(printed_configs()) == 6
    for words in printed_configs():
        code, out, err = outcomes()[tuple(words)]
        assert code == 0, (words, err[-2000:])
        file = ROOT / "configs" / CONFIGS[words[1]] / f"{words[3]}.yaml"
        printed = yaml.safe_load(out)
        printed |= printed.get("options", {})  # a method's own settings
        # Those of the file's settings that are plain values.
        for key, value in yaml.safe_load(file.read_text()).items():
            if isinstance(value, str | int | float | bool):
                assert str(printed[key]) == str(value), (words, key)


def test_a_trainers_shipped_config_is_found_by_name() -> None:
    """TRL's parser prints no settings: what is missing from the file is named, and no other mistake."""
    for words in TRAINED:
        code, _, err = outcomes()[tuple(words)]
        assert code == 2, (words, err[-2000:])
        assert "error: train_data" in err.splitlines()[-1], (words, err[-2000:])


def test_accelerate_launches_a_trainer_of_the_wheel() -> None:
    """There is no file train/sft.py then."""
    place = installed()
    config = place.site / "videopro" / "configs" / "accelerate" / "one_cpu.yaml"
    said = place.run(
        *("accelerate", "launch", "--config_file", str(config), "-m", "videopro.train.sft", "--help")
    )
    assert "usage: videopro sft --config NAME|FILE" in said


def test_a_question_is_answered_outside_the_checkout(tmp_path: Path) -> None:
    make(tmp_path / "video.mp4", 48)
    as_pocket(tmp_path / "video.mp4")
    said = installed().run(
        *("videopro", "ask", str(tmp_path / "video.mp4"), "What is the weather?"),
        *("--choices", "rainy", "sunny", "--model", "pocket"),
    )
    assert re.search(r"^[AB]\. (rainy|sunny)$", said, re.MULTILINE), said
    assert re.search(r"^confidence [01]\.\d+$", said, re.MULTILINE), said
