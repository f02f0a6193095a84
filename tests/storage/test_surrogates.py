"""Lone surrogates in text from outside: writing, tokenizing, sending and showing it does not fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.benchmark_runs import in_this_process as in_this_process
from tests.support.colours import check_complete, load_fake, make_benchmark
from tests.support.colours import flags as infer_flags
from tests.support.numbered import ReadingBackbone, library
from tests.support.stub_server import StubServer, completion, entry, text_of
from tests.support.synthesis import datasets, flags, load_moody, rows, said, teach
from tests.support.synthesis import own_world as own_world
from tests.support.synthesis import root as root
from tests.support.synthesis import stub as stub
from videopro.backbones import BackboneConfig
from videopro.backbones.base import ChoiceRequest
from videopro.backbones.server import ServerBackbone
from videopro.commands import infer
from videopro.commands.report import main as report
from videopro.data_synthesis.run import main
from videopro.modules.models.ocr import _regions
from videopro.question import Question

HALF = "\ud800"


def halved(reply: str) -> str:
    """A reply with a lone surrogate in its planning and in its code."""
    return reply.replace("Look at", f"Look{HALF} at").replace(
        "    frames", f"    note = '{HALF}'\n    frames"
    )


def test_a_teacher_that_writes_lone_surrogates_is_learned_from(
    root: Path, tmp_path: Path, stub: StubServer
) -> None:
    stub.reply = lambda body: said(halved(teach(text_of(body), body["seed"])))
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert main(flags(root, whole, stub), load=load_moody) == 0
    replies = [row["messages"][1]["content"] for row in rows(whole, "sft.jsonl")]
    assert any("\ufffd" in reply for reply in replies)
    assert len(rows(whole, "records.jsonl")) == 9
    asked, made = len(stub.chats), datasets(whole)
    assert main(flags(root, whole, stub), load=load_moody) == 0
    assert (len(stub.chats), datasets(whole)) == (asked, made)
    # An older run kept them as JSON escapes, and goes on.
    assert main(flags(root, out, stub, "--max-requests", "12", "--videos", "1"), load=load_moody) == 0
    for name in ("work/replies.jsonl", "records.jsonl"):
        kept = (out / name).read_text()
        assert "\\ud8" not in kept
        (out / name).write_text(kept.replace("\\ufffd", "\\ud800"))
    assert "\\ud800" in (out / "work" / "replies.jsonl").read_text()
    stub.seen.clear()
    assert main(flags(root, out, stub, "--max-requests", "1000"), load=load_moody) == 0
    assert datasets(out) == made
    assert len(stub.chats) == len(rows(out, "work/replies.jsonl")) - 12


def test_annotations_with_lone_surrogates_are_asked_and_reported(tmp_path: Path) -> None:
    bench, out = tmp_path / "b", tmp_path / "run"
    make_benchmark(bench, videos=1, questions=2)
    path = bench / "questions.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    asked = f"Which colour{HALF} is shown (0)?"
    records[0] |= {"id": f"q{HALF}", "question": asked, "groups": {"kind": HALF}}
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert infer.main(infer_flags(bench, out), load=load_fake) == 0
    written = {trace.question_id: trace.question for trace in check_complete(out, 2)}
    assert written["q\ufffd"] == "Which colour\ufffd is shown (0)?"
    assert report([str(out), "--output", str(tmp_path / "report")]) == 0


def test_a_server_that_writes_lone_surrogates(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a word, and as the token that it answered with."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    tokens = [entry("a", -0.1), {**entry("b", -0.2), "token": HALF}]
    with StubServer(lambda body: completion(f"a{HALF}", tokens)) as server:
        backbone = ServerBackbone(BackboneConfig(model="served", kind="server", base_url=server.url))
        assert backbone.generate(None, "Say something.").text == "a\ufffd"
        odd = {**entry("b", -0.2), "token": HALF, "top_logprobs": []}
        server.reply = lambda body: completion(HALF, [odd], finish="length")
        answer = backbone.answer_batch([ChoiceRequest(None, Question("Which?", ("a", "b")))])[0]
        assert (answer.letter, answer.raw) == (None, "\ufffd")
        backbone.close()


def test_a_program_that_asks_with_lone_surrogates() -> None:
    lib = library(ReadingBackbone(frames=8))
    call = lib.functions()
    frames = call["extract_frames"](lib.video, num_frames=2)
    call["query_mc"](frames, f"Which{HALF}?", [f"a{HALF}", "b"])
    call["query_frames"](frames, f"What{HALF}?", context=HALF)


def test_ocr_text_with_lone_surrogates() -> None:
    corners = np.array([[0, 0], [4, 0], [4, 2], [0, 2]])
    (region,) = _regions([(corners, f"a{HALF}", 0.5)], np.zeros((8, 8, 3)))
    assert region.text == "a\ufffd"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_console_with_a_small_character_set(tmp_path: Path, encoding: str) -> None:
    """A command shows text that its console cannot, and ends as it should."""
    program = """
import sys
from videopro.cli.process import exit_status
from videopro.errors.exceptions import RunError
from rich import print as show
with exit_status() as status:
    print('a \\U0001f600 \\ud800')
    show('b \\U0001f600')
    raise RunError('c \\U0001f600 \\ud800')
sys.exit(status.code)
"""
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, timeout=100)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert done.stdout.splitlines() == [b"a \\U0001f600 \\ud800", b"b \\U0001f600"]
    assert b"error: c \\U0001f600 \\ud800" in done.stderr
