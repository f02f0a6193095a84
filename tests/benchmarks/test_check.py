"""videopro benchmarks check --open: what opening the files shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.fakes import make_video
from videopro.commands.benchmarks.command import main as benchmarks


def check(folder: Path, evidence: dict[str, object], *flags: str) -> int:
    """Check a folder with a video of 10 s, and a question for each evidence."""
    make_video(folder / "v.mp4", "red", seconds=10.0)
    lines = [
        {"id": name, "video": "v.mp4", "question": "Which?", "choices": ["a", "b"], "evidence": intervals}
        for name, intervals in evidence.items()
    ]
    (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return benchmarks(["check", "jsonl", "--root", str(folder), *flags])


def test_evidence_past_the_end_is_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence: dict[str, object] = {
        "after": [[100.0, 105.5]],
        "across": [[1.0, 2.0], [8.0, 12.0]],
        "at the end": [[10.0, 10.5]],
        "within": [[0.0, 10.0]],
        # Whole seconds of a video of 9.6 s, say.
        "rounded": [[4.0, 10.9]],
    }
    assert check(tmp_path, evidence, "--open") == 2
    said = capsys.readouterr().out
    assert "evidence past the end of the video: 3" in said
    assert (
        "question after: its evidence 100 to 105.5 s ends after v.mp4 (10.00 s); correct the interval" in said
    )
    assert "question across: its evidence 8 to 12 s ends after v.mp4 (10.00 s)" in said
    assert "question at the end: its evidence 10 to 10.5 s ends" in said
    assert "not complete" in said
    # Without opening the file its length is not known.
    assert check(tmp_path, evidence) == 0


def test_evidence_within_the_video_is_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, {"q": [[0.0, 10.0]]}, "--open") == 0
    assert capsys.readouterr().out.endswith("complete\n")
