"""Synthesis of a small world with a teacher behind a stub server, and what it leaves, for tests."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.stub_server import StubServer, completion, text_of
from tests.support.synthesis_world import NO_MODELS, load_moody, make_questions, teach
from videopro.data_synthesis.run import main
from videopro.modules import library as module_library
from videopro.modules.calls import CallCache

KEY = "sk-very-secret-key"


def enter_own_world(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setattr(module_library, "_cache", CallCache())
    patch.setenv("VIDEOPRO_CACHE", str(folder / "cache"))
    patch.setenv("NO_PROXY", "127.0.0.1")
    patch.setenv("TEACHER_KEY", KEY)


@pytest.fixture(autouse=True)
def own_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    enter_own_world(monkeypatch, tmp_path)


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three videos with three questions each: native answers are right, unsure and wrong in turn."""
    folder = tmp_path_factory.mktemp("colours")
    make_questions(folder)
    return folder


def said(text: str) -> dict[str, Any]:
    made = completion(text, None, prompt_tokens=100)
    made["usage"]["completion_tokens"] = 10
    return made


def usual(body: dict[str, Any]) -> dict[str, Any]:
    return said(teach(text_of(body), body["seed"]))


@pytest.fixture
def stub() -> Iterator[StubServer]:
    with StubServer(usual, key=KEY) as server:
        yield server


class Made(NamedTuple):
    """A whole synthesis, to be read only: its folder, what the teacher was sent, and what was printed."""

    folder: Path
    chats: list[dict[str, Any]]
    printed: str


@pytest.fixture(scope="session")
def made(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder, printed = tmp_path_factory.mktemp("made"), io.StringIO()
    prices = ("--price-in", "2.5", "--price-out", "10")
    with pytest.MonkeyPatch.context() as patch, StubServer(usual, key=KEY) as server:
        enter_own_world(patch, folder)
        with redirect_stdout(printed):
            assert main(flags(root, folder / "out", server, *prices), load=load_moody) == 0
        return Made(folder / "out", server.chats, printed.getvalue())


def flags(root: Path, output: Path, stub: StubServer, *more: str) -> list[str]:
    source = ["--source", "jsonl", "--root", str(root), "--model", "m", "--output", str(output)]
    teacher = ["--teacher", f"api:served@{stub.url}", "--api-key-env", "TEACHER_KEY"]
    return [*source, *teacher, *NO_MODELS, *more]


def start(root: Path, output: Path, stub: StubServer, *more: str) -> subprocess.Popen[bytes]:
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.synthesis_world", *flags(root, output, stub, *more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # Tests started in the background have Ctrl-C ignored, and so would the command.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def datasets(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "sft.jsonl").read_bytes(), (folder / "grpo.jsonl").read_bytes()


# ---- a small CG-Bench on disk ----------------------------------------------------------------------------


def cg(**changes: Any) -> dict[str, Any]:
    """A record of CG-Bench's shape; ours, as the research licence asks."""
    made = {
        "qid": 7,
        "video_uid": "abcDEF-1_xy",
        "question": "What does he lift?",
        "answer": "a crate",
        "choices": ["a bag", "a crate", "a chair", "a box", "a bin"],
        "right_answer": "B",
        "clue_intervals": [[10, 14.5], [60, 71]],
        "domain": "Life Record",
        "sub_category": "Entity Perception",
        "duration": 900,
    }
    return {**made, **changes}


def write_cg(folder: Path, *records: Any, name: str = "cgbench.json") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(list(records)))
    return folder
