"""The worked examples of CONTRIBUTING.md and docs/own-benchmarks.md: what they show is what lies in
docs/examples, and each one runs, as an installed package and by its file, from outside of ours."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support import scenes as world
from tests.support.colours import load_fake, make_video
from tests.support.making_videos import as_pocket
from tests.support.scenes import OPTIONS, SceneBackbone, ScriptedPlanner, context, item
from videopro import benchmarks, methods
from videopro.commands import infer
from videopro.errors import BenchmarkError, ConfigError
from videopro.methods.program import method as program_module
from videopro.modules import api_reference, available_modules
from videopro.modules.library import extra_modules
from videopro.traces import read_traces

EXAMPLES = ROOT / "docs" / "examples"
GARDEN, BRIGHTNESS, MIDDLE = (str(EXAMPLES / f"{name}.py") for name in ("garden", "brightness", "middle"))


def test_the_guide_shows_the_examples_as_they_are() -> None:
    pages = "".join(
        (ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "docs/own-benchmarks.md")
    )
    shown = dict(re.findall(r"`docs/examples/(\w+)\.py`.*\n\n```python\n((?s:.*?))```", pages))
    linked = set(re.findall(r"\]\(examples/(\w+)\.py\)", pages))
    texts = {path.stem: path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.py")}
    assert shown.keys() | linked == texts.keys()
    assert shown == {name: texts[name] for name in shown}


# ---- a benchmark -----------------------------------------------------------------------------------------

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
    ("row", "named"),
    [
        ("5,../up,Which?,red,green,blue,A,winter", "'video' is '../up'"),
        ("5,one,Which?,red,,blue,A,winter", "field 'b' is ''"),
        ("5,one,Which?,red,green,blue,D,winter", "'D'"),
        ("1,one,Which?,red,green,blue,A,winter", "duplicate id '1'"),
    ],
)
def test_a_broken_row_is_named(garden: Path, row: str, named: str) -> None:
    with (garden / "val.csv").open("a") as file:
        file.write(row + "\n")
    with pytest.raises(BenchmarkError, match=rf"val\.csv, line 5: .*{named}"):
        benchmarks.load(GARDEN, root=garden)


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


def test_planners_read_of_the_module_and_an_ablation_leaves_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", "unused")
    extra = extra_modules([BRIGHTNESS])
    line = "- `get_brightness(frame)`: Measure how bright one frame is; use it to find nights, flashes and"
    assert line in api_reference(available_modules(world.video_context(extra=extra)))
    assert line not in api_reference(
        available_modules(world.video_context(extra=extra, without=["extraction"]))
    )
    # What is not named is not offered, whatever else the process has loaded.
    assert line not in api_reference(available_modules(world.video_context()))


def test_a_program_calls_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of grey, red and so on, by mean value, grey is the brightest: (120 + 120 + 120) / 3 = 120 of 255."""
    monkeypatch.setenv("VIDEOPRO_CACHE", "unused")
    planner = ScriptedPlanner(lambda request: PROGRAM, is_fine_tuned=False)
    monkeypatch.setattr(program_module, "load_planner", lambda *args, **options: planner)
    method = methods.create("program", {**OPTIONS, "extra_modules": [BRIGHTNESS]})
    result = method.run(item(), context(SceneBackbone()))
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


def test_the_method_sees_the_middle() -> None:
    """Of the minute, from 26 to 34 s: half of it grey, half of it blue; from 31 to 39 s it would be blue."""
    result = methods.create(MIDDLE, {"seconds": 8}).run(item(), context(SceneBackbone()))
    execution = result.rounds[0].execution
    assert execution is not None
    times = [frame[0] for frame in execution.calls[0].frames]
    assert len(times) == 12
    assert 26 <= min(times) < 27
    assert 33 < max(times) <= 34
    assert result.cost.frames == 12
    assert result.cost.calls == 1


def test_the_methods_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="middle: seconds is 0; it must be above 0"):
        methods.create(MIDDLE, {"seconds": 0})
    with pytest.raises(ConfigError, match="unknown setting 'second'; did you mean 'seconds'"):
        methods.create(MIDDLE, {"second": 1})


# ---- all three, from outside of the package -----------------------------------------------------------

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
    shutil.copy(MIDDLE, tmp_path)
    (tmp_path / "program.py").write_text(PROGRAM)
    work = tmp_path / "work"
    work.mkdir()
    method = ["--model", "pocket", "--method", "../middle.py", "--seconds", "1"]
    film = [str(garden / "videos" / "one.mp4"), "Which colour?", "--choices", "red", "green"]
    programs = ["--model", "pocket", "--method", "program", "--planner", "file:../program.py"]
    programs += ["--extra-modules", "get_brightness", "--output", "asked"]
    commands = [
        ("infer", ["--benchmark", "garden", "--root", str(garden), *method, "--output", "run"]),
        ("report", ["run", "--tables", "main", "--output", "report"]),
        ("ask.command", [*film, *programs]),
        ("ask.command", [*film, *method]),
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
        assert execution is not None
        # The middle second of two.
        assert all(0.5 <= frame[0] <= 1.5 for frame in execution.calls[0].frames)
    assert "middle" in (work / "report" / "tables" / "main.csv").read_text()
    (asked,) = read_traces(next((work / "asked").rglob("traces.jsonl")))
    execution = asked.rounds[0].execution
    assert execution is not None
    assert [call.fn for call in execution.calls].count("get_brightness") == 2


def test_a_broken_neighbour_stops_nobody_else(site: Path) -> None:
    """An installed plug-in that fails to import: the others work, and who names it gets one line."""
    broken = site / "broken_method-1.0.dist-info"
    broken.mkdir()
    (broken / "METADATA").write_text("Name: broken-method\nVersion: 1.0\n")
    (broken / "entry_points.txt").write_text("[videopro.methods]\nbroken = no_such_package:Method\n")
    code = "import sys; from videopro.__main__ import main; sys.exit(main())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(site)])}

    def said(*words: str) -> tuple[int, str, str]:
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    try:
        status, listed, _ = said("models")
        assert (status, "Show the backbone frames from the middle" in listed) == (0, True)
        assert "method 'broken' of package broken-method (no_such_package:Method)" in " ".join(listed.split())
        run = ["infer", "--benchmark", "pocket", "--model", "pocket", "--output", "x", "--method"]
        status, _, errors = said(*run, "broken")
        assert status == 2
        assert errors == (
            "error: method 'broken' of package broken-method (no_such_package:Method) cannot be loaded "
            "(ModuleNotFoundError: No module named 'no_such_package'); correct the package, or uninstall it\n"
        )
    finally:
        shutil.rmtree(broken)
