"""perf/lmms_eval.py with a stand-in for lmms-eval: the questions it gets, what is timed, and the results."""

from __future__ import annotations

import dataclasses
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from perf import lmms_eval
from perf.battery.cases import Bench
from perf.battery.results import tables, write_results
from perf.battery.shapes import TINY
from perf.battery.world import make_questions, question
from videopro import prompts
from videopro.errors import ConfigError

SMALL = dataclasses.replace(TINY, videos=2, questions=2)
# A model that answers each row of the task that it is given, from `frames` frames.
STAND_IN = """
import json, sys
from pathlib import Path
import numpy as np

class Model:
    dtype = "torch.bfloat16"
    def generate(self, **inputs):
        return [[1]]

class Simple:
    model = Model()
    def generate_until(self, requests):
        for prompt in requests:
            ids = np.zeros((1, len(prompt)))
            self.model.generate(input_ids=ids, video_grid_thw=np.array([[FRAMES // 2, 6, 10]]))
        return ["A"] * len(requests)

def get_model(name, force_simple):
    assert name == "qwen3_vl" and force_simple
    return Simple

def main():
    assert sys.argv[-1] == "--force_simple"
    folder = Path(sys.argv[sys.argv.index("--include_path") + 1])
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    Simple().generate_until([row["prompt"] for row in rows])
"""


_FACTS = {"device": "X", "python": "3", "torch": "2", "transformers": "5", "trl": "1"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(SMALL, tmp_path / "work")
    # A checkpoint that is there is not made again; the stand-in does not load it.
    marker = bench.path("model") / "videopro.json"
    marker.parent.mkdir()
    marker.write_text("{}")
    return bench


def install_stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, frames: int) -> None:
    package = folder / "environment" / "lmms_eval"
    (package / "cli").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "cli" / "__init__.py").touch()
    (package / "models.py").write_text(STAND_IN.replace("FRAMES", str(frames)))
    (package / "cli" / "dispatch.py").write_text("from lmms_eval.models import main\n")
    monkeypatch.setenv("PYTHONPATH", str(package.parent))


def test_the_task_holds_natives_questions(bench: Bench, tmp_path: Path) -> None:
    rows = lmms_eval.write_task(make_questions(bench), tmp_path)
    task = yaml.load((tmp_path / "videopro_questions.yaml").read_text(), yaml.BaseLoader)
    listed = Path(task["dataset_kwargs"]["data_files"][task["test_split"]]).read_text().splitlines()
    assert [json.loads(line) for line in listed] == rows
    asked = [json.loads(line) for line in (bench.folder / "questions.jsonl").read_text().splitlines()]
    assert [(row["id"], row["answer"]) for row in rows] == [(line["id"], line["answer"]) for line in asked]
    assert [row["prompt"] for row in rows] == [prompts.multiple_choice(question(i)) for i in (0, 1, 0, 1)]
    functions = runpy.run_path(str(tmp_path / "videopro_questions.py"))
    shown = [functions[task["doc_to_visual"].split(".")[1]](row) for row in rows]
    assert shown == [[str(bench.folder / line["video"])] for line in asked]
    assert all(Path(path).is_file() for (path,) in shown)
    score = functions[task["process_results"].split(".")[1]]
    assert [score(rows[0], [reply])["accuracy"] for reply in ("A", " A.", "B", "")] == [1.0, 1.0, 0.0, 0.0]
    assert rows[0][task["doc_to_text"]] == rows[0]["prompt"]


def test_frames_pixels_and_checkpoint_are_those_of_the_shapes(bench: Bench, tmp_path: Path) -> None:
    given = lmms_eval.arguments(bench, tmp_path, simple=False)
    options = dict(zip(given[::2], given[1::2], strict=True))
    model = dict(pair.split("=") for pair in options["--model_args"].split(","))
    assert model["pretrained"] == str(bench.folder / "model")
    assert int(model["max_num_frames"]) == SMALL.frames
    assert int(model["min_pixels"]) < int(model["max_pixels"]) == SMALL.pixels


def test_a_run_is_timed_from_outside_its_environment(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_stand_in(tmp_path, monkeypatch, SMALL.frames)
    found = lmms_eval.run(bench, sys.executable, simple=True)
    assert (found["questions"], found["videos"], found["class"]) == (4, 2, "lmms_eval.models.Simple")
    assert (found["frames"], found["frame_size"], found["dtype"]) == (16, [96, 160], "bfloat16")
    assert found["prompt_tokens"] == len(prompts.multiple_choice(question(0)))
    json.dumps(found)


def test_one_question_a_video_is_measured_beside_native(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_stand_in(tmp_path, monkeypatch, SMALL.frames)
    seconds = iter([2.0, 4.0])

    def infer(of: Bench, method: str, workers: int) -> dict[str, Any]:
        asked = (make_questions(of) / "questions.jsonl").read_text().splitlines()
        videos = {json.loads(line)["video"] for line in asked}
        return {"questions": len(asked), "videos": len(videos), "s_a_question": next(seconds)}

    monkeypatch.setattr(lmms_eval, "infer", infer)
    apart = lmms_eval.one_a_video(bench, 3)
    assert (apart.folder / "model").resolve() == (bench.folder / "model").resolve()
    found = lmms_eval.run_beside_native(apart, sys.executable, simple=True)
    assert (found["questions"], found["videos"]) == (3, 3)
    assert found["native"] == {"questions": 3, "videos": 3, "s_a_question": 3.0, "passes": (2.0, 4.0)}
    assert found["to_native"] == round(found["s_a_question"] / 3.0, 2)
    lmms_eval.add_to_results(tmp_path / "r.json", "tiny", _FACTS, {**found, "device": "X"}, lmms_eval.APART)
    assert "| native | 3 | 3 | 3.0 | - |" in tables(tmp_path / "r.json")


def test_a_run_of_other_frames_is_refused(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_stand_in(tmp_path, monkeypatch, SMALL.frames // 2)
    with pytest.raises(RuntimeError, match="showed 8 frames of 96 x 160"):
        lmms_eval.run(bench, sys.executable, simple=True)


def test_a_failed_run_says_what_lmms_eval_said(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_stand_in(tmp_path, monkeypatch, SMALL.frames)
    # lmms-eval reports an error and ends with status 0.
    dispatch = tmp_path / "environment" / "lmms_eval" / "cli" / "dispatch.py"
    dispatch.write_text("def main():\n    print('no such task')\n")
    with pytest.raises(RuntimeError, match=r"status 0; .*: no such task"):
        lmms_eval.run(bench, sys.executable, simple=True)


def test_other_results_stay_and_so_do_lmms_evals(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    facts = _FACTS
    # Without a file, lmms-eval's figures begin one.
    names = ("version", "questions", "videos", "questions_per_s", "cpu_s_a_question", "start_and_load_s")
    section = {**dict.fromkeys((*names, "prompt_tokens"), 1), "s_a_question": 3.0}
    lmms_eval.add_to_results(path, "tiny", facts, section)
    titles = {"a": "SFT", "b": "Writing"}
    write_results(path, TINY, facts, {"b": {"8 rows": {"figures": {"ms": 2.5}, "load": 0.1}}}, titles)
    before: dict[str, Any] = json.loads(path.read_text())
    assert before["lmms_eval"] == section
    faster = {**section, "s_a_question": 2.0}
    lmms_eval.add_to_results(path, "tiny", {**facts, "torch": "3"}, faster)
    assert json.loads(path.read_text()) == {**before, "lmms_eval": faster}
    write_results(path, TINY, facts, {"a": {"batch 2": {"skipped": "no time", "load": 0.2}}}, titles)
    assert json.loads(path.read_text())["lmms_eval"] == faster
    assert "| 8 rows | 2.5 |" in tables(path)
    assert "| one question at a time | 1 | 1 | 1 | 2.0 | 1 | 1 | 1 |" in tables(path)


def test_results_of_other_shapes_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    lmms_eval.add_to_results(path, "tiny", {"device": "X"}, {})
    with pytest.raises(ConfigError, match="shapes 'tiny', not of '2b'"):
        lmms_eval.add_to_results(path, "2b", {"device": "X"}, {})
