"""Text of servers and models: lone surrogates make nothing fail, and a terminal obeys nothing."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.numbered import ReadingBackbone, library
from tests.support.stub_server import StubServer, completion, entry
from videopro.backbones import BackboneConfig
from videopro.backbones.base import ChoiceRequest
from videopro.backbones.server import ServerBackbone
from videopro.modules.models.ocr import _regions
from videopro.question import Question
from videopro.storage import printable, without_commands

HALF = "\ud800"


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("größer 大きい 🙂", "größer 大きい 🙂"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[1;1Hno", "no"),
        ("\x1b]0;title\x07no", "no"),
        ("\x1b]8;;http://evil/\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "red"),
        ("\x1bPdata\x1b\\no", "no"),
        ("over\rwritten\x08\x00", "over written"),
        ("\u202egnp.exe\u2066", "gnp.exe"),
        ("a\u00a0b\u200bc", "a bc"),
        ("\ud83d no", "\ufffd no"),
        ("unfinished \x1b[3", "unfinished 3"),
    ],
)
def test_what_a_terminal_would_obey_is_left_out(text: str, shown: str) -> None:
    assert without_commands(text) == shown
    assert printable(text, 100) == shown


def test_a_message_has_one_line_of_bounded_length() -> None:
    assert without_commands("one\ntwo\r\n\tthree") == "one\ntwo\n\tthree"
    assert printable("one\ntwo\r\n\tthree", 100) == "one two three"
    assert printable("x" * 500, 10) == "x" * 10 + "..."
    assert printable("\x1b[0m" * 1_000_000 + "x", 10) == ""
