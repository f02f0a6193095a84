"""(f) Runs of videopro infer about prompts of several widths, with replies that end where the model says: in
this process, and (i) by vLLM, with and without an adapter; (l) with all modules. (i) has synthesis too."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from perf.battery.cases import Bench, Case, Figures
from perf.battery.measuring import watch_utilisation
from perf.battery.world import make_adapter, make_questions
from perf.stub_engine import MODEL, StubEngine

ROOT = Path(__file__).resolve().parents[2]
TITLE = "Inference: videopro infer over generated videos, prompts of several widths, replies that end"
# The models behind the modules are left out: (g) measures the encoder, (l) all of them.
_NO_MODELS = ("encoder", "text_encoder", "ocr", "detector")
WAYS = ("native", "videopro", "videopro, adapter")


def cases(bench: Bench) -> list[Case]:
    return [Case(way, partial(infer, bench, way)) for way in WAYS]


def infer(bench: Bench, way: str, engine: Sequence[str] = ()) -> Figures:
    """One run of a way; `engine`: flags that name another than this project's own."""
    options = [f"frames={bench.shapes.frames}"]
    if way != "native":
        # The random model writes no program: what counts are a reply, and its refinement, to the prompts of a
        # fine-tuned planner. Drawn, as the likeliest tokens go round in circles.
        options = [f"max_new_tokens={bench.shapes.longest}", "temperature=1.0", "planner_prompt=short"]
        options += [f"{name}=none" for name in _NO_MODELS]
    backbone = [f"adapter={make_adapter(bench)}"] if way.endswith("adapter") else []
    return run(bench, way.partition(",")[0], options, backbone=backbone, flags=engine)


def synthesize(bench: Bench, engine: Sequence[str] = ()) -> Figures:
    """A synthesis with two programs a question, by a teacher that answers at once; `engine` as above."""
    with StubEngine() as teacher:
        words = ["synthesize", "--source", "jsonl", "--teacher", f"api:{MODEL}@{teacher.url}"]
        words += ["--programs", "2", "--refinements", "0"]
        words += [word for name in _NO_MODELS for word in (f"--{name.replace('_', '-')}", "none")]
        return _run(bench, words, "records.jsonl", flags=engine)


def run(
    bench: Bench,
    method: str,
    options: Sequence[str],
    *,
    backbone: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> Figures:
    """One run of a method."""
    words = ["infer", "--benchmark", "jsonl", "--method", method, "--options", *options]
    return _run(bench, words, "traces.jsonl", backbone=backbone, flags=flags)


def _run(
    bench: Bench,
    words: Sequence[str],
    record: str,
    *,
    backbone: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> Figures:
    """One run of a command, which writes its traces into `record`. Counted from the first lease, when a
    worker has its model, to the end of the run; the processor's time is of the whole run, starting and
    loading included."""
    shapes = bench.shapes
    output = bench.path("infer")
    shutil.rmtree(output, ignore_errors=True)
    command = [
        *(sys.executable, "-m", "videopro", *words),
        *("--root", str(make_questions(bench, shapes.mixed))),
        *("--model", str(bench.ending_checkpoint())),
        *("--backbone", f"dtype={shapes.backbone_dtype}", *backbone),
        *("--output", str(output), *flags),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    started, used = time.monotonic(), _cpu_seconds()
    log = bench.path("infer.log")
    with log.open("w") as stream:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=stream, stderr=stream)
        try:
            while process.poll() is None and not _has_lease(output):
                time.sleep(0.05)
            began = time.monotonic()
            with watch_utilisation() as seen:
                status = process.wait()
        finally:
            # An engine ends with its command, which is given the time for that.
            process.terminate()
            process.wait()
    if status != 0:
        raise RuntimeError(f"videopro {words[0]} ended with status {status}: {log.read_text()[-2000:]}")
    seconds = time.monotonic() - began
    traces = [json.loads(line) for line in (output / record).read_text().splitlines()]
    errors = [trace["error"] for trace in traces if trace.get("error")]
    if errors:
        raise RuntimeError(f"{len(errors)} questions ended in an error, the first: {errors[0]}")
    rounds = [each for trace in traces for each in trace["rounds"]]
    calls = [call for each in rounds if each["execution"] for call in each["execution"]["calls"]]
    return {
        "questions": len(traces),
        "videos": shapes.videos,
        "questions_per_s": round(len(traces) / seconds, 4),
        "s_a_question": round(seconds / len(traces), 3),
        "reply_tokens_a_round": round(sum(trace["cost"]["tokens_out"] for trace in traces) / len(rounds)),
        "modules": len({call["fn"] for call in calls}),
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
