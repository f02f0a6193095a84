"""Open questions of one's own through every command: ask, infer, judge, compare, report, seeds."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmark_runs import InProcessSupervisor
from tests.support.benchmark_runs import in_this_process as in_this_process
from tests.support.colours import ColourBackbone, colour_of, make_video
from tests.support.fake_backbone import visual_frames
from tests.support.scenes import NO_MODELS, reply
from videopro.backbones import GenerateRequest
from videopro.benchmarks import Protocol, load
from videopro.benchmarks.jsonl import JUDGE
from videopro.commands import compare, infer, seeds
from videopro.commands.report import main as report_main
from videopro.data_synthesis.questions import select_questions
from videopro.errors import ConfigError, DatasetError
from videopro.traces import Trace, read_traces
from videopro.train.runtime.evaluation import load_eval_questions

PROGRAM = reply("return query_frames(extract_frames(video, num_frames=4), question)")
COLOURS = ("red", "green", "blue", "grey", "red", "green")
"""The colour of each video."""


def write(request: GenerateRequest) -> str:
    """PROGRAM, if a function is asked for, otherwise the colour of the frames with an article."""
    if "Python function" in request.text:
        return PROGRAM
    return f"The {colour_of(visual_frames(request.visual)[0])} one."


load_writing = partial(ColourBackbone, writes=write)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six videos with one open question each, and one question with options. The references of three open
    questions are "the COLOUR one", of two "a COLOUR car" (one word of two), of one another word."""
    folder = tmp_path_factory.mktemp("open")
    lines: list[dict[str, Any]] = []
    for place, colour in enumerate(COLOURS):
        make_video(folder / f"v{place}.mp4", colour, 1.0)
        reference = f"the {colour} one" if place < 3 else f"a {colour} car" if place < 5 else "something"
        lines.append(
            {
                "id": f"q{place}",
                "video": f"v{place}.mp4",
                "question": f"Which car is it ({place})?",
                "answer" if place % 2 else "reference": reference,
                "family": "car",
            }
        )
    lines.append(
        {
            "id": "mc",
            "video": "v0.mp4",
            "question": "Which colour?",
            "choices": ["red", "green", "blue"],
            "answer": "A",
        }
    )
    (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def runs(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A native run and one with programs."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("videopro.commands.infer.Supervisor", InProcessSupervisor)
        for method in ("native", "videopro"):
            options = [] if method == "native" else ["--options", *NO_MODELS]
            flags = ["--benchmark", "jsonl", "--root", str(root), "--model", "m", "--method", method]
            assert infer.main([*flags, "--output", str(folder / method), *options], load=load_writing) == 0
    return folder


def traces_of(run: Path) -> dict[str, Trace]:
    return {trace.question_id: trace for trace in read_traces(run / "traces.jsonl")}


def summary_of(run: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return content


# ---- the folder -------------------------------------------------------------------------------------------


def test_a_folder_with_open_questions(root: Path, tmp_path: Path) -> None:
    found = load("jsonl", root=root)
    by_id = {item.id: item for item in found.items}
    assert by_id["q0"].question.is_open
    assert (by_id["q0"].reference, by_id["q1"].reference) == ("the red one", "the green one")
    assert (by_id["mc"].answer, by_id["mc"].reference) == ("A", None)
    assert found.protocol.judge == JUDGE
    assert [metric.kind for metric in found.protocol.metrics] == ["grade"]
    lines = (root / "questions.jsonl").read_text().splitlines()
    (tmp_path / "questions.jsonl").write_text(lines[-1] + "\n")
    assert load("jsonl", root=tmp_path).protocol == Protocol("robust"), "without open questions"
    # Without a reference, it is answered but not graded.
    (tmp_path / "questions.jsonl").write_text('{"id": "q", "video": "v.mp4", "question": "What?"}\n')
    found = load("jsonl", root=tmp_path)
    assert found.items[0].question.is_open
    assert found.protocol.judge is None


# ---- runs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["native", "videopro"])
def test_a_run_answers_in_words_and_grades_them(runs: Path, method: str) -> None:
    traces, summary = traces_of(runs / method), summary_of(runs / method)
    assert {traces[f"q{place}"].final.raw for place in (0, 4)} == {"The red one."}  # type: ignore[union-attr]
    execution = traces["q0"].rounds[-1].execution
    assert execution.status == "ok"
    # Each word has log-probability -0.6, so Eq. 2 gives exp(-0.6) for any number of words.
    assert execution.answer.confidence == pytest.approx(0.5488, abs=1e-4)
    # Three exact; two share one of two words (F1 1/2); one has no word in common.
    found = summary["open"]
    assert (found["n"], found["videos"]) == (6, len(COLOURS))
    assert (found["exact_match"], found["f1"]) == (0.5, pytest.approx(4 / 6))
    assert found["groups"]["family"]["car"]["n"] == 6
    # The question with options is scored as ever; PROGRAM names no option of it.
    assert (summary["n"], summary["accuracy"]) == (1, 1.0 if method == "native" else 0.0)


def test_an_unsure_answer_in_words_is_refined(runs: Path) -> None:
    assert traces_of(runs / "videopro")["q0"].refined == 1
    assert summary_of(runs / "videopro")["repairs"]["by_state"]["unsure"]["right_after"] == 3


def test_tables_show_open_answers(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(runs / "native"), str(runs / "videopro")]
    assert compare.main(paths) == 0
    shown = capsys.readouterr().out
    assert "open questions, %" in shown
    assert "66.7" in shown
    assert "+0.0" in shown
    assert report_main([*paths, "--tables", "open", "--output", str(tmp_path / "report")]) == 0
    table = (tmp_path / "report/tables/open.md").read_text()
    assert "Native VideoLLM" in table
    assert "50.0" in table
    output = tmp_path / "seeds.json"
    rows = [f"native={paths[0]}", f"programs={paths[1]},{paths[1]}", "--output", str(output)]
    assert seeds.main(rows) == 0
    found = json.loads(output.read_text())[1]["open"]
    assert found["f1_seeds"] == [pytest.approx(4 / 6)] * 2
    assert found["difference"]["f1"] == 0.0


# ---- training ---------------------------------------------------------------------------------------------


def test_synthesis_leaves_open_questions_out_and_refuses_only_open_ones(root: Path) -> None:
    source = load("jsonl", root=root)
    found = select_questions(source, seed=0)
    assert [item.id for item in found.benchmark.items] == ["mc"]
    assert found.filters.removed() == {"open, without options to train on": 6}
    only = replace(source, items=[item for item in source.items if item.question.is_open])
    with pytest.raises(ConfigError, match="open, without options to train on: 6"):
        select_questions(only, seed=0)


def test_held_out_questions_need_options(root: Path) -> None:
    with pytest.raises(DatasetError, match="is open-ended, but planners are evaluated on multiple-choice"):
        load_eval_questions(str(root), limit=None, seed=0)
