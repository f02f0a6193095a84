"""The server of a planner is killed in the middle of a run, and started again."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import make_benchmark
from tests.support.method_world import NO_MODELS
from tests.support.reason_world import NATIVE
from tests.support.stub_server import StubServer, completion, entry, text_of
from videopro.commands.infer import main

QUESTIONS = 6


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


def run(root: Path, output: Path, base: StubServer, planner: StubServer, retries: int) -> int:
    words = ["--benchmark", "jsonl", "--root", str(root), "--limit", str(QUESTIONS), "--output", str(output)]
    words += ["--model", f"server:served@{base.url}", "--method", "adaptive", "--in-flight", "1"]
    words += ["--backbone", "frames=2", "pixels=1024", f"retries={retries}"]
    words += ["--planner", f"server:planner@{planner.url}", "--planner-frames", "0"]
    return main([*words, "--options", "planner_prompt=short", "max_parallel=1", *NO_MODELS])


def complete(output: Path) -> None:
    lines = [json.loads(line) for line in (output / "traces.jsonl").read_text().splitlines()]
    assert len({line["question_id"] for line in lines}) == QUESTIONS
    assert [line["error"] for line in lines] == [None] * QUESTIONS


@pytest.mark.kills
def test_the_run_ends_and_the_same_command_goes_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root, output = tmp_path / "colours", tmp_path / "run"
    make_benchmark(root)
    with StubServer() as base, KilledPlanner(None) as planner:
        assert run(root, output, base, planner, retries=0) == 2
        said = capfd.readouterr().err
        # As often as the command says, not as often as by default.
        assert "planner server:planner: server" in said
        assert "cannot be reached" in said
        assert "re-run the same command to resume" in said
        assert len((output / "traces.jsonl").read_text().splitlines()) == 3
        # Started again without what it had loaded while it ran.
        planner.is_down, offered = False, planner.models
        planner.models = [{"id": "base", "owned_by": "stub"}]
        assert run(root, output, base, planner, retries=0) == 2
        said = capfd.readouterr().err
        assert "no model 'planner'; it offers: base" in said
        assert "--lora-modules NAME=FOLDER" in said
        planner.models = offered
        assert run(root, output, base, planner, retries=0) == 0
    complete(output)


def test_a_patient_run_waits_for_it(tmp_path: Path) -> None:
    root, output = tmp_path / "colours", tmp_path / "run"
    make_benchmark(root)
    with StubServer() as base, KilledPlanner(1.0) as planner:
        assert run(root, output, base, planner, retries=8) == 0
    complete(output)
