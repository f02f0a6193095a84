"""The one call that prepares a run: what it checks in which order, and what workers get."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.stub_server import StubServer
from videopro.benchmarks import Item, Protocol
from videopro.benchmarks.base import ROBUST
from videopro.cli import is_setting
from videopro.errors import BackboneError, ConfigError
from videopro.methods import METHODS, PreparedRun, Questions, RunRequest, answer_each, create, prepare
from videopro.question import Answer, Question
from videopro.traces import Result

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
        ("program", {"prompts": PROMPTS}),
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


# How the key names a setting whose meaning, not its text, tells runs apart.
RENAMED = {"final": "final_answer", "team": "agents"}
CHANGE_NO_ANSWER = ("max_parallel", "api_key_env")


@pytest.mark.parametrize("name", METHODS)
def test_the_key_has_what_changes_answers_and_nothing_else_of_the_settings(name: str) -> None:
    identity = create(name, {"agents": ["self", "other"]} if name == "lvagent" else {}).identity()
    for option in fields(METHODS[name].Settings):
        says = option.metadata.get("answers")
        # Of methods that plan, a preset stands for values of settings that are in the key.
        stands_for_others = option.name == "preset" and "planner" in identity
        assert isinstance(says, bool) or not is_setting(option), option.name
        assert (says is False) == (option.name in CHANGE_NO_ANSWER or stands_for_others), option.name
        assert (RENAMED.get(option.name, option.name) in identity) == (says is not False), option.name


def test_an_exception_after_the_last_answer_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    items = [Item(name, Path("v.mp4"), "v", Question("Which?", ("red", "blue"))) for name in "ab"]

    def run_video(items: Sequence[Item], context: object) -> Iterator[tuple[Item, Result]]:
        for item in items:
            yield item, Result(final=Answer("A", 0.9, {}, "A"))
        raise KeyError("teardown")

    method: Any = SimpleNamespace(run_video=run_video)
    context: Any = object()
    assert [item.id for item, _ in answer_each(method, items, lambda: context)] == ["a", "b"]
    said = capsys.readouterr().err
    assert "questions without an answer yet: 0" in said
    assert "in run_video" in said
    assert "KeyError: 'teardown'" in said
