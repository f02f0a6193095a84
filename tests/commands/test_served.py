"""Runs against a server: what it lacks is told on the terminal, in every trace and in the summary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import make_benchmark
from tests.support.stub_server import BadRequest, StubServer, letter
from videopro.commands.infer import main
from videopro.runs import RunFolder

REFUSED = (
    "Per-request media_io_kwargs are disabled by default. Start the server with --trust-request-mm-kwargs."
)


def refuses_times(body: dict[str, Any]) -> Any:
    if "media_io_kwargs" in body:
        raise BadRequest(REFUSED)
    return letter("A", [("A", -0.5)])


def test_a_missing_flag_is_in_the_summary(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make_benchmark(tmp_path / "colours")
    with StubServer(refuses_times, models=[{"id": "m", "owned_by": "vllm"}]) as stub:
        flags = [
            *("--benchmark", "jsonl", "--root", str(tmp_path / "colours"), "--limit", "3"),
            *("--model", f"server:m@{stub.url}", "--backbone", "frames=2", "pixels=1024"),
        ]
        assert main([*flags, "--output", str(tmp_path / "run")]) == 0
        said = capfd.readouterr()
        assert said.err.count(f"warning: server {stub.url}: frames are sent as pictures") == 1
        assert "start vLLM with --trust-request-mm-kwargs" in said.err
        summary = json.loads((tmp_path / "run" / "summary.json").read_text())
        ((note, count),) = summary["notes"].items()
        assert count == 3
        assert note.startswith("frames are sent as pictures")
        assert {trace.notes for trace in RunFolder(tmp_path / "run").read()} == {(note,)}
        # Who asks for a video gets one, or no run.
        assert main([*flags, "video=video", "--output", str(tmp_path / "no")]) == 2
        said = capfd.readouterr()
        assert "takes no video, and video=video asks for one" in said.err
        assert "start vLLM with --trust-request-mm-kwargs" in said.err
        assert not (tmp_path / "no").exists()
