"""(f) Runs of videopro.infer: questions a second at one worker and at three, and how idle the device is."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from perf.battery.cases import Bench, Case, Figures
from perf.battery.measuring import watch_utilisation
from perf.battery.world import make_questions

ROOT = Path(__file__).resolve().parents[2]
TITLE = "Inference: videopro.infer over generated videos"
# The models behind the modules are left out: (g) measures the encoder.
_NO_MODELS = ("encoder=none", "text_encoder=none", "ocr=none", "detector=none")


def cases(bench: Bench) -> list[Case]:
    return [
        Case(
            f"{method}, {workers} worker{'s' if workers > 1 else ''}",
            partial(infer, bench, method, workers),
        )
        for method in ("native", "videopro")
        for workers in (1, 3)
        if workers <= bench.shapes.videos
    ]


def infer(bench: Bench, method: str, workers: int) -> Figures:
    """One run. Counted from the first lease, when a worker has its model, to the end of the run; the
    processor's time is of the whole run, starting and loading included."""
    shapes = bench.shapes
    output = bench.path(f"infer-{method}-{workers}")
    shutil.rmtree(output, ignore_errors=True)
    options = [f"frames={shapes.frames}"]
    if method == "videopro":
        # The random model writes no program: what counts is a reply of this length, and its refinement, to
        # the prompts of a fine-tuned planner.
        options = [f"max_new_tokens={shapes.reply}", "planner_prompt=short", *_NO_MODELS]
    command = [
        *(
            sys.executable,
            "-m",
            "videopro.infer",
            "--benchmark",
            "jsonl",
            "--root",
            str(make_questions(bench)),
        ),
        *("--method", method, "--model", str(bench.checkpoint())),
        *("--backbone", f"dtype={shapes.backbone_dtype}"),
        *("--options", *options, "--workers", str(workers), "--output", str(output)),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    started, used = time.monotonic(), _cpu_seconds()
    log = bench.path(f"{output.name}.log")
    with log.open("w") as stream:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=stream, stderr=stream)
        try:
            while process.poll() is None and not _has_lease(output):
                time.sleep(0.05)
            began = time.monotonic()
            with watch_utilisation() as seen:
                status = process.wait()
        finally:
            process.kill()
    if status != 0:
        raise RuntimeError(f"videopro.infer ended with status {status}: {log.read_text()[-2000:]}")
    seconds = time.monotonic() - began
    traces = [json.loads(line) for line in (output / "traces.jsonl").read_text().splitlines()]
    errors = [trace["error"] for trace in traces if trace.get("error")]
    if errors:
        raise RuntimeError(f"{len(errors)} questions ended in an error, the first: {errors[0]}")
    return {
        "questions": len(traces),
        "videos": shapes.videos,
        "questions_per_s": round(len(traces) / seconds, 4),
        "s_a_question": round(seconds / len(traces), 3),
        "cpu_s_in_all": round(_cpu_seconds() - used, 1),
        "idle_share": seen.idle,
        "start_and_load_s": round(began - started, 1),
        "stages_s": _stages(traces),
    }


def _cpu_seconds() -> float:
    """Of all processes that this one has started and waited for, and of theirs."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _has_lease(output: Path) -> bool:
    folder = output / "work"
    return folder.is_dir() and any(path.is_file() for path in folder.rglob("*.lease"))


def _stages(traces: list[dict[str, Any]]) -> dict[str, float]:
    """The seconds of each stage, over all questions."""
    totals: dict[str, float] = {}
    for trace in traces:
        for name, seconds in trace["cost"]["stages"].items():
            totals[name] = totals.get(name, 0.0) + seconds
    return {name: round(seconds, 2) for name, seconds in sorted(totals.items())}
