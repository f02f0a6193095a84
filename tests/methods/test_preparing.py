"""The one call that prepares a run: what it checks in which order, and what workers get."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.stub_server import StubServer
from videopro.backbones import load_backbone
from videopro.benchmarks import Protocol
from videopro.benchmarks.base import ROBUST
from videopro.errors import BackboneError, ConfigError
from videopro.methods import METHODS, PreparedRun, Questions, RunRequest, create, prepare
from videopro.pocket import adapter_dir

PROMPTS = {"plan_program": "Answer {question} of {choices} with execute_command."}


def unread() -> Questions:
    raise AssertionError("the questions were read")


def unloaded(model: str, **settings: Any) -> Any:
    raise AssertionError("the model was loaded")


def prepared(
    method: str,
    options: Mapping[str, Any],
    questions: Questions | None = None,
    model: str = "pocket",
    **request: Any,
) -> PreparedRun:
    asked = questions or Questions(Protocol(ROBUST))
    return prepare(RunRequest(method, options, model, request.pop("backbone", {}), lambda: asked, **request))


@pytest.mark.parametrize(
    ("method", "options"),
    [
        *((name, {"agents": ["self", "other"]} if name == "lvagent" else {}) for name in METHODS),
        ("native", {"frames": 3, "reply": "text"}),
        ("videopro", {"preset": "paper", "tau": 0.5}),
        ("program", {"prompts": PROMPTS}),
        ("dvd", {"llm": "api:m@http://localhost:9/v1", "max_steps": 3}),
    ],
)
@pytest.mark.parametrize("subtitles", ["offered", "none", "frames"])
def test_a_worker_makes_the_method_whose_identity_the_key_hashes(
    method: str, options: dict[str, Any], subtitles: Any
) -> None:
    run = prepared(method, options, Questions(Protocol(ROBUST, subtitles=subtitles)))
    assert create(method, run.options).identity() == run.method.identity() == run.identity


def test_settings_are_checked_before_a_server_is_asked_and_the_questions_are_read() -> None:
    with StubServer() as stub:
        planner = {"planner": f"server:m@{stub.url}"}
        for options, backbone, error in (
            ({**planner, "tau": "high"}, {}, "tau"),
            ({**planner, "taus": 1}, {}, "did you mean 'tau'"),
            (planner, {"frame": 1}, "did you mean 'frames'"),
            (planner, {"frames": 0}, "frames"),
        ):
            with pytest.raises(ConfigError, match=error):
                prepare(RunRequest("videopro", options, "pocket", backbone, unread))
        assert stub.seen == []
    # The server is away: what it records is needed before the questions.
    with pytest.raises(BackboneError):
        prepare(RunRequest("videopro", planner, "pocket", {"retries": 0}, unread))


def test_nothing_is_loaded_and_of_a_callers_own_model_nothing_is_needed() -> None:
    run = prepared("videopro", {}, model="nowhere", backbone={"own": 1}, load=unloaded)
    assert run.needs() == []
    with pytest.raises(AssertionError, match="the model was loaded"):
        run.load()


def test_the_shipped_planner_is_loaded_and_needed() -> None:
    run = prepared("adaptive", {})
    assert run.load.func is load_backbone  # type: ignore[attr-defined]
    assert run.backbone == {"adapter": "pocket-sft"}
    model, adapter, *parts = run.needs()
    assert model.subject.startswith("model ")
    assert adapter.subject == f"adapter {adapter_dir('pocket-sft')}"
    assert parts[-1].subject == "sandbox"
    assert [note.split(":")[0] for note in run.notes] == ["planner"]


def test_prompts_whose_file_is_gone_are_those_that_the_run_recorded(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(PROMPTS))
    given = {"prompts": str(file)}
    begun = prepared("program", given)
    # Workers get the texts, even if the file changes meanwhile.
    assert begun.options["prompts"] == PROMPTS
    file.unlink()
    resumed = prepared("program", given, recorded=begun.identity)
    assert resumed.identity == begun.identity
    assert any("the run goes on with those that it recorded" in note for note in resumed.notes)
    with pytest.raises(ConfigError, match=r"p\.yaml: cannot be read"):
        prepared("program", given)


def test_a_command_says_what_helps_with_open_questions() -> None:
    some = Questions(Protocol(ROBUST), open=2)
    with pytest.raises(ConfigError, match=r"only; 2 of these questions are open: use --method native"):
        prepared("lvagent", {"agents": ["a", "b"]}, some)
    asked = Questions(Protocol(ROBUST), open=1, remedy="give --choices")
    with pytest.raises(ConfigError, match=r"^planner 'pocket-teacher' writes .* only; give --choices$"):
        prepared("program", {"planner": "pocket-teacher"}, asked)
