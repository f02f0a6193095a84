"""Runs against servers: what one lacks is told everywhere, and a planner's is killed and started again."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.colours import root as root
from tests.support.scenes import NATIVE, NO_MODELS
from tests.support.stub_server import StubServer, completion, entry, text_of
from videopro.commands.infer import main

QUESTIONS = 6


def ask(folder: Path, output: Path, server: StubServer, *more: str) -> int:
    """Run over the first questions, with a model of the server."""
    asked = ["--benchmark", "jsonl", "--root", str(folder), "--limit", str(QUESTIONS)]
    given = ["--output", str(output), "--model", f"server:served@{server.url}", "--in-flight", "1"]
    return main([*asked, *given, "--backbone", "frames=2", "pixels=1024", *more])


class KilledPlanner(StubServer):
    """Writes programs, and dies on the fourth request for one. `comes_back`: seconds until it is there
    again; None: only when `is_down` is set to False."""

    def __init__(self, comes_back: float | None) -> None:
        super().__init__(self._write, models=[{"id": "planner", "owned_by": "stub"}])
        self._comes_back = comes_back
        self._asked = 0

    def _write(self, body: dict[str, Any]) -> Any:
        if "execute_command" in text_of(body):
            with self.lock:
                self._asked += 1
                dies = self._asked == 4
            if dies:
                self.is_down = True
                if self._comes_back is not None:
                    threading.Timer(self._comes_back, setattr, (self, "is_down", False)).start()
        return completion(NATIVE, [entry("a", -0.1)])


def plan(folder: Path, output: Path, base: StubServer, planner: StubServer, retries: int) -> int:
    written = ["--planner", f"server:planner@{planner.url}", "--planner-frames", "0"]
    options = ["--options", "planner_prompt=short", "max_parallel=1", *NO_MODELS]
    return ask(folder, output, base, f"retries={retries}", "--method", "adaptive", *written, *options)


def complete(output: Path) -> None:
    lines = [json.loads(line) for line in (output / "traces.jsonl").read_text().splitlines()]
    assert len({line["question_id"] for line in lines}) == QUESTIONS
    assert [line["error"] for line in lines] == [None] * QUESTIONS


@pytest.mark.kills
def test_the_run_ends_and_the_same_command_goes_on(
    root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with StubServer() as base, KilledPlanner(None) as planner:
        assert plan(root, tmp_path, base, planner, retries=0) == 2
        said = capfd.readouterr().err
        # As often as the command says, not as often as by default.
        for text in ("planner server:planner: server", "cannot be reached", "re-run the same command"):
            assert text in said
        assert len((tmp_path / "traces.jsonl").read_text().splitlines()) == 3
        # Started again without what it had loaded while it ran.
        planner.is_down, offered = False, planner.models
        planner.models = [{"id": "base", "owned_by": "stub"}]
        assert plan(root, tmp_path, base, planner, retries=0) == 2
        said = capfd.readouterr().err
        assert "no model 'planner'; it offers: base" in said
        assert "--lora-modules NAME=FOLDER" in said
        planner.models = offered
        assert plan(root, tmp_path, base, planner, retries=0) == 0
    complete(tmp_path)


def test_a_patient_run_waits_for_it(root: Path, tmp_path: Path) -> None:
    with StubServer() as base, KilledPlanner(1.0) as planner:
        assert plan(root, tmp_path, base, planner, retries=8) == 0
    complete(tmp_path)
