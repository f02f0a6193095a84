"""Measures lmms-eval at what perf/gpu.py's part (f) measures of the native method on a CPU: the same
checkpoint with random weights, videos, questions, frames and pixels.

    python -m perf.lmms_eval [--shapes tiny|2b] [--work FOLDER] [--python ENV/bin/python] \\
        [--apart VIDEOS] [--output FILE]

lmms-eval needs other versions of some libraries than VideoPro, so it belongs in an environment of its own:
`python -m venv ENV`, `ENV/bin/pip install lmms-eval decord pytz "filelock<4"` with the versions of torch and
transformers that VideoPro runs with, and `--python ENV/bin/python`. Nothing is fetched from a hub.

lmms-eval's command line runs on a task of these questions, with native's prompts: model `qwen3_vl`, batch
size 1, attention `sdpa`, and one new token, which is all that a letter needs.

The time is that of its own `generate_until`, from the first question to the last reply: reading videos,
preparing prompts, and the model. Start-up, loading, building requests and scores are outside. In it,
`cpu_s_a_question` is the processor time of all threads, `model_s` the time inside `model.generate`. The model
runs in bf16, whatever the checkpoint. Prints one JSON object and adds it as "lmms_eval" to
perf/shapes_2b.json (tiny: to results.json in the work folder).

`--apart VIDEOS` asks one question about each of so many videos, so that questions share nothing. Native
answers them too, as in part (f), before lmms-eval and after it; its seconds are the mean of both runs. These
figures are added as "lmms_eval_apart".
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any, Literal

from perf import ROOT
from perf.battery.cases import Bench
from perf.battery.inference import infer
from perf.battery.measuring import conditions
from perf.battery.shapes import SHAPES
from perf.battery.world import make_questions, write_lines
from perf.command import run_command
from perf.recording import write_record
from videopro.cli import setting
from videopro.errors import ConfigError
from videopro.question import Question, prompts

KEY, APART = "lmms_eval", "lmms_eval_apart"
TASK = "videopro_questions"
# Each token is a square of this side in two frames.
PATCH, FRAMES_A_STEP = 16, 2
_TASK_FILE = """task: {task}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {rows}
test_split: test
output_type: generate_until
doc_to_visual: !function videopro_questions.video
doc_to_text: prompt
doc_to_target: answer
generation_kwargs:
  max_new_tokens: 1
  temperature: 0
process_results: !function videopro_questions.score
metric_list:
  - metric: accuracy
    aggregation: mean
    higher_is_better: true
"""
_TASK_FUNCTIONS = '''"""What the task file names."""


def video(row):
    return [row["video"]]


def score(row, replies):
    return {"accuracy": float(replies[0].strip()[:1] == row["answer"])}
'''


@dataclass(frozen=True)
class LmmsEvalSettings:
    """Measure lmms-eval at what part (f) of perf/gpu.py measures of the native method."""

    shapes: Literal["tiny", "2b"] = field(default="tiny", metadata=setting("shapes of the model"))
    work: Path | None = field(
        default=None, metadata=setting("unset: runs/gpu-check/SHAPES, as perf/gpu.py's")
    )
    python: str = field(
        default=sys.executable, metadata=setting("interpreter of the environment that has lmms-eval")
    )
    apart: int = field(
        default=0,
        metadata=setting("videos with one question each, which native answers too; 0: part (f)'s questions"),
    )
    output: Path | None = field(
        default=None,
        metadata=setting("file to which the figures are added; unset: see perf/lmms_eval.py"),
    )


def write_task(source: Path, folder: Path) -> list[dict[str, str]]:
    """Write lmms-eval's task over the questions of a folder. Returns its rows: the video's path, the prompt
    of the native method, and the letter."""
    rows = []
    for line in (source / "questions.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        prompt = prompts.multiple_choice(Question(row["question"], tuple(row["choices"])))
        video = str(source / row["video"])
        rows.append({"id": row["id"], "video": video, "prompt": prompt, "answer": row["answer"]})
    write_lines(folder / "rows.jsonl", rows)
    text = _TASK_FILE.format(task=TASK, rows=json.dumps(str(folder / "rows.jsonl")))
    (folder / f"{TASK}.yaml").write_text(text, encoding="utf-8")
    (folder / f"{TASK}.py").write_text(_TASK_FUNCTIONS, encoding="utf-8")
    return rows


def arguments(bench: Bench, folder: Path) -> list[str]:
    """lmms-eval's command line, without the program."""
    model = {
        "pretrained": bench.checkpoint(),
        "device_map": "cpu",
        "attn_implementation": "sdpa",
        "max_num_frames": bench.shapes.frames,
        "max_pixels": bench.shapes.pixels,
        # The default is more than these maximum pixels, and the minimum wins.
        "min_pixels": (2 * PATCH) ** 2,
    }
    return [
        *(
            "--model",
            "qwen3_vl",
            "--model_args",
            ",".join(f"{name}={value}" for name, value in model.items()),
        ),
        *("--tasks", TASK, "--include_path", str(folder), "--batch_size", "1", "--device", "cpu"),
    ]


def run(bench: Bench, python: str) -> dict[str, Any]:
    """Run lmms-eval over the questions. Returns its figures. Raises RuntimeError if it fails, which its exit
    status need not say, or if it did other work than asked."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = write_task(make_questions(bench, bench.shapes.mixed), folder)
        times, log = folder / "times.json", bench.path("lmms-eval.log")
        offline = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_EVALUATE_OFFLINE"), "1")
        variables = {"HF_DATASETS_CACHE": str(folder / "datasets"), "CUDA_VISIBLE_DEVICES": ""}
        command = [python, str(ROOT / "perf" / "lmms_eval_timed.py"), str(times)]
        with log.open("w") as output:
            done = subprocess.run(
                [*command, *arguments(bench, folder)],
                cwd=folder,
                env={**os.environ, **offline, **variables},
                stdout=output,
                stderr=output,
            )
        if done.returncode != 0 or not times.exists():
            said_last = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"lmms-eval ended with status {done.returncode}; {log}: {said_last}")
        timing = json.loads(times.read_text(encoding="utf-8"))
    return figures(bench, rows, timing)


def figures(bench: Bench, rows: Sequence[Mapping[str, str]], timing: Mapping[str, Any]) -> dict[str, Any]:
    """What is reported of a run. Raises RuntimeError if lmms-eval did other work than asked."""
    steps, height, width = timing["grids"][0]
    frames, size = FRAMES_A_STEP * steps, (PATCH * height, PATCH * width)
    count, tokens = len(rows), timing["prompt_tokens"]
    if len(tokens) != count or any(grid != timing["grids"][0] for grid in timing["grids"]):
        raise RuntimeError(
            f"lmms-eval answered {len(tokens)} of {count} questions, or from other frames each"
        )
    if frames != bench.shapes.frames or size[0] * size[1] > bench.shapes.pixels:
        raise RuntimeError(f"lmms-eval showed {frames} frames of {size[0]} x {size[1]} pixels")
    return {
        "version": timing["versions"]["lmms_eval"],
        "class": timing["class"],
        "questions": count,
        "videos": len({row["video"] for row in rows}),
        "questions_per_s": round(count / timing["seconds"], 4),
        "s_a_question": round(timing["seconds"] / count, 3),
        "cpu_s_a_question": round(timing["cpu_s"] / count, 3),
        "model_s": round(sum(timing["model_s"]), 2),
        "start_and_load_s": round(timing["start_and_load_s"], 1),
        "prompt_tokens": round(sum(tokens) / count),
        "frames": frames,
        "frame_size": list(size),
        "dtype": timing["dtype"],
        "versions": timing["versions"],
    }


def read_results(path: Path, shapes: str, conditions: Mapping[str, Any]) -> dict[str, Any]:
    """The file of results to which figures are added; without a file, one with no parts. Raises ConfigError
    for results of other shapes."""
    if not path.exists():
        return {"shapes": shapes, "facts": dict(conditions), "parts": {}}
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if content["shapes"] != shapes:
        raise ConfigError(
            f"{path}: holds results of the shapes {content['shapes']!r}, not of {shapes!r}; give another "
            "--output"
        )
    return content


def add_to_results(
    path: Path, shapes: str, conditions: Mapping[str, Any], section: Mapping[str, Any], key: str = KEY
) -> None:
    """Put lmms-eval's figures into a file of results, whose other content stays. Raises ConfigError for
    results of other shapes."""
    write_record(path, {**read_results(path, shapes, conditions), key: dict(section)})


def one_a_video(bench: Bench, videos: int) -> Bench:
    """The same model, with one question about each of `videos` videos."""
    folder = bench.path("apart")
    folder.mkdir(exist_ok=True)
    if not (folder / "model").exists():
        (folder / "model").symlink_to(bench.checkpoint(), target_is_directory=True)
    return Bench(replace(bench.shapes, videos=videos, questions=1), folder)


def run_beside_native(bench: Bench, python: str) -> dict[str, Any]:
    """lmms-eval's figures and those of the native method, which runs before it and after it."""
    before = infer(bench, "native")
    timing = run(bench, python)
    after = infer(bench, "native")
    passes = (before["s_a_question"], after["s_a_question"])
    native = {**after, "s_a_question": round(mean(passes), 3), "passes": passes}
    return {**timing, "native": native, "to_native": round(timing["s_a_question"] / mean(passes), 2)}


def compare(settings: LmmsEvalSettings) -> None:
    """Run lmms-eval, print its figures and add them to the results."""
    shapes = SHAPES[settings.shapes]
    bench = Bench(shapes, (settings.work or ROOT / "runs" / "gpu-check" / shapes.name).absolute())
    output = settings.output
    if output is None:
        output = ROOT / "perf" / "shapes_2b.json" if shapes.name == "2b" else bench.path("results.json")
    here, load = conditions(), round(os.getloadavg()[0], 1)
    read_results(output, shapes.name, here)  # a wrong file is refused before anything is measured
    if settings.apart:
        section = run_beside_native(one_a_video(bench, settings.apart), settings.python)
    else:
        section = run(bench, settings.python)
    section = {"device": here["device"], "load": load, **section}
    print(json.dumps(section))
    add_to_results(output, shapes.name, here, section, APART if settings.apart else KEY)


if __name__ == "__main__":
    run_command(LmmsEvalSettings, compare)
