"""Hostile programs through `videopro infer` with real module models: the run ends well, every question is
recorded, and whatever reads a run reads this one.

The long test runs 60 of them, `VIDEOPRO_HOSTILE=1000 pytest tests/commands/test_hostile_programs.py` a
thousand.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.stress.module_programs import CASES, program, program_texts
from tests.support.stub_server import StubServer, completion, text_of
from videopro.commands import compare, infer, report, view
from videopro.pocket import world
from videopro.traces import Trace, read_traces

GENERATED = 4
VIDEOS = 5
"""More than an exception needs to end a run."""
# Asks 300 times about no picture at all.
FLOOD = program(
    "for number in range(300):\n    try:\n        query_mc([], question, choices)\n"
    "    except Exception as error:\n        print(type(error).__name__)\nreturn choices[0]"
)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with a short video of pocket's val split, and its name there."""
    root = tmp_path_factory.mktemp("videos")
    name, seed = next((name, seed) for name, length, seed in world.video_names("val") if length == "short")
    world.make_video("short", seed, root / name)
    return root, name


def answered(video: tuple[Path, str], run: Path, programs: Sequence[str], *options: str) -> dict[str, Trace]:
    """Ask a question about one of the videos for each program, whose planner is a server that replies to
    question number N with program N and to the request for a refinement with another one. Checks what the
    run left."""
    root, name = video
    records = [record for record in world.records("val") if record["video"] == f"videos/{name}.mp4"]
    lines = []
    for number in range(len(programs)):
        record = records[number % len(records)]
        # Each is a video of its own for a run.
        copy = root / f"copy{number % VIDEOS}.mp4"
        if not copy.exists():
            copy.symlink_to(root / f"{name}.mp4")
        question = f"{record['question']} (question number {number})"
        about = {"id": f"q{number}", "video": copy.name, "subtitles": f"{name}.srt", "question": question}
        lines.append(about | {"choices": record["choices"], "answer": record["answer"]})
    (root / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked: Counter[int] = Counter()

    def reply(body: dict[str, object]) -> dict[str, object]:
        (number,) = {int(match) for match in re.findall(r"question number (\d+)", text_of(body))}
        with planner.lock:
            turn = asked[number]
            asked[number] += 1
        code = programs[(number + turn * (len(programs) // 2 + 1)) % len(programs)]
        return completion(f"<planning>\nLook for it.\n</planning>\n<code>\n{code}\n</code>", None)

    with StubServer(reply) as planner:
        arguments = ["--benchmark", "jsonl", "--root", str(root), "--model", "pocket", "--output", str(run)]
        arguments += ["--method", "videopro", "--planner", f"api:served@{planner.url}", "--workers", "1"]
        assert infer.main([*arguments, "--options", "planner_prompt=short", *options]) == 0
    assert asked.keys() == set(range(len(programs)))
    traces = {trace.question_id: trace for trace in read_traces(run / "traces.jsonl")}
    assert traces.keys() == {f"q{number}" for number in range(len(programs))}
    written = (run / "traces.jsonl").read_bytes().splitlines()
    assert len(written) == len(programs)
    assert max(map(len, written)) < 4 << 20
    for trace in traces.values():
        # Each program's fault is its own: it is shown to the planner, and the answer counts.
        assert trace.error is None
        assert trace.final is not None
        for done in trace.rounds:
            if done.execution.error is not None:
                assert done.execution.error.message or done.execution.error.type.isidentifier()
    return traces


def read_everywhere(video: tuple[Path, str], run: Path, tmp_path: Path) -> None:
    """Read a run with every command that reads one."""
    direct = ["--benchmark", "jsonl", "--root", str(video[0]), "--model", "pocket", "--method", "native"]
    assert infer.main([*direct, "--output", str(tmp_path / "direct")]) == 0
    runs = [str(run), str(tmp_path / "direct")]
    assert view.main([str(run), "--output", str(tmp_path / "view")]) == 0
    assert report.main([*runs, "--output", str(tmp_path / "report")]) == 0
    assert compare.main(runs) == 0


def test_hostile_programs_end_no_run(
    video: tuple[Path, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    named = [*CASES.items(), *program_texts(len(CASES) + GENERATED, 5)][len(CASES) :]
    programs = [*(text for name, text in named if name != "floods"), FLOOD]
    traces = answered(video, tmp_path / "hostile", programs)
    # What these do is known: of `CASES`, in their order.
    first = [traces[f"q{number}"].rounds[0].execution for number in range(len(CASES))]
    ended = [done.error.type if done is not None and done.error is not None else "ok" for done in first]
    assert dict(zip(CASES, ended, strict=True)) == {
        "an empty crop": "ArgumentError",
        "a strip": "ok",
        "309 digits": "ok",
        "an overflow": "ok",
        "a claimed overflow": "TooLarge",
        "a keyword of ours": "ok",
        "a flood of keywords": "ok",
        "a long question": "ArgumentError",
    }
    flood = traces[f"q{len(programs) - 1}"].rounds[0].execution
    assert (flood.error.type, len(flood.calls)) == ("CallLimit", 256)
    assert len({trace.video.key for trace in traces.values()}) == VIDEOS
    summary = json.loads((tmp_path / "hostile" / "summary.json").read_text())
    assert summary["n"] == len(programs)
    assert summary["coverage"] == 1.0
    read_everywhere(video, tmp_path / "hostile", tmp_path)
    assert "cannot be read" not in capfd.readouterr().err


@pytest.mark.long
def test_many_hostile_programs_end_no_run(video: tuple[Path, str], tmp_path: Path) -> None:
    programs = [text for _, text in program_texts(int(os.environ.get("VIDEOPRO_HOSTILE", "60")), 0)]
    answered(video, tmp_path / "hostile", programs)
    read_everywhere(video, tmp_path / "hostile", tmp_path)
