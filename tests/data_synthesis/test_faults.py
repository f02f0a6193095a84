"""What goes wrong in synthesis: broken videos, a teacher that dies or refuses, invalid settings and
folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.infer_world import rewrite
from tests.support.stub_server import StubFault, StubServer, text_of
from tests.support.synthesis_runs import KEY, datasets, flags, rows
from tests.support.synthesis_runs import own_world as own_world
from tests.support.synthesis_runs import root as root
from tests.support.synthesis_runs import stub as stub
from tests.support.synthesis_world import load_moody, make_questions
from videopro.data_synthesis.run import main


def test_a_broken_video_is_recorded_and_can_be_fixed(tmp_path: Path, stub: StubServer) -> None:
    b, out = tmp_path / "b", tmp_path / "out"
    make_questions(b, videos=2, questions=1)
    whole = (b / "videos" / "v0.mp4").read_bytes()
    (b / "videos" / "v0.mp4").write_bytes(b"no video" * 100)
    assert main(flags(b, out, stub), load=load_moody) == 0
    card = json.loads((out / "card.json").read_text())
    assert card["questions"]["without a result"] == {"VideoError": 1}
    assert card["rejected"]["question: VideoError"] == 1
    assert {row["question_id"] for row in rows(out, "sft.jsonl")} == {"v1q0"}
    (b / "videos" / "v0.mp4").write_bytes(whole)
    assert main(flags(b, out, stub, "--redo-errors"), load=load_moody) == 0
    assert {row["question_id"] for row in rows(out, "grpo.jsonl")} == {"v0q0", "v1q0"}


def test_an_exception_that_nobody_foresaw_costs_its_question(tmp_path: Path, stub: StubServer) -> None:
    b, out = tmp_path / "b", tmp_path / "out"
    make_questions(b, videos=2, questions=1)
    rewrite(b, "v0q0", "What is it? (bug)")
    assert main(flags(b, out, stub), load=load_moody) == 0
    card = json.loads((out / "card.json").read_text())
    assert card["questions"]["without a result"] == {"NativeError": 1}
    assert {row["question_id"] for row in rows(out, "sft.jsonl")} == {"v1q0"}
    assert "on purpose" in (out / "work" / "exceptions" / "ZeroDivisionError.txt").read_text()


def test_a_teacher_that_dies_loses_no_work(
    root: Path, tmp_path: Path, stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert main(flags(root, whole, stub), load=load_moody) == 0
    needed = len(stub.chats)
    stub.seen.clear()
    usual = stub.reply
    stub.reply = lambda body: StubFault(401, {}) if len(stub.chats) > 25 else usual(body)
    assert main(flags(root, out, stub, "--videos", "1"), load=load_moody) == 2
    error = capsys.readouterr().err
    assert "refused the key in the environment variable TEACHER_KEY" in error
    assert KEY not in error
    assert rows(out, "records.jsonl")
    stub.reply = usual
    asked = len(stub.chats)
    assert main(flags(root, out, stub), load=load_moody) == 0
    assert datasets(out) == datasets(whole)
    assert len(stub.chats) - asked == needed - 25, "what was answered before is not asked again"


def test_a_teacher_is_tried_as_often_as_the_settings_say(
    root: Path, tmp_path: Path, stub: StubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.reply = lambda body: StubFault(503, {})
    given = ("--backbone", "retries=0")
    # The backbone itself is no server here.
    assert main(flags(root, tmp_path / "out", stub, *given), load=lambda model, **_: load_moody(model)) == 2
    assert "failed with status 503" in capsys.readouterr().err


def test_questions_that_the_teacher_refuses_are_counted_and_can_be_asked_again(
    tmp_path: Path, stub: StubServer
) -> None:
    b, out = tmp_path / "b", tmp_path / "out"
    make_questions(b, videos=1, questions=2)
    usual = stub.reply

    def picky(body: dict[str, Any]) -> Any:
        return StubFault(400, {"error": {"message": "too long"}}) if "(1)" in text_of(body) else usual(body)

    stub.reply = picky
    assert main(flags(b, out, stub), load=load_moody) == 0
    card = json.loads((out / "card.json").read_text())
    assert card["questions"]["without a result"] == {"BackboneError": 1}
    assert card["teacher"]["refused"] >= 4
    stub.reply = usual
    assert main(flags(b, out, stub, "--redo-errors"), load=load_moody) == 0
    assert {row["question_id"] for row in rows(out, "grpo.jsonl")} == {"v0q0", "v0q1"}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (("--teacher", "self"), "neither the model itself nor one program"),
        (("--teacher", "api:m@https://user:key@host/v1"), "--api-key-env"),
        (("--teacher", "api:m@https://host/v1?key=1"), "--api-key-env"),
        (("--programs=-1",), "programs is -1"),
        (("--tau", "1.5"), "tau is 1.5"),
        (("--max-cost", "3"), "--price-in and --price-out"),
        (("--price-in", "3"), "give both"),
        (("--limit", "0"), "limit is 0"),
        (("--without-family", "evne"), "did you mean 'even'"),
        (("--evaluation", "maybe"), 'Choose from: "refuse", "skip"'),
        (("--souce", "x"), "did you mean '--source'"),
    ],
)
def test_invalid_settings_are_refused(
    root: Path,
    tmp_path: Path,
    stub: StubServer,
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    expected: str,
) -> None:
    assert main(flags(root, tmp_path / "out", stub, *more), load=load_moody) == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert stub.chats == []


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
