"""Measures lmms-eval at what perf/gpu.py's part (f) measures of the native method on a CPU: the same
checkpoint with random weights, videos, questions, frames and pixels.

    python perf/lmms_eval.py [--shapes tiny|2b] [--work FOLDER] [--python ENV/bin/python] [--simple]

lmms-eval needs other versions of some libraries than VideoPro, so it belongs in an environment of its own:
`python -m venv ENV`, `ENV/bin/pip install lmms-eval decord pytz` with the versions of torch and transformers
that VideoPro runs with, and `--python ENV/bin/python`. Nothing is fetched from a hub.

lmms-eval's command line runs on a task of these questions, with native's prompts: model `qwen3_vl`, batch
size 1, attention `sdpa`, and one new token, which is all that a letter needs. `--simple` gives it
`--force_simple`: its older class of that model, which reads the next question's video while the model
answers.

The time is that of its own `generate_until`, from the first question to the last reply: reading videos,
preparing prompts, and the model. Start-up, loading, building requests and scores are outside. In it,
`cpu_s_a_question` is the processor time of all threads, `model_s` the time inside `model.generate`. The model
runs in bf16, whatever the checkpoint. Prints one JSON object and adds it as "lmms_eval" to
perf/shapes_2b.json (tiny: to results.json in the work folder).
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
# lmms-eval's environment runs this file too, and has no VideoPro: functions import what they need of it.
if TYPE_CHECKING:
    from perf.battery.cases import Bench

KEY = "lmms_eval"
TASK = "videopro_questions"
PACKAGES = ("lmms_eval", "torch", "transformers", "qwen-vl-utils", "decord")
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


def write_task(bench: Bench, folder: Path) -> list[dict[str, str]]:
    """Write lmms-eval's task over the questions of `bench`. Returns its rows: the video's path, the prompt of
    the native method, and the letter."""
    from perf.battery.world import make_questions, write_lines
    from videopro import prompts
    from videopro.question import Question

    source = make_questions(bench)
    rows = []
    for line in (source / "questions.jsonl").read_text(encoding="utf-8").splitlines():
        given = json.loads(line)
        prompt = prompts.multiple_choice(Question(given["question"], tuple(given["choices"])))
        video = str(source / given["video"])
        rows.append({"id": given["id"], "video": video, "prompt": prompt, "answer": given["answer"]})
    write_lines(folder / "rows.jsonl", rows)
    text = _TASK_FILE.format(task=TASK, rows=json.dumps(str(folder / "rows.jsonl")))
    (folder / f"{TASK}.yaml").write_text(text, encoding="utf-8")
    (folder / f"{TASK}.py").write_text(_TASK_FUNCTIONS, encoding="utf-8")
    return rows


def arguments(bench: Bench, folder: Path, *, simple: bool) -> list[str]:
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
        *(["--force_simple"] if simple else []),
    ]


def inside(times: Path, given: Sequence[str]) -> None:
    """Run lmms-eval's command line in this process, and write what its `generate_until` took."""
    began = time.perf_counter()
    # This file has lmms-eval's name.
    sys.path[:] = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]
    models = importlib.import_module("lmms_eval.models")
    model_class = models.get_model("qwen3_vl", force_simple="--force_simple" in given)
    answer = model_class.generate_until
    tokens: list[int] = []
    grids: list[list[int]] = []
    model_s: list[float] = []

    def timed(self: Any, requests: Sequence[Any]) -> Any:
        model = self.model
        generate = model.generate

        def noting(**inputs: Any) -> Any:
            start = time.perf_counter()
            reply = generate(**inputs)
            model_s.append(time.perf_counter() - start)
            tokens.append(inputs["input_ids"].shape[1])
            grids.append(inputs["video_grid_thw"][0].tolist())
            return reply

        model.generate = noting
        start, start_cpu = time.perf_counter(), time.process_time()
        replies = answer(self, requests)
        seconds, cpu_s = time.perf_counter() - start, time.process_time() - start_cpu
        found = {
            "seconds": seconds,
            "cpu_s": cpu_s,
            "start_and_load_s": start - began,
            "model_s": model_s,
            "prompt_tokens": tokens,
            "grids": grids,
            "class": f"{model_class.__module__}.{model_class.__qualname__}",
            "dtype": str(model.dtype).removeprefix("torch."),
            "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        }
        times.write_text(json.dumps(found), encoding="utf-8")
        return replies

    model_class.generate_until = timed
    sys.argv = ["lmms_eval", *given]
    importlib.import_module("lmms_eval.cli.dispatch").main()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def run(bench: Bench, python: str, *, simple: bool) -> dict[str, Any]:
    """Run lmms-eval over the questions. Returns its figures. Raises RuntimeError if it fails, which its exit
    status need not say, or if it did other work than asked."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = write_task(bench, folder)
        times, log = folder / "times.json", bench.path("lmms-eval.log")
        offline = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_EVALUATE_OFFLINE"), "1")
        own = {"HF_DATASETS_CACHE": str(folder / "datasets"), "CUDA_VISIBLE_DEVICES": ""}
        command = [python, str(Path(__file__).resolve()), "--inside", str(times)]
        with log.open("w") as said:
            done = subprocess.run(
                [*command, *arguments(bench, folder, simple=simple)],
                cwd=folder,
                env={**os.environ, **offline, **own},
                stdout=said,
                stderr=said,
            )
        if done.returncode != 0 or not times.exists():
            said_last = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"lmms-eval ended with status {done.returncode}; {log}: {said_last}")
        found = json.loads(times.read_text(encoding="utf-8"))
    return figures(bench, rows, found)


def figures(bench: Bench, rows: Sequence[Mapping[str, str]], found: Mapping[str, Any]) -> dict[str, Any]:
    """What is reported of a run. Raises RuntimeError if lmms-eval did other work than asked."""
    steps, height, width = found["grids"][0]
    frames, size = FRAMES_A_STEP * steps, (PATCH * height, PATCH * width)
    count, tokens = len(rows), found["prompt_tokens"]
    if len(tokens) != count or any(grid != found["grids"][0] for grid in found["grids"]):
        raise RuntimeError(
            f"lmms-eval answered {len(tokens)} of {count} questions, or from other frames each"
        )
    if frames != bench.shapes.frames or size[0] * size[1] > bench.shapes.pixels:
        raise RuntimeError(f"lmms-eval showed {frames} frames of {size[0]} x {size[1]} pixels")
    return {
        "version": found["versions"]["lmms_eval"],
        "class": found["class"],
        "questions": count,
        "videos": len({row["video"] for row in rows}),
        "questions_per_s": round(count / found["seconds"], 4),
        "s_a_question": round(found["seconds"] / count, 3),
        "cpu_s_a_question": round(found["cpu_s"] / count, 3),
        "model_s": round(sum(found["model_s"]), 2),
        "start_and_load_s": round(found["start_and_load_s"], 1),
        "prompt_tokens": round(sum(tokens) / count),
        "frames": frames,
        "frame_size": list(size),
        "dtype": found["dtype"],
        "versions": found["versions"],
    }


def add_to_results(path: Path, shapes: str, facts: Mapping[str, Any], section: Mapping[str, Any]) -> None:
    """Put lmms-eval's figures into a file of results. The rest of the file stays as it is; a file that does
    not exist yet begins with no parts."""
    content: dict[str, Any] = {"shapes": shapes, "facts": dict(facts), "parts": {}}
    if path.exists():
        content = json.loads(path.read_text(encoding="utf-8"))
    if content["shapes"] != shapes:
        raise ValueError(f"{path} holds results of the shapes {content['shapes']!r}, not of {shapes!r}")
    content[KEY] = dict(section)
    part = path.with_suffix(".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def main() -> None:
    if sys.argv[1:2] == ["--inside"]:
        inside(Path(sys.argv[2]), sys.argv[3:])
        return
    sys.path.insert(0, str(ROOT))
    from perf.battery.cases import Bench
    from perf.battery.measuring import facts
    from perf.battery.shapes import SHAPES

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--shapes", choices=("tiny", "2b"), default="tiny")
    parser.add_argument("--work", type=Path, help="default: runs/gpu-check/SHAPES, as perf/gpu.py's")
    parser.add_argument("--python", default=sys.executable, help="of the environment that has lmms-eval")
    parser.add_argument("--simple", action="store_true", help="lmms-eval's older model class")
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    shapes = SHAPES[options.shapes]
    bench = Bench(shapes, (options.work or ROOT / "runs" / "gpu-check" / shapes.name).absolute())
    results = options.results
    if results is None:
        results = ROOT / "perf" / "shapes_2b.json" if shapes.name == "2b" else bench.path("results.json")
    here, load = facts(), round(os.getloadavg()[0], 1)
    section = {"device": here["device"], "load": load, **run(bench, options.python, simple=options.simple)}
    print(json.dumps(section))
    add_to_results(results, shapes.name, here, section)


if __name__ == "__main__":
    main()
