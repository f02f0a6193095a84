"""Hostile programs through `videopro infer` with real module models: the run ends well, every question is
recorded, and whatever reads a run reads this one. `perf/hostile.py` does the same with a thousand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from perf.programs.inference import PlannerServer, infer_command, read_everywhere, write_questions
from perf.programs.module_calls import CASES, program, program_texts
from tests.support import tiny_models
from videopro.commands import infer
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
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("videos")
    write_questions(root, 1, 1)
    return root


def answered(root: Path, run: Path, programs: Sequence[str], *options: str) -> dict[str, Trace]:
    """Ask a question about one of the videos for each program, and check what the run left."""
    ids = write_questions(root, len(programs), 1)
    questions = root / "questions.jsonl"
    asked = [json.loads(line) for line in questions.read_text().splitlines()]
    for number, record in enumerate(asked):
        # Each is a video of its own for a run.
        copy = root / f"copy{number % VIDEOS}.mp4"
        if not copy.exists():
            copy.symlink_to(root / record["video"])
        record["video"] = copy.name
    questions.write_text("".join(json.dumps(record) + "\n" for record in asked))
    with PlannerServer(programs) as planner:
        assert infer.main(infer_command(root, run, planner.url, *options)) == 0
        assert planner.replies.keys() == set(range(len(programs)))
    traces = {trace.question_id: trace for trace in read_traces(run / "traces.jsonl")}
    assert traces.keys() == set(ids)
    lines = (run / "traces.jsonl").read_bytes().splitlines()
    assert len(lines) == len(ids)
    assert max(map(len, lines)) < 4 << 20
    for trace in traces.values():
        # Each program's fault is its own: it is shown to the planner, and the answer counts.
        assert trace.error is None
        assert trace.final is not None
        for done in trace.rounds:
            assert done.execution is not None
            if done.execution.error is not None:
                assert done.execution.error.message or done.execution.error.type.isidentifier()
    return traces


def test_hostile_programs_end_no_run(videos: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    named = [*CASES.items(), *program_texts(len(CASES) + GENERATED, 5)][len(CASES) :]
    programs = [*(text for name, text in named if name != "floods"), FLOOD]
    traces = answered(videos, tmp_path / "hostile", programs)
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
    assert flood is not None
    assert flood.error is not None
    assert (flood.error.type, len(flood.calls)) == ("CallLimit", 256)
    assert len({trace.video.key for trace in traces.values()}) == VIDEOS
    summary = json.loads((tmp_path / "hostile" / "summary.json").read_text())
    assert summary["n"] == len(programs)
    assert summary["coverage"] == 1.0
    direct = ["--benchmark", "jsonl", "--root", str(videos), "--model", "pocket", "--method", "native"]
    assert infer.main([*direct, "--output", str(tmp_path / "direct")]) == 0
    read = read_everywhere(tmp_path / "hostile", tmp_path / "read", tmp_path / "direct")
    assert read == {"view": 0, "report": 0, "compare": 0}
    assert "cannot be read" not in capfd.readouterr().err


def test_odd_pictures_meet_the_models_of_a_users_own_choice(videos: Path, tmp_path: Path) -> None:
    """Grounding DINO and SAM 3 made from their configs, in place of pocket's own grounding."""
    odd = [text for name, text in program_texts(200, 3) if name == "odd pictures"]
    finds = [text for text in odd if "detect_object" in text or "track_object" in text]
    models = (f"detector=grounding-dino:{tiny_models.grounding_dino()}", f"tracker=sam3:{tiny_models.sam3()}")
    answered(videos, tmp_path / "run", finds[:3], *models)
