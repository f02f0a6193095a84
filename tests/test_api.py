"""The names that `videopro` exports: asking, following a question, running a benchmark, reading a run."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import videopro
from tests.support.colours import COLOURS, ColourBackbone, load_fake, make_benchmark, make_video
from tests.support.scenes import OPTIONS
from videopro import Cancellation, Cancelled, VideoPro
from videopro.errors import ConfigError, QuestionError, RunError, VideoError
from videopro.methods import QuestionFailed

PROGRAM = """
def execute_command(video, question):
    frames = extract_frames(video, num_frames=2)
    return query_mc(frames, question, choices)
"""


@pytest.fixture(scope="module")
def blue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("api") / "blue.mp4"
    make_video(path, "blue")
    return path


@pytest.fixture(scope="module")
def loaded() -> ColourBackbone:
    return ColourBackbone("m")


@pytest.fixture
def native(loaded: ColourBackbone) -> VideoPro:
    return VideoPro("m", "native", load=lambda model, **settings: loaded)


def child(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(code)
    return subprocess.run([sys.executable, "script.py"], cwd=folder, capture_output=True, text=True)


def test_an_import_takes_no_library_and_every_name_is_there(tmp_path: Path) -> None:
    code = "import sys, videopro\nprint(sorted({'torch', 'numpy', 'av'} & set(sys.modules)))\n"
    assert child(tmp_path, code).stdout == "[]\n"
    assert len(videopro.__all__) == 10
    assert all(getattr(videopro, name) is not None for name in videopro.__all__)
    assert set(videopro.__all__) <= set(dir(videopro))
    with pytest.raises(AttributeError, match="no attribute 'VideoPrO'"):
        videopro.VideoPrO  # type: ignore[attr-defined]  # noqa: B018


def test_a_choice_and_an_answer_in_words(native: VideoPro, blue: Path) -> None:
    answer = native.ask(blue, "Which colour?", ["A. red", "B. blue", "C. green"])
    assert (answer.letter, answer.choice, answer.confidence) == ("B", "blue", pytest.approx(0.9))
    assert answer.probabilities["A"] == pytest.approx(0.02)
    assert answer.evidence[0]["kind"] == "frames"
    assert "trace" not in repr(answer)  # which would fill the terminal
    assert answer.trace.choices == ("red", "blue", "green")
    assert answer.program is None
    # Letter by letter, a string is a sequence of choices too.
    with pytest.raises(QuestionError, match="pass a list"):
        native.ask(blue, "Which colour?", "red")
    words = native.ask(str(blue), "What is [red] here?")
    assert (words.letter, words.choice) == (None, None)
    assert words.text.startswith("I read: What is [red] here?")


def test_a_program_is_in_the_answer_and_its_calls_among_the_events(blue: Path, tmp_path: Path) -> None:
    (tmp_path / "plan.py").write_text(PROGRAM)
    options = {**OPTIONS, "planner": f"file:{tmp_path / 'plan.py'}"}
    with VideoPro("m", "program", options=options, load=load_fake) as ready:
        answer = ready.ask(blue, "Which colour?", COLOURS)
        assert answer.letter == "C"
        assert answer.program.strip() == PROGRAM.strip()
        told: list[dict[str, Any]] = list(ready.events(blue, "Which colour?", COLOURS))
    kinds = [event["type"] for event in told if event["type"] != "wait"]
    assert kinds == ["reply", "call", "call", "execution", "evidence", "answer"]
    assert told[-1]["letter"] == "C"


def test_a_question_has_a_budget_of_its_own(blue: Path, tmp_path: Path) -> None:
    look = PROGRAM.replace("    return", "    query_yn(frames, 'Is it day?')\n    return")
    (tmp_path / "two.py").write_text(look)
    options = {**OPTIONS, "planner": f"file:{tmp_path / 'two.py'}"}
    ready = VideoPro("m", options=options, load=lambda model, **settings: ColourBackbone("m"))
    within = ready.ask(blue, "Which colour is that?", COLOURS, calls=1)
    # The one call is kept back for the direct answer.
    assert [each.prompt_kind for each in within.trace.rounds] == ["plan", "fallback"]
    assert (within.choice, within.trace.cost.calls) == ("blue", 1)
    assert ready.ask(blue, "Which colour is that?", COLOURS, calls=2).program is not None
    assert ready.ask(blue, "Which colour is that?", COLOURS).program is not None
    with pytest.raises(ConfigError, match=r"seconds is -1"):
        ready.ask(blue, "Which colour is that?", COLOURS, seconds=-1)


def test_subtitles_are_read_where_they_are_named(native: VideoPro, blue: Path, tmp_path: Path) -> None:
    (tmp_path / "a.srt").write_text("1\n00:00:00,500 --> 00:00:01,000\nhello there\n")
    assert "hello there" in native.ask(blue, "What is [red]?", subtitles=tmp_path / "a.srt").text
    assert "hello there" not in native.ask(blue, "What is [red]?").text


def test_a_question_without_an_answer(native: VideoPro, blue: Path) -> None:
    with pytest.raises(QuestionFailed, match="cannot serve this request") as failed:
        native.ask(blue, "Which? (refuse)", COLOURS)
    assert failed.value.failure.type == "BackboneError"
    last = list(native.events(blue, "Which? (refuse)", COLOURS))[-1]
    assert (last["type"], last["error"]["type"]) == ("error", "BackboneError")


def test_mistakes_are_told_before_anything_is_answered(native: VideoPro, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nativ"):
        VideoPro("m", "nativ", load=load_fake)
    with pytest.raises(VideoError, match=r"none\.mp4"):
        native.ask(tmp_path / "none.mp4", "Which?", COLOURS)
    with pytest.raises(VideoError, match=r"none\.mp4"):
        list(native.events(tmp_path / "none.mp4", "Which?", COLOURS))
    with pytest.raises(RunError, match="contains no run"):
        videopro.read_run(tmp_path)


def test_a_question_is_cancelled_from_another_thread_and_by_closing_its_events(blue: Path) -> None:
    slow = ColourBackbone("m", is_concurrent=True)
    with VideoPro("m", "native", load=lambda model, **settings: slow) as ready:
        cancellation = Cancellation()

        def cancel() -> None:
            slow.begun.acquire()
            cancellation.cancel()

        threading.Thread(target=cancel).start()
        with pytest.raises(Cancelled):
            ready.ask(blue, "Which? (slow)", COLOURS, cancellation=cancellation)
        events = ready.events(blue, "Which? (slow)", COLOURS)
        next(events)
        slow.begun.acquire()
        events.close()
        slow.go_on.set()
        assert ready.ask(blue, "Which colour?", COLOURS).letter == "C"


def test_threads_ask_at_once_with_one_model(blue: Path) -> None:
    loads = []

    def load(model: str, **settings: Any) -> ColourBackbone:
        loads.append(model)
        return ColourBackbone(model)

    with VideoPro("m", "native", load=load) as ready, ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(ready.ask, blue, f"Which colour, {n}?", COLOURS) for n in range(8)]
        assert [each.result().letter for each in asked] == ["C"] * 8
    assert loads == ["m"]


def test_a_benchmark_is_run_and_read_and_the_same_call_goes_on(tmp_path: Path) -> None:
    make_benchmark(tmp_path / "data", videos=1)
    settings = {"root": tmp_path / "data", "model": "m", "method": "native", "load": load_fake}
    run = videopro.run("jsonl", output=tmp_path / "run", **settings)
    rows = run.rows()
    assert len(rows) == 3
    assert run.summary["accuracy"] == sum(row["correct"] for row in rows) / 3
    assert run.settings["model"] == "m"
    assert videopro.run("jsonl", output=tmp_path / "run", **settings).rows() == rows
    assert videopro.read_run(tmp_path / "run").summary == run.summary
    with pytest.raises(ConfigError, match=r"run\(\): unknown setting 'limits'"):
        videopro.run("jsonl", output=tmp_path / "run", limits=3, **settings)


def test_a_child_does_not_run_the_callers_script_again(tmp_path: Path) -> None:
    """One without `if __name__ == "__main__"`."""
    done = child(
        tmp_path,
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from videopro.startup import OwnFunctions\n"
        "print('once', flush=True)\n"
        "print(ProcessPoolExecutor(1, mp_context=OwnFunctions()).submit(len, 'abc').result())\n",
    )
    assert done.stdout == "once\n3\n"
