"""Runs: what they record; kill -9, resuming, other numbers of workers and broken input lose nothing."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.fakes import load_fake, make_benchmark
from videopro.backbones import read_spec
from videopro.config import from_command_line
from videopro.infer import RunConfig, main, run
from videopro.methods import create
from videopro.runner.supervisor import place
from videopro.trace import Trace
from videopro.trace_log import read_traces

CONFIGS = Path(__file__).parent.parent / "configs" / "infer"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four videos with three questions each; the third question of each has a wrong gold answer."""
    folder = tmp_path_factory.mktemp("colours")
    make_benchmark(folder)
    return folder


def flags(root: Path, output: Path, *more: str) -> list[str]:
    return ["--benchmark", "jsonl", "--root", str(root), "--model", "m", "--output", str(output), *more]


def start(root: Path, output: Path, *more: str, **environment: str) -> subprocess.Popen[str]:
    """The command line in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.fakes", *flags(root, output, *more)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], status: int = 0) -> str:
    out, err = process.communicate(timeout=180)
    assert process.returncode == status, out + err
    return out + err


def lines(output: Path) -> int:
    try:
        return (output / "traces.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def wait_for(condition: object, seconds: float = 120.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def children(pid: int) -> list[int]:
    """Worker processes of a supervisor (Linux)."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
            command = (stat.parent / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == pid and b"spawn_main" in command:
            found.append(int(stat.parent.name))
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def check_complete(output: Path, questions: int = 12) -> list[Trace]:
    """Every question is there exactly once, each line whole."""
    raw = (output / "traces.jsonl").read_bytes()
    assert raw.endswith(b"\n")
    traces = [Trace.from_line(line) for line in raw.splitlines()]
    counts = Counter(trace.question_id for trace in traces)
    assert len(counts) == questions
    assert set(counts.values()) == {1}
    return traces


def test_a_run_and_what_it_records(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "deep" / "run"
    assert main(flags(root, output, "--options", "frames=3"), load=load_fake) == 0
    traces = {trace.question_id: trace for trace in check_complete(output)}
    # Colours from pixels, so every answer is the right one; two of three golds are stated rightly.
    summary = json.loads((output / "summary.json").read_text())
    assert summary["n"] == 12
    assert summary["accuracy"] == pytest.approx(8 / 12)
    assert summary["official_accuracy"] == pytest.approx(8 / 12)
    assert summary["unparsed"] == 0
    assert summary["coverage"] == 1.0
    low, high = summary["accuracy_ci95"]
    assert low <= 8 / 12 <= high
    assert {name: row["n"] for name, row in summary["groups"]["family"].items()} == {"even": 8, "odd": 4}
    assert summary["groups"]["family"]["odd"]["accuracy"] == 1.0
    assert summary["groups"]["family"]["even"]["accuracy"] == 0.5
    assert {name: row["n"] for name, row in summary["groups"]["duration"].items()} == {"short": 6, "long": 6}
    assert summary["seconds_per_question"] > 0

    trace = traces["v2q1"]
    assert trace.video.path == str(root / "videos/v2.mp4")
    assert trace.video.duration == pytest.approx(2.0)
    assert trace.video.id
    assert trace.choices == ("green", "blue", "grey", "red")
    assert trace.gold == "B"
    assert trace.final is not None
    assert (trace.final.letter, trace.final.confidence, trace.official) == ("B", 0.9, "B")
    assert trace.final == trace.first
    (one,) = trace.rounds
    assert one.execution is not None
    # Midpoints of three equal parts of 2 s: 1/3, 1 and 5/3 s; on display then: frames of 2/8, 8/8, 13/8 s.
    assert one.execution.calls[0].frames == ((0.25, 24, 32), (1.0, 24, 32), (1.625, 24, 32))
    total = [sum(getattr(t.cost, name) for t in traces.values()) for name in ("frames", "calls", "tokens_in")]
    assert total == pytest.approx([4 * 3, 12, 12 * 103])

    shown = capsys.readouterr().out
    assert "66.7" in shown
    assert str(output) in shown
    assert not (output / "work" / "leases").exists()


def test_config_file_makes_the_same_run(root: Path, tmp_path: Path) -> None:
    """What a run wrote as config.yaml starts it again; a flag overrides the file."""
    first = tmp_path / "first"
    assert main(flags(root, first, "--limit", "2", "--seed", "3"), load=load_fake) == 0
    config = first / "config.yaml"
    assert main(["--config", str(config), "--output", str(tmp_path / "second")], load=load_fake) == 0
    ids = [
        [t.question_id for t in read_traces(tmp_path / name / "traces.jsonl")] for name in ("first", "second")
    ]
    assert ids[0] == ids[1]
    keys = [
        yaml.safe_load((tmp_path / name / "config.yaml").read_text())["run_key"]
        for name in ("first", "second")
    ]
    assert keys[0] == keys[1]


def test_resume_adds_and_repeats_nothing(root: Path, tmp_path: Path) -> None:
    output, log = tmp_path / "run", tmp_path / "answers.txt"
    log.touch()
    asked = ("--backbone", f"log={log}")
    for limit, done in (("4", 4), ("4", 4), ("7", 7)):
        assert main(flags(root, output, "--limit", limit, *asked), load=load_fake) == 0
        assert lines(output) == done
        assert len(log.read_text().splitlines()) == done
    assert main(flags(root, output, *asked), load=load_fake) == 0
    check_complete(output)
    assert len(log.read_text().splitlines()) == 12
    assert json.loads((output / "summary.json").read_text())["n"] == 12


def test_ids(root: Path, tmp_path: Path) -> None:
    assert main(flags(root, tmp_path / "run", "--ids", "v3q2", "v0q1"), load=load_fake) == 0
    assert {t.question_id for t in read_traces(tmp_path / "run" / "traces.jsonl")} == {"v3q2", "v0q1"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("--options", "frames=2"), "method.frames: the run has None, this command 2"),
        (("--seed", "5"), "generation.seed: the run has 0, this command 5"),
        (("--backbone", "salt=x"), "model.salt: the run has '', this command 'x'"),
        (("--split", "val"), "protocol.split: the run has 'test', this command 'val'"),
    ],
)
def test_another_run_is_refused(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Sequence[str], told: str
) -> None:
    output = tmp_path / "run"
    assert main(flags(root, output, "--limit", "1"), load=load_fake) == 0
    before = {path: path.read_bytes() for path in output.glob("*.*")}
    capsys.readouterr()
    assert main(flags(root, output, "--limit", "2", *change), load=load_fake) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.startswith("error: ")
    assert {path: path.read_bytes() for path in output.glob("*.*")} == before


def test_changed_questions_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_benchmark(tmp_path / "b", videos=1)
    assert main(flags(tmp_path / "b", tmp_path / "run", "--limit", "1"), load=load_fake) == 0
    file = tmp_path / "b" / "questions.jsonl"
    file.write_text(file.read_text().replace("Which colour is shown (0)", "What colour is it"))
    assert main(flags(tmp_path / "b", tmp_path / "run"), load=load_fake) == 2
    assert "'v0q0' has another text" in capsys.readouterr().err


def test_a_broken_video_is_counted_and_can_be_mended(tmp_path: Path) -> None:
    root, output = tmp_path / "b", tmp_path / "run"
    make_benchmark(root, broken=[1])
    (root / "videos" / "v2.mp4").unlink()
    assert main(flags(root, output), load=load_fake) == 0
    errors = {t.question_id: t.error for t in check_complete(output) if t.error}
    assert set(errors) == {f"v{v}q{q}" for v in (1, 2) for q in range(3)}
    assert all(
        error.type == "VideoError" and "v1.mp4" in error.message for q, error in errors.items() if q[1] == "1"
    )
    summary = json.loads((output / "summary.json").read_text())
    assert (summary["n"], summary["coverage"], summary["errors"]) == (6, 0.5, {"VideoError": 6})
    assert summary["accuracy"] == pytest.approx(4 / 6)

    make_benchmark(root)
    assert main(flags(root, output), load=load_fake) == 0
    assert lines(output) == 12, "a recorded error is not tried again by itself"
    assert main(flags(root, output, "--redo-errors"), load=load_fake) == 0
    assert len(read_traces(output / "traces.jsonl")) == 12
    summary = json.loads((output / "summary.json").read_text())
    assert (summary["n"], summary["coverage"], summary["errors"]) == (12, 1.0, {})


SRT = """1
00:00:00,100 --> 00:00:00,300
<i>said early</i>

2
00:00:00,900 --> 00:00:01,100
said in the middle
"""


@pytest.mark.parametrize(
    ("how", "lines"),
    [("none", ""), ("frames", "said in the middle\n"), ("all", "said early\nsaid in the middle\n")],
)
def test_subtitles_reach_the_prompt(tmp_path: Path, how: str, lines: str) -> None:
    """One frame, at 1 s, so that "frames" takes the line that is on screen then, and not the other one."""
    make_benchmark(tmp_path / "b", videos=1, questions=2)
    (tmp_path / "b" / "a.srt").write_text(SRT)
    records = [json.loads(line) for line in (tmp_path / "b" / "questions.jsonl").read_text().splitlines()]
    records[0]["subtitles"] = "a.srt"
    (tmp_path / "b" / "questions.jsonl").write_text("\n".join(map(json.dumps, records)))
    log = tmp_path / "prompts.txt"
    more = ("--options", "frames=1", f"subtitles={how}", "--backbone", f"log={log}")
    assert main(flags(tmp_path / "b", tmp_path / "run", *more), load=load_fake) == 0
    first, second = map(ast.literal_eval, log.read_text().splitlines())
    assert first.startswith(lines + "Which colour is shown (0)?")
    assert second.startswith("Which colour is shown (1)?")
    notes = {t.question_id: t.notes for t in check_complete(tmp_path / "run", 2)}
    assert notes == {"v0q0": (), "v0q1": () if how == "none" else ("no subtitles listed",)}


def test_listed_subtitles_that_are_missing_are_an_error_of_that_question(tmp_path: Path) -> None:
    make_benchmark(tmp_path / "b", videos=1, questions=2)
    records = [json.loads(line) for line in (tmp_path / "b" / "questions.jsonl").read_text().splitlines()]
    records[0]["subtitles"] = "gone.srt"
    (tmp_path / "b" / "questions.jsonl").write_text("\n".join(map(json.dumps, records)))
    assert main(flags(tmp_path / "b", tmp_path / "run", "--options", "subtitles=all"), load=load_fake) == 0
    errors = {t.question_id: t.error for t in check_complete(tmp_path / "run", 2)}
    assert errors["v0q1"] is None
    assert errors["v0q0"] is not None
    assert errors["v0q0"].type == "SubtitleError"
    assert "gone.srt" in errors["v0q0"].message


def rewrite(root: Path, question_id: str, text: str) -> None:
    """Give one question another text."""
    records = [json.loads(line) for line in (root / "questions.jsonl").read_text().splitlines()]
    for record in records:
        if record["id"] == question_id:
            record["question"] = text
    (root / "questions.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def test_a_refused_request_is_one_questions_error(tmp_path: Path) -> None:
    make_benchmark(tmp_path / "b", videos=2)
    rewrite(tmp_path / "b", "v0q1", "What is it? (refuse)")
    rewrite(tmp_path / "b", "v1q0", "What is it? (mumble)")
    assert main(flags(tmp_path / "b", tmp_path / "run"), load=load_fake) == 0
    traces = check_complete(tmp_path / "run", 6)
    assert [(t.question_id, t.error.type) for t in traces if t.error] == [("v0q1", "BackboneError")]
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    # Right: v0q0 and v1q1. Wrong: the two golds stated wrongly, the refused one, the one without a letter.
    assert (summary["n"], summary["coverage"]) == (6, 1.0)
    assert summary["accuracy"] == pytest.approx(2 / 6)
    assert summary["unparsed"] == pytest.approx(1 / 6)


def test_a_backbone_that_is_gone_stops_the_run(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags(root, tmp_path / "run", "--backbone", "gone=true"), load=load_fake) == 2
    assert "serves no other request either" in capsys.readouterr().err
    assert lines(tmp_path / "run") == 0


def test_a_fault_of_ours_stops_the_run_with_its_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_benchmark(tmp_path / "b", videos=2)
    rewrite(tmp_path / "b", "v0q1", "What is it? (bug)")
    assert main(flags(tmp_path / "b", tmp_path / "run", "--workers", "2"), load=load_fake) == 1
    error = capsys.readouterr().err
    assert "ZeroDivisionError: a fault on purpose" in error
    assert not (tmp_path / "run" / "summary.json").exists()
    rewrite(tmp_path / "b", "v0q1", "Which colour is shown (1)?")
    assert main(flags(tmp_path / "b", tmp_path / "run"), load=load_fake) == 0
    check_complete(tmp_path / "run", 6)


def test_a_question_that_kills_its_worker(tmp_path: Path) -> None:
    """Three workers die of it, then it is recorded; the questions beside it are answered."""
    make_benchmark(tmp_path / "b", videos=2)
    rewrite(tmp_path / "b", "v0q1", "What is it? (kill)")
    text = finish(start(tmp_path / "b", tmp_path / "run"))
    assert text.count("another one takes its place") == 3
    traces = {t.question_id: t for t in check_complete(tmp_path / "run", 6)}
    error = traces.pop("v0q1").error
    assert error is not None
    assert error.type == "WorkerDied"
    assert "SIGKILL" in error.message
    assert all(t.error is None for t in traces.values())
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["n"] == 6


def test_kill_a_worker(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    process = start(root, output, "--workers", "2", "--backbone", "delay=0.1")
    wait_for(lambda: lines(output) > 0)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    assert "another one takes its place" in finish(process)
    assert all(trace.error is None for trace in check_complete(output))


def test_kill_everything_and_resume_with_other_workers(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    for workers, until in (("1", 2), ("3", 5)):
        process = start(root, output, "--workers", workers, "--backbone", "delay=0.15")
        wait_for(lambda until=until: lines(output) >= until)
        pids = children(process.pid)
        assert len(pids) == int(workers)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        wait_for(lambda pids=pids: not any(alive(pid) for pid in pids), 60)
        assert not (output / "summary.json").exists()
        with (output / "traces.jsonl").open("ab") as file:
            file.write(b'{"schema": 1, "run_k')
    text = finish(start(root, output, "--workers", "2", "--backbone", "delay=0.1"))
    assert "torn line" in text
    assert all(trace.error is None for trace in check_complete(output))
    assert json.loads((output / "summary.json").read_text())["n"] == 12


def test_interrupt_leaves_no_worker(root: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    process = start(root, output, "--workers", "2", "--backbone", "delay=0.1")
    wait_for(lambda: lines(output) > 0)
    pids = children(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    text = finish(process, status=130)
    assert "the same command goes on" in text
    assert "Traceback" not in text
    assert not any(alive(pid) for pid in pids)


def test_ranks_share_a_run_and_one_may_die(root: Path, tmp_path: Path) -> None:
    """As accelerate launch starts them: two ranks, one killed, the other goes on and does its questions."""
    output = tmp_path / "run"

    def rank(number: int) -> subprocess.Popen[str]:
        own = {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        return start(root, output, "--backbone", "delay=0.15", **own)

    ranks = [rank(0), rank(1)]
    wait_for(lambda: lines(output) > 1)
    os.kill(ranks[1].pid, signal.SIGKILL)
    ranks[1].communicate(timeout=60)
    text = finish(ranks[0])
    assert all(trace.error is None for trace in check_complete(output))
    assert "run folder" in text
    assert "run folder" not in finish(rank(1)), "only rank 0 reports"
    check_complete(output)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


BAD = [
    (["--model", "m", "--output", "run"], "'benchmark' is missing"),
    (["--benchmark", "poket", "--model", "m", "--output", "run"], "did you mean 'pocket'?"),
    (["--benchmark", "jsonl", "--model", "m", "--output", "run"], "needs --root"),
    (
        ["--benchmark", "jsonl", "--root", "none", "--model", "m", "--output", "run"],
        "folder none does not exist",
    ),
    (
        ["--benchmark", "jsonl", "--root", ".", "--model", "m", "--output", "run"],
        "questions.jsonl does not exist",
    ),
    (["--bench", "jsonl"], "unknown argument '--bench'; did you mean '--benchmark'?"),
    (["--limit", "ten"], "invalid int value: 'ten'"),
    (["--config", "none.yaml"], "none.yaml: cannot be read"),
    (["--options", "frames"], "'frames' must have the form key=value"),
]


@pytest.mark.parametrize(("argv", "told"), BAD, ids=[told for _, told in BAD])
def test_bad_commands(here: Path, capsys: pytest.CaptureFixture[str], argv: list[str], told: str) -> None:
    assert main(argv, load=load_fake) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1, "one line, no traceback"
    assert told in error
    assert list(here.iterdir()) == []


BAD_SETTINGS = [
    (["--model", "missing"], "model 'missing' does not exist"),
    (["--limit", "0"], "limit is 0; it must be at least 1"),
    (["--workers", "0"], "workers is 0; it must be at least 1"),
    (["--ids", "v0q9"], "has no question 'v0q9'; did you mean 'v0q"),
    (["--method", "nativ"], "unknown method 'nativ'; did you mean 'native'?"),
    (["--options", "frame=3"], "unknown setting 'frame'; did you mean 'frames'?"),
    (["--options", "frames=many"], "frames is 'many'; it must be a whole number"),
    (
        ["--options", "subtitles=some"],
        "subtitles is 'some'; it must be one of none, frames, frames_widened, all",
    ),
    (["--output", "file/run"], "is no writable folder"),
    (["--output", "file"], "file: is no folder"),
    (["--output", "other"], "other: holds 'notes.txt' but no config.yaml"),
    (["--output", "/proc/run"], "/proc/run: cannot be written"),
]


@pytest.mark.parametrize(("more", "told"), BAD_SETTINGS, ids=[told for _, told in BAD_SETTINGS])
def test_bad_settings(
    root: Path, here: Path, capsys: pytest.CaptureFixture[str], more: list[str], told: str
) -> None:
    (here / "file").write_text("")
    (here / "other").mkdir()
    (here / "other" / "notes.txt").write_text("mine")
    before = sorted(here.rglob("*"))
    assert main(flags(root, here / "run", *more), load=load_fake) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert told in error
    assert "Traceback" not in error
    assert sorted(here.rglob("*")) == before, "nothing half-written"


def test_unknown_key_in_a_file(root: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "run.yaml").write_text("benchmark: jsonl\nmodle: m\n")
    assert main(["--config", "run.yaml"], load=load_fake) == 2
    assert capsys.readouterr().err == "error: run.yaml: unknown setting 'modle'; did you mean 'model'?\n"


BAD_LINES = [
    ("{", "line 2: is not JSON"),
    ("[]", "line 2: must be an object, not list"),
    (
        '{"id": "a", "video": "v.mp4", "question": "Q", "choices": ["x", "y"], "anwser": "A"}',
        "did you mean 'answer'?",
    ),
    ('{"id": "a", "video": "v.mp4", "question": "Q", "choices": ["x"]}', "2 to 10 options"),
    ('{"id": "a", "video": "v.mp4", "question": "Q", "choices": "xy"}', "'choices' must be a list"),
    (
        '{"id": "a", "video": "v.mp4", "question": "Q", "choices": ["x", "y"], "answer": "C"}',
        "'C' is no option",
    ),
    ('{"id": "a", "question": "Q", "choices": ["x", "y"]}', "field 'video' is missing"),
    ('{"id": 3, "video": "v.mp4", "question": "Q", "choices": ["x", "y"]}', "field 'id' is 3"),
    (
        '{"id": "v0q0", "video": "v.mp4", "question": "Q", "choices": ["x", "y"]}',
        "was given in line 1 already",
    ),
    (
        '{"id": "a", "video": "v.mp4", "question": "Q", "choices": ["x", "y"], "evidence": [[3, 1]]}',
        "'evidence' holds [3, 1]",
    ),
]


@pytest.mark.parametrize(("line", "told"), BAD_LINES, ids=[told for _, told in BAD_LINES])
def test_bad_question_files(
    root: Path, here: Path, capsys: pytest.CaptureFixture[str], line: str, told: str
) -> None:
    first = (root / "questions.jsonl").read_text().splitlines()[0]
    (here / "questions.jsonl").write_text(f"{first}\n{line}\n")
    assert main(flags(here, here / "run"), load=load_fake) == 2
    error = capsys.readouterr().err
    assert f"{here / 'questions.jsonl'}, line 2" in error
    assert told in error
    assert not (here / "run").exists()


def test_limits_are_prefixes_of_each_other(root: Path) -> None:
    from videopro.benchmarks import load

    benchmark = load("jsonl", root=root)
    for seed in range(3):
        whole = [item.id for item in benchmark.select(limit=12, seed=seed)]
        assert sorted(whole) == sorted(item.id for item in benchmark.items)
        for limit in range(1, 12):
            assert [item.id for item in benchmark.select(limit=limit, seed=seed)] == whole[:limit]
        # Two of the videos are short and two are long: the first six questions are about one of each.
        assert {item.groups["duration"] for item in benchmark.select(limit=6, seed=seed)} == {"short", "long"}
    assert len({tuple(item.id for item in benchmark.select(limit=3, seed=seed)) for seed in range(8)}) > 2


def test_run_from_python(root: Path, tmp_path: Path) -> None:
    summary = run(
        RunConfig(benchmark="jsonl", root=root, model="m", output=tmp_path / "run", ids=("v0q0",)),
        load=load_fake,
    )
    assert summary is not None
    assert (summary["n"], summary["accuracy"]) == (1, 1.0)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_shipped_settings(path: Path) -> None:
    """Every file in configs/infer has known keys of the right types, down to the method and the backbone."""
    argv = ["--config", str(path), "--output", "x"]
    config = from_command_line(RunConfig, argv, "infer", "")
    create(config.method, config.options)
    if config.model != "pocket":
        read_spec(config.model, **config.backbone)


def test_placement() -> None:
    """Each rank its device, several workers the devices in turn, one worker all of them; cores divided."""
    variables = {"RANK": "5", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "OMP_NUM_THREADS": "3"}
    rank = place(2, variables)
    assert rank.rank == 5
    assert [rank.environment(i) for i in (0, 1)] == [
        {"OMP_NUM_THREADS": "3", "CUDA_VISIBLE_DEVICES": "1"}
    ] * 2
    assert place(1, {**variables, "CUDA_VISIBLE_DEVICES": "4,6"}).devices == ("6",)
    several = place(3, {"CUDA_VISIBLE_DEVICES": "4,6"})
    assert [several.environment(i)["CUDA_VISIBLE_DEVICES"] for i in range(3)] == ["4", "6", "4"]
    assert place(1, {"CUDA_VISIBLE_DEVICES": "4,6"}).devices == ()
    cores = len(os.sched_getaffinity(0))
    assert place(1, {}).threads == cores
    assert place(cores, {"CUDA_VISIBLE_DEVICES": "0"}).threads == 1
