"""Synthesis of a small world: hand-made records, questions about colours that the backbone answers rightly,
unsurely and wrongly in turn (`load_moody`), what a teacher replies (`teach`), behind a stub server (`stub`),
and a whole synthesis that was made once (`made`).

`flags` and `start` are the command line; `python -m tests.support.synthesis ARGS` is it with `load_moody`.
"""

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

from tests.support import benchmark_world
from tests.support.colours import ColourBackbone, change_questions, make_benchmark
from tests.support.stub_server import StubServer, completion, text_of
from videopro.data_synthesis.run import main
from videopro.modules import library as module_library
from videopro.modules.calls import CallCache
from videopro.question import Answer
from videopro.traces import SCHEMA, Execution, Failure, Round, Trace, VideoRef

PARTS = ("encoder", "text-encoder", "ocr", "detector", "tracker")
NO_MODELS = [word for part in PARTS for word in (f"--{part}", "none")]
CHOICES = ("red", "green", "blue", "grey")


def code(number: int = 2) -> str:
    """A program of several steps; another number is another program."""
    return (
        "def execute_command(video, question):\n"
        f"    frames = extract_frames(video, num_frames={number})\n"
        "    return query_mc(frames, question, choices)"
    )


def written(program: str, planning: str = "Look at frames.") -> str:
    return f"<planning>\n{planning}\n</planning>\n<code>\n{program}\n</code>"


def answered(letter: str | None, confidence: float) -> Execution:
    status: Any = "ok" if letter is not None else "empty"
    return Execution(status, Answer(letter, confidence if letter is not None else 0.0, raw=letter or ""))


def crashed(log: str = "NameError: no frames (line 2)", type: str = "NameError") -> Execution:
    return Execution("failed", error=Failure(type, "no frames", 2, log))


def native(letter: str | None, confidence: float) -> Round:
    execution = answered(letter, confidence)
    return Round("native", execution.answer.raw, execution=execution, mode="native")


def program(
    execution: Execution | None,
    number: int = 2,
    *,
    kind: str = "plan_program",
    raw: str | None = None,
    text: str | None = None,
    mode: Any = "program",
    **more: Any,
) -> Round:
    """A round of a program; `text` its code, `raw` the whole reply."""
    own = code(number) if text is None else text
    whole = written(own) if raw is None else raw
    return Round(kind, whole, own, execution, mode, **more)


def record(*rounds: Round, gold: str | None = "A", **changes: Any) -> Trace:
    about: dict[str, Any] = {
        "schema": SCHEMA,
        "run_key": "key",
        "question_id": "q1",
        "gold": gold,
        "choices": CHOICES,
    }
    about |= {"video": VideoRef("/videos/v.mp4", "v", "content", 60.0), "question": "Which colour is shown?"}
    about |= {"groups": {"family": "attribute", "duration": "long"}}
    return Trace(rounds, **{**about, **changes})


# ---- a world for whole runs -------------------------------------------------------------------------------


def load_moody(model: str, **settings: Any) -> ColourBackbone:
    """Right with 0.9, but of a question with "(1)" in its text it is unsure (0.4) and of one with "(2)" wrong
    (0.8), when it looks at as many frames as it can: as natively."""
    return ColourBackbone(model, moods={"(1)": (0, 0.4), "(2)": (1, 0.8)}, **settings)


def make_questions(root: Path, videos: int = 3, questions: int = 3) -> None:
    """`make_benchmark` with every stated answer right."""
    right = make_benchmark(root, videos=videos, questions=questions)
    change_questions(root, lambda record: {"answer": right[record["id"]]})


BROKEN = written(code(2).replace("frames, question", "clips, question"))
"""NameError."""
LIKE_NATIVE = written(
    "def execute_command(video, question):\n"
    "    frames = trim_frames(video, 0, duration, num_frames=4)\n"
    "    return query_mc(frames, question, choices)"
)
"""As wrong and as unsure as the native answer."""
RIGHT = written(code(2))
NO_FORM = "I would look at the video, and then answer."


def teach(prompt: str, seed: int) -> str:
    """What the teacher of these tests writes: its refinements are right, of its first programs a part."""
    if "program:\n<code>" in prompt:
        return RIGHT
    return (BROKEN, LIKE_NATIVE, RIGHT, NO_FORM)[seed % 4]


# ---- runs of it, and what they leave ---------------------------------------------------------------------

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


def start(root: Path, output: Path, stub: StubServer, *more: str) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.synthesis", *flags(root, output, stub, *more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
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
    """A record of CG-Bench's shape."""
    usual = {"video_uid": "abcDEF-1_xy", "answer": "a crate"}
    return {**benchmark_world.cg(7, [[10, 14.5], [60, 71]], "B"), **usual, **changes}


def write_cg(folder: Path, *records: Any, name: str = "cgbench.json") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(list(records)))
    return folder


if __name__ == "__main__":
    sys.exit(main(load=load_moody))
