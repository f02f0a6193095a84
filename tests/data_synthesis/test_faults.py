"""What goes wrong in synthesis: broken videos, a teacher that dies or refuses, unrelated folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.colours import rewrite
from tests.support.stub_server import StubFault, StubServer, text_of
from tests.support.synthesis import KEY, Made, datasets, flags, load_moody, make_questions, rows, usual
from videopro.data_synthesis.run import main


def small(folder: Path, videos: int, questions: int) -> Path:
    make_questions(folder / "b", videos=videos, questions=questions)
    return folder / "b"


def asked(folder: Path, name: str = "grpo.jsonl") -> set[str]:
    return {row["question_id"] for row in rows(folder, name)}


def without_result(folder: Path) -> dict[str, int]:
    return dict(json.loads((folder / "card.json").read_text())["questions"]["without a result"])


def test_a_broken_video_is_recorded_and_can_be_fixed(tmp_path: Path, stub: StubServer) -> None:
    b, out = small(tmp_path, 2, 1), tmp_path / "out"
    whole = (b / "videos" / "v0.mp4").read_bytes()
    (b / "videos" / "v0.mp4").write_bytes(b"no video" * 100)
    assert main(flags(b, out, stub), load=load_moody) == 0
    assert without_result(out) == {"VideoError": 1}
    assert json.loads((out / "card.json").read_text())["rejected"]["question: VideoError"] == 1
    assert asked(out, "sft.jsonl") == {"v1q0"}
    (b / "videos" / "v0.mp4").write_bytes(whole)
    assert main(flags(b, out, stub, "--redo-errors"), load=load_moody) == 0
    assert asked(out) == {"v0q0", "v1q0"}


def test_an_exception_that_nobody_foresaw_costs_its_question(tmp_path: Path, stub: StubServer) -> None:
    b, out = small(tmp_path, 2, 1), tmp_path / "out"
    rewrite(b, "v0q0", "What is it? (bug)")
    assert main(flags(b, out, stub), load=load_moody) == 0
    assert without_result(out) == {"NativeError": 1}
    assert asked(out, "sft.jsonl") == {"v1q0"}
    assert "on purpose" in (out / "work" / "exceptions" / "ZeroDivisionError.txt").read_text()


def test_a_teacher_that_dies_loses_no_work(
    root: Path, tmp_path: Path, stub: StubServer, made: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    stub.reply = lambda body: StubFault(401, {}) if len(stub.chats) > 25 else usual(body)
    assert main(flags(root, out, stub, "--videos", "1"), load=load_moody) == 2
    error = capsys.readouterr().err
    assert "refused the key in the environment variable TEACHER_KEY" in error
    assert KEY not in error
    assert rows(out, "records.jsonl")
    stub.reply = usual
    sent = len(stub.chats)
    assert main(flags(root, out, stub), load=load_moody) == 0
    assert datasets(out) == datasets(made.folder)
    assert len(stub.chats) - sent == len(made.chats) - 25, "what was answered before is not asked again"


def test_the_settings_of_the_backbone_are_not_the_teachers(
    root: Path, tmp_path: Path, stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.reply = lambda body: StubFault(503, {})
    words = flags(root, tmp_path / "out", stub, "--backbone", "retries=0", "--limit", "1")
    assert main(words, load=lambda model, **_: load_moody(model)) == 2
    assert "failed with status 503" in capsys.readouterr().err


def test_questions_that_the_teacher_refuses_are_counted_and_can_be_asked_again(
    tmp_path: Path, stub: StubServer
) -> None:
    b, out = small(tmp_path, 1, 2), tmp_path / "out"

    def picky(body: dict[str, Any]) -> Any:
        return StubFault(400, {"error": {"message": "too long"}}) if "(1)" in text_of(body) else usual(body)

    stub.reply = picky
    assert main(flags(b, out, stub), load=load_moody) == 0
    assert without_result(out) == {"BackboneError": 1}
    assert json.loads((out / "card.json").read_text())["teacher"]["refused"] >= 4
    stub.reply = usual
    assert main(flags(b, out, stub, "--redo-errors"), load=load_moody) == 0
    assert asked(out) == {"v0q0", "v0q1"}


def test_an_unrelated_folder_is_refused(
    root: Path, tmp_path: Path, stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    assert main(flags(root, out, stub), load=load_moody) == 2
    assert "contains 'thesis.txt'" in capsys.readouterr().err
    (out / "thesis.txt").unlink()
    (out / "config.yaml").write_text(yaml.safe_dump({"identity": {"method": "native"}}))
    assert main(flags(root, out, stub, "--assemble-only"), load=load_moody) == 2
