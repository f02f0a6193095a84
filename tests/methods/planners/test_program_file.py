"""A program of the user's own as every question's plan: what it does, what is refused, what the key has."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import load_fake, make_video
from tests.support.method_world import NO_MODELS, OPTIONS, context, item
from tests.support.reason_world import SceneBackbone
from videopro.benchmarks import Protocol
from videopro.benchmarks.base import ROBUST
from videopro.commands.ask import command as ask
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.errors import ConfigError
from videopro.methods import Questions, RunRequest, create, prepare

LOOK = "def execute_command(video, question, choices):\n    return query_native(video, question, choices)\n"
FAILING = "def execute_command(video, question):\n    return query_mc(missing, question, ['a', 'b'])\n"


def written(folder: Path, program: str, name: str = "my.py") -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(program)
    return f"file:{folder / name}"


def prepared(planner: str, **options: Any) -> Any:
    questions = Questions(Protocol(parser=ROBUST, reply_tokens=64))
    chosen = {**OPTIONS, **options, "planner": planner}
    return prepare(RunRequest("videopro", chosen, "m", {}, lambda: questions, load=load_fake))


@pytest.mark.parametrize("name", ["program", "adaptive", "videopro"])
def test_the_program_is_the_plan_of_every_question(tmp_path: Path, name: str) -> None:
    backbone = SceneBackbone()
    method = create(name, {**OPTIONS, "planner": written(tmp_path, LOOK)})
    results = [method.run(item(id=each), context(backbone)) for each in ("a", "b")]
    assert backbone.written == [], "no model was asked for a program"
    for result in results:
        (only,) = result.rounds
        assert (only.program, only.faults) == (LOOK.rstrip("\n"), ())
        assert result.final is not None
        assert result.final.letter == "D"


def test_nothing_is_refined_and_the_user_is_told(tmp_path: Path) -> None:
    spec = written(tmp_path, FAILING)
    run = prepared(spec)
    assert any("failed and unsure answers are not refined" in note for note in run.notes)
    result = run.method.run(item(), context(SceneBackbone()))
    (only,) = result.rounds
    assert only.execution is not None
    assert only.execution.status == "failed"
    for options in ({"max_rounds": 2}, {"refine_below": 0.9}):
        with pytest.raises(ConfigError, match="cannot refine its program; leave max_rounds and refine_below"):
            prepared(spec, **options)


def test_the_key_has_the_text_and_not_where_it_lies(tmp_path: Path) -> None:
    here, there = written(tmp_path / "a", LOOK), written(tmp_path / "b", LOOK)
    identity = prepared(here).identity
    assert identity == prepared(there).identity
    assert identity["planner"] == "file:my.py"
    assert identity["planner_program"] == hashlib.sha256(LOOK.encode()).hexdigest()
    assert identity != prepared(written(tmp_path / "b", LOOK + "# changed\n")).identity
    assert create("videopro", OPTIONS).identity()["planner_program"] is None


def test_workers_get_the_text_that_was_checked(tmp_path: Path) -> None:
    run = prepared(written(tmp_path, LOOK))
    (tmp_path / "my.py").unlink()
    worker = create("videopro", run.options)
    assert worker.identity() == run.identity
    assert worker.run(item(), context(SceneBackbone())).rounds[0].program == LOOK.rstrip("\n")


@pytest.mark.parametrize(
    ("program", "error"),
    [
        (None, r"planner 'file:.*my\.py': cannot be read .*; give the path of a Python file"),
        ("def execute_command(video:\n    return 1\n", r"would not run: It is not Python: .* \(line 1\)\."),
        ("import os\n" + LOOK, r"would not run: It imports os\. docs/modules\.md says what a program may"),
        ("x = 1\n", r"would not run: It has no execute_command\."),
        ("", r"would not run: There is no program\."),
        (LOOK + "# </code>\n", r"its text holds what marks the parts of a reply"),
        ('"""```python\nx\n```"""\n' + LOOK, r"its text holds what marks the parts of a reply"),
    ],
)
def test_what_cannot_run_is_refused(tmp_path: Path, program: str | None, error: str) -> None:
    spec = f"file:{tmp_path / 'my.py'}" if program is None else written(tmp_path, program)
    with pytest.raises(ConfigError, match=error) as refused:
        prepared(spec)
    assert "\n" not in str(refused.value)


def test_settings_that_do_not_go_with_it(tmp_path: Path) -> None:
    spec = written(tmp_path, LOOK)
    with pytest.raises(ConfigError, match=r"names no file; give file:PROGRAM\.py"):
        create("videopro", {"planner": "file:"})
    with pytest.raises(ConfigError, match="reads no prompts; leave --prompts out"):
        create("videopro", {"planner": spec, "prompts": {"plan": "{question} {choices}"}})
    with pytest.raises(ConfigError, match="does not see the video; leave it out"):
        create("videopro", {"planner": spec, "planner_frames": 4})
    with pytest.raises(ConfigError, match="nor one program for all questions teaches anything"):
        SynthesisConfig(source="pocket", teacher=spec, model="pocket", output=tmp_path)


def test_ask_runs_it_on_a_film(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, film = written(tmp_path, LOOK), tmp_path / "film.mp4"
    make_video(film, "blue")
    asked = [str(film), "Which colour?", "--choices", "red", "blue", "--model", "m", "--method", "videopro"]
    assert ask.main([*asked, "--planner", spec, "--options", *NO_MODELS], load=load_fake) == 0
    said = capsys.readouterr()
    assert "return query_native(video, question, choices)" in said.out
    assert "not refined" in said.err
