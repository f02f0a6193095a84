"""The worked examples of CONTRIBUTING.md and docs/benchmark.md: they show the files of docs/examples, and
each one runs, as an installed package and by its file, from outside of ours."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.colours import make_video
from tests.support.making_videos import as_pocket
from videopro.traces import read_traces

EXAMPLES = ROOT / "docs" / "examples"


def test_the_guide_shows_the_examples_as_they_are() -> None:
    pages = "".join(
        (ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "docs/benchmark.md")
    )
    shown = dict(re.findall(r"`docs/examples/(\w+)\.py`.*\n\n```python\n((?s:.*?))```", pages))
    linked = set(re.findall(r"\]\((?:docs/)?examples/(\w+)\.py\)", pages))
    texts = {path.stem: path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.py")}
    assert shown.keys() | linked == texts.keys()
    assert shown == {name: texts[name] for name in shown}


HEAD = "id,video,question,a,b,c,answer,season"


@pytest.fixture
def garden(tmp_path: Path) -> Path:
    """A folder of the benchmark: a red video in winter, a green one in spring."""
    folder = tmp_path / "garden"
    make_video(folder / "videos" / "one.mp4", "red")
    make_video(folder / "videos" / "two.mp4", "green")
    rows = [
        HEAD,
        '1,one,"Which colour, please?",red,green,blue,A,winter',
        "2,one,And now?,blue,green,red,A,winter",
        "3,two,Which colour?,red,green,blue,B,spring",
    ]
    (folder / "val.csv").write_text("\n".join(rows) + "\n")
    return folder


PROGRAM = """def execute_command(video, question):
    frames = extract_frames(video, num_frames=6)
    brightest = max(frames, key=get_brightness)
    return query_mc([brightest], question, choices)
"""


# Several commands in one process: importing the model libraries takes longer than any of them.
COMMANDS = """
import importlib, json, sys

for module, words in json.loads(sys.argv[1]):
    if status := importlib.import_module(f"videopro.commands.{module}").main(words):
        sys.exit(status)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the examples are installed as a package, as pip does it for anyone."""
    folder = tmp_path_factory.mktemp("examples")
    source = shutil.copytree(EXAMPLES, folder / "source")
    flags = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(folder / "site")]
    install = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *flags, str(source)]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "site"


def test_all_three_run_from_outside(site: Path, garden: Path, tmp_path: Path) -> None:
    """`infer`, `report` and `ask` with the pocket model, worker processes included: the benchmark and the
    module by their names, the method by its file."""
    as_pocket(*(garden / "videos").glob("*.mp4"))
    shutil.copy(EXAMPLES / "middle.py", tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    work = tmp_path / "work"
    work.mkdir()
    method = ["--model", "pocket", "--method", "../middle.py", "--length", "1"]
    video = [str(garden / "videos" / "one.mp4"), "Which colour?", "--choices", "red", "green"]
    programs = ["--model", "pocket", "--method", "program", "--planner", "file:../program.py"]
    programs += ["--extra-modules", "get_brightness", "--output", "asked"]
    commands = [
        ("infer", ["--benchmark", "garden", "--root", str(garden), *method, "--output", "run"]),
        ("report", ["run", "--tables", "main", "--output", "report"]),
        ("ask.command", [*video, *programs]),
        ("ask.command", [*video, *method]),
    ]
    path = os.pathsep.join([str(ROOT), str(site)])
    environment = {**os.environ, "PYTHONPATH": path, "VIDEOPRO_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(commands)],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    summary = json.loads((work / "run" / "summary.json").read_text())
    assert (summary["method"], summary["benchmark"], summary["n"]) == ("middle", "garden", 3)
    # What an edit of the file would change.
    assert summary["settings"]["plugins"].keys() == {"method middle"}
    for trace in read_traces(work / "run" / "traces.jsonl"):
        execution = trace.rounds[0].execution
        # The middle second of two.
        assert all(0.5 <= frame[0] <= 1.5 for frame in execution.calls[0].frames)
    assert "middle" in (work / "report" / "tables" / "main.csv").read_text()
    (asked,) = read_traces(next((work / "asked").rglob("traces.jsonl")))
    execution = asked.rounds[0].execution
    assert [call.fn for call in execution.calls].count("get_brightness") == 2
