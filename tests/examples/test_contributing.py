"""The worked examples of CONTRIBUTING.md and docs/own-benchmarks.md: what they show is what lies in
docs/examples, and each one runs."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support import ROOT
from tests.support import reason_world as world
from tests.support.fakes import load_fake, make_video
from tests.support.making_videos import as_pocket
from tests.support.method_world import OPTIONS, context, item
from tests.support.reason_world import SceneBackbone, ScriptedPlanner
from videopro import benchmarks, methods
from videopro.commands import infer
from videopro.errors import BenchmarkError, ConfigError
from videopro.methods.program import method as program_module
from videopro.modules import api_reference, available_modules
from videopro.modules.calls import MODULES
from videopro.traces import read_traces

EXAMPLES = ROOT / "docs" / "examples"
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def example(name: str) -> ModuleType:
    """An example as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    # Dataclasses look up the names in their annotations there.
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


def test_the_guide_shows_the_examples_as_they_are() -> None:
    pages = GUIDE + (ROOT / "docs" / "own-benchmarks.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"`docs/examples/(\w+)\.py`.*\n\n```python\n((?s:.*?))```", pages))
    linked = set(re.findall(r"\]\(examples/(\w+)\.py\)", pages))
    texts = {path.stem: path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.py")}
    assert shown.keys() | linked == texts.keys()
    assert shown == {name: texts[name] for name in shown}


def test_what_the_guide_names_exists() -> None:
    """Every path in backticks is a file or folder of the repository, but for those that it says to write."""
    to_write = {"brightness", "middle"}
    named = re.findall(r"`((?:[\w.-]+/)+[\w.*-]*)`", GUIDE)
    assert len(named) > 10
    missing = [path for path in named if not (ROOT / path).exists() and Path(path).stem not in to_write]
    assert missing == []


# ---- a benchmark -----------------------------------------------------------------------------------------

HEAD = "id,video,question,a,b,c,answer,season"


GARDEN = str(EXAMPLES / "garden.py")


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
    (folder / "test.csv").write_text("\n".join([HEAD, "4,two,Which colour?,red,green,blue,,spring"]) + "\n")
    return folder


def test_the_benchmarks_files_are_read(garden: Path) -> None:
    val = benchmarks.load(GARDEN, root=garden)
    assert [each.id for each in val.items] == ["1", "2", "3"]
    assert val.items[0].video == garden / "videos" / "one.mp4"
    assert val.items[0].question.text == "Which colour, please?"
    assert (val.items[2].answer, val.items[2].groups) == ("B", {"season": "spring"})
    assert benchmarks.load(GARDEN, root=garden, split="test").items[0].answer is None


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("5,../up,Which?,red,green,blue,A,winter", "'video' is '../up'; it must be a file name inside"),
        ("5,one,Which?,red,,blue,A,winter", "field 'b' is ''; it must be a text"),
        ("5,one,Which?,red,green,blue,D,winter", "'D' is not an option"),
        ("1,one,Which?,red,green,blue,A,winter", "duplicate id '1'"),
    ],
)
def test_a_broken_row_is_named(garden: Path, row: str, expected: str) -> None:
    with (garden / "val.csv").open("a") as file:
        file.write(row + "\n")
    with pytest.raises(BenchmarkError, match="1 record is broken") as error:
        benchmarks.load(GARDEN, root=garden)
    assert f"{garden / 'val.csv'}, line 5: " in str(error.value)
    assert expected in str(error.value)


def test_the_benchmark_runs(garden: Path, tmp_path: Path) -> None:
    """The model names the colour that it sees: right, wrong by the annotation, right."""
    output = tmp_path / "run"
    words = ["--benchmark", GARDEN, "--root", str(garden), "--model", "m", "--output", str(output)]
    assert infer.main(words, load=load_fake) == 0
    summary = json.loads((output / "summary.json").read_text())
    assert (summary["n"], summary["accuracy"]) == (3, pytest.approx(2 / 3))
    assert (summary["metrics"]["Winter"]["robust"], summary["metrics"]["Winter"]["n"]) == (0.5, 2)
    assert {name: row["n"] for name, row in summary["groups"]["season"].items()} == {"winter": 2, "spring": 1}


# ---- a module --------------------------------------------------------------------------------------------

PROGRAM = """def execute_command(video, question):
    frames = extract_frames(video, num_frames=6)
    brightest = max(frames, key=get_brightness)
    return query_mc([brightest], question, choices)
"""


@pytest.fixture
def brightness(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The module, registered for one test."""
    monkeypatch.setenv("VIDEOPRO_CACHE", "unused")
    example("brightness")
    yield
    del MODULES["get_brightness"]


@pytest.mark.usefixtures("brightness")
def test_planners_read_of_the_module_and_an_ablation_leaves_it_out() -> None:
    line = "- `get_brightness(frame)`: Measure how bright one frame is; use it to find nights, flashes and"
    assert line in api_reference(available_modules(world.context()))
    assert line not in api_reference(available_modules(world.context(without=["extraction"])))


@pytest.mark.usefixtures("brightness")
def test_a_program_calls_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of grey, red and so on, by mean value, grey is the brightest: (120 + 120 + 120) / 3 = 120 of 255."""
    planner = ScriptedPlanner(lambda request: PROGRAM, is_fine_tuned=False)
    monkeypatch.setattr(program_module, "load_planner", lambda *args, **options: planner)
    result = methods.create("program", OPTIONS).run(item(), context(SceneBackbone()))
    assert "get_brightness(frame)" in planner.requests[0].api_reference
    assert result.final is not None
    assert result.final.letter == "D"
    execution = result.rounds[0].execution
    assert execution is not None
    calls = [call for call in execution.calls if call.fn == "get_brightness"]
    # At the middles of the six scenes of ten seconds each: grey, red, grey, blue, grey, green.
    expected = [120, (200 + 30 + 30) / 3, 120, (30 + 30 + 200) / 3, 120, (30 + 180 + 30) / 3]
    assert [float(call.result) for call in calls] == pytest.approx(
        [value / 255 for value in expected], abs=0.02
    )
    assert [call.frames[0][0] for call in calls] == pytest.approx([5, 15, 25, 35, 45, 55], abs=0.5)


# ---- a method --------------------------------------------------------------------------------------------


@pytest.fixture
def middle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The method under its name."""
    known = {**methods.METHODS, "middle": example("middle").MiddleMethod}
    monkeypatch.setattr("videopro.methods.registry.METHODS", known)


@pytest.mark.usefixtures("middle")
def test_the_method_sees_the_middle() -> None:
    """Of the minute, from 26 to 34 s: half of it grey, half of it blue; from 31 to 39 s it would be blue."""
    result = methods.create("middle", {"seconds": 8}).run(item(), context(SceneBackbone()))
    execution = result.rounds[0].execution
    assert execution is not None
    times = [frame[0] for frame in execution.calls[0].frames]
    assert len(times) == 12
    assert 26 <= min(times) < 27
    assert 33 < max(times) <= 34
    assert result.cost.frames == 12
    assert result.cost.calls == 1


@pytest.mark.usefixtures("middle")
def test_the_methods_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="middle: seconds is 0; it must be above 0"):
        methods.create("middle", {"seconds": 0})
    with pytest.raises(ConfigError, match="unknown setting 'second'; did you mean 'seconds'"):
        methods.create("middle", {"second": 1})


# ---- all three, where the guide says that they go ---------------------------------------------------------


def apply(folder: Path, block: str) -> None:
    """Make the changes of a diff of the guide: a file's name, then parts separated by @@."""
    first, _, rest = block.partition("\n")
    path = folder / first.removeprefix("# ")
    text = path.read_text(encoding="utf-8")
    for part in rest.split("@@\n"):
        lines = part.splitlines()
        old = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
        new = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
        assert text.count(old) == 1, f"{path}: {old}"
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


def test_the_examples_run_where_the_guide_puts_them(garden: Path, tmp_path: Path) -> None:
    """In a copy of the package, the pocket model and worker processes included."""
    for folder in ("videopro", "modules", "train", "data_synthesis", "configs"):
        # With what Python has compiled, which fits what is copied: three processes import the package.
        ignored = shutil.ignore_patterns("agents", "planners")
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=ignored)
    for folder in ("videopro/methods/agents", "videopro/methods/planners"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    places = re.findall(r"`docs/examples/(\w+)\.py`;\s+a\s+real\s+\w+\s+would\s+be\s+`([\w/.]+)`", GUIDE)
    assert len(places) == 2
    for name, path in [*places, ("garden", "videopro/benchmarks/contributed/garden.py")]:
        shutil.copy(EXAMPLES / f"{name}.py", tmp_path / path)
    blocks = re.findall(r"```diff\n(.*?)```", GUIDE, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        apply(tmp_path, block)

    def run(*words: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "VIDEOPRO_CACHE": str(tmp_path / "cache")}
        command = [sys.executable, "-m", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    assert "- `get_brightness(frame)`: Measure how bright" in run("videopro.modules")
    as_pocket(*(garden / "videos").glob("*.mp4"))
    words = ["--benchmark", "garden", "--root", str(garden), "--model", "pocket", "--method", "middle"]
    run("videopro.infer", *words, "--seconds", "1", "--output", str(tmp_path / "run"))
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["method"], summary["benchmark"], summary["n"]) == ("middle", "garden", 3)
    traces = read_traces(tmp_path / "run" / "traces.jsonl")
    for trace in traces:
        execution = trace.rounds[0].execution
        assert execution is not None
        # The middle second of two.
        assert all(0.5 <= frame[0] <= 1.5 for frame in execution.calls[0].frames)
