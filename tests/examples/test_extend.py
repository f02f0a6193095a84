"""The snippets of docs/extend.md and docs/how-it-works.md, run as they stand there."""

import re
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.colours import COLOURS, load_fake, make_colours, make_video
from tests.support.scenes import OPTIONS
from videopro import VideoPro, benchmarks
from videopro.backbones import read_spec
from videopro.executor import parse_program
from videopro.methods.planners import PlanRequest, load_planner
from videopro.question import Question


def snippets(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n((?s:.*?))```", text)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the files of the page, each by the name in its first line."""
    for text in snippets("extend.md"):
        (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text)
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}.py" for name in ("brightness", "program", "middle", "garden", "farm", "search")
    }
    return tmp_path


def test_the_module_finds_the_brightest_frame(files: Path) -> None:
    make_colours(files / "video.mp4", ["blue"] * 8 + ["red"] * 8 + ["grey"] * 8, 8)
    options = {
        **OPTIONS,
        "planner": f"file:{files / 'program.py'}",
        "extra_modules": [str(files / "brightness.py")],
    }
    with VideoPro("m", "program", options=options, load=load_fake) as ready:
        answer = ready.ask(files / "video.mp4", "Which colour?", COLOURS)
    assert answer.choice == "grey"
    execution = answer.trace.rounds[0].execution
    assert "get_brightness" in [call.fn for call in execution.calls]


def test_the_method_asks_about_the_middle(files: Path) -> None:
    make_colours(files / "video.mp4", ["blue"] * 8 + ["red"] * 8 + ["grey"] * 8, 8)
    with VideoPro("m", str(files / "middle.py"), load=load_fake) as ready:
        answer = ready.ask(files / "video.mp4", "Which colour?", COLOURS)
    assert (answer.choice, answer.confidence) == ("red", pytest.approx(0.9))
    assert [piece["kind"] for piece in answer.evidence] == ["frames"]


def test_the_benchmark_reads_its_files(files: Path) -> None:
    make_video(files / "DIR" / "videos" / "one.mp4", "red")
    head, row = "id,video,question,a,b,c,answer", "1,one,Which colour?,red,green,blue,A"
    (files / "DIR" / "val.csv").write_text(f"{head}\n{row}\n")
    (item,) = benchmarks.load(str(files / "garden.py"), root=files / "DIR").items
    assert (item.id, item.answer, item.video) == ("1", "A", files / "DIR" / "videos" / "one.mp4")
    assert item.question.choices == ("red", "green", "blue")


def test_the_model_names_its_folder(files: Path) -> None:
    assert read_spec(str(files / "farm.py")).model == str(files / "farm-weights")


def test_the_planners_program_is_well_formed(files: Path) -> None:
    (reply,) = load_planner(str(files / "search.py"), None).write(
        [PlanRequest("plan", "", Question("Which?", ("a", "b")))]
    )
    assert not parse_program(reply.text).faults


def test_how_it_works(capsys: pytest.CaptureFixture[str]) -> None:
    program, sandbox = snippets("how-it-works.md")
    assert not parse_program(f"<planning>\nLook.\n</planning>\n<code>\n{program}</code>").faults
    exec(compile(sandbox, "how-it-works.md", "exec"), {})
    assert capsys.readouterr().out == "ok 4\n"
