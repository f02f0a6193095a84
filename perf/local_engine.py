"""What the local engine does in a step, by an earlier checkout and by this one, in turn.

    python -m perf.local_engine CHECKOUT [--callers 8 16 64] [--spreads 0.5 1]

It writes perf/local_engine.json.

Joining: callers ask the pocket model for one reply after another, about two videos' prefixes, as programs in
flight do. The model has 8 slots on a CPU. Each reply ends after a drawn number of tokens: log-normal with
this spread of its logarithm (0: all equal), 32 on average. Counted are the replies that each step continues,
until the last request has been made: from then on fewer callers wait. The time is that of all replies.

Adapter: 8 replies of 64 tokens by the pocket model, without and with its shipped planner's adapter: the
operators of a step, CPU time a token (the least of all rounds, the checkouts in turn), how many replies are
the same by both checkouts, and how far the log-probabilities of a reply's tokens lie apart, on average and at
most, until the first token that differs; in bfloat16 also how far they lie from those in float32.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perf import ROOT
from perf.command import run_command
from perf.recording import commit_of, write_record
from videopro.cli import option, setting

# It runs with the names of either checkout.
_JOINING = """
import json, sys, threading, time
import numpy as np
from videopro.backbones import GenerateRequest, Sampling, load_backbone
from videopro.backbones.qwen import replies, runner
from videopro.backbones.qwen.static_batch import StaticBatch
from videopro.backbones.wrappers import share_backbone
from videopro.pocket import model_dir
from videopro.video import Frame
callers, spread, each = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
draw = np.random.default_rng(0)
lengths = np.clip(draw.lognormal(np.log(32) - spread**2 / 2, spread, callers * each), 4, 320).astype(int)
begun, rows, is_step = [], [], [False]

class Drawn(replies.Replies):
    def __init__(self, count, *rest):
        del begun[:-count]
        super().__init__(count, *rest)
    def is_open(self, number):
        return self._as_drawn(number).is_open(number)
    def left(self, number):
        return self._as_drawn(number).left(number)
    def _extend(self, number, *tokens):
        self._as_drawn(number)._extend(number, *tokens)
    def _as_drawn(self, number):
        self._limit = lengths[begun[number][0]]
        return super()
    def add(self, numbers, tokens, logprobs):
        if is_step[0]:
            rows.append(sum(map(self.is_open, numbers)))
        is_step[0] = False
        super().add(numbers, tokens, logprobs)

def noted(seeds, tokens, uniforms=runner.uniforms):
    begun.extend(seeds)
    return uniforms(seeds, tokens)

def step(batch, step=StaticBatch.step):
    is_step[0] = True
    step(batch)

runner.Replies, runner.uniforms, StaticBatch.step = Drawn, noted, step
backbone = load_backbone(str(model_dir()))
backbone._runner._ends = frozenset()
shared = share_backbone(backbone)
pictures = draw.integers(0, 255, (2, 8, 64, 64, 3), dtype=np.uint8)
videos = [[Frame(picture, float(second)) for second, picture in enumerate(video)] for video in pictures]
prefixes = [shared.prefix(video) for video in videos]
left, lock, at_end = list(range(callers * each)), threading.Lock(), []

def call():
    while True:
        with lock:
            if not left:
                return
            number = left.pop()
            if not left:
                at_end.append(len(rows))
        request = GenerateRequest(prefixes[number % 2], "Which of %d?" % number, seed=number)
        (reply,) = shared.generate_batch([request], Sampling(320, temperature=1.0))
threads = [threading.Thread(target=call) for _ in range(callers)]
wall, cpu = time.perf_counter(), time.process_time()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
full = rows[:at_end[0]]
print(json.dumps({"rows": round(sum(full) / len(full), 2), "steps": len(rows), "counted": len(full),
    "tokens": int(lengths.sum()), "wall_s": round(wall, 2), "cpu_s": round(cpu, 2)}))
"""
_ADAPTER = """
import json, sys, time
from torch.utils._python_dispatch import TorchDispatchMode
from videopro.backbones import GenerateRequest, Sampling, load_backbone
from videopro.backbones.qwen.static_batch import StaticBatch
from videopro.pocket import adapter_dir, model_dir
import numpy as np
from videopro.video import Frame

class Counted(TorchDispatchMode):
    count = 0
    def __torch_dispatch__(self, function, types, arguments=(), settings=None):
        Counted.count += 1
        return function(*arguments, **settings or {})

settings = {"adapter": str(adapter_dir("pocket-sft"))} if sys.argv[2] == "adapter" else {}
backbone = load_backbone(str(model_dir()), dtype=sys.argv[1], **settings)
backbone._runner._ends = frozenset()
pictures = np.random.default_rng(0).integers(0, 255, (8, 64, 64, 3), dtype=np.uint8)
prefix = backbone.prefix([Frame(picture, float(second)) for second, picture in enumerate(pictures)])
asked = [GenerateRequest(prefix, "Which of %d?" % seed, seed=seed) for seed in range(8)]
write = lambda: backbone.generate_batch(asked, Sampling(64, temperature=1.0))
write()
seconds = []
for _ in range(5):
    began = time.process_time()
    replies = write()
    seconds.append(time.process_time() - began)
counts = []
def step(batch, step=StaticBatch.step):
    with Counted():
        before = Counted.count
        step(batch)
        counts.append(Counted.count - before)
StaticBatch.step = step
write()
print(json.dumps({"operators": min(counts), "cpu_ms_a_token": round(1000 * min(seconds) / 64, 2),
    "ids": [reply.token_ids for reply in replies], "logprobs": [reply.logprobs for reply in replies]}))
"""
_SLOTS = 8


@dataclass(frozen=True)
class EngineSettings:
    """Which checkout, and which loads."""

    checkout: Path = field(metadata=setting("root of the earlier checkout", positional=True))
    callers: tuple[int, ...] = option((8, 16, 64), "callers at the same time")
    spreads: tuple[float, ...] = option((0.5, 1.0), "spreads of the logarithm of the lengths")
    replies: int = option(128, "replies in all, about equally many for each caller")
    rounds: int = option(2, "times that the steps are timed by each checkout")
    output: Path = option(ROOT / "perf" / "local_engine.json", "JSON file")


def compare(settings: EngineSettings) -> None:
    """Measure each with both checkouts, and write the file."""
    checkouts = {"before": settings.checkout.resolve(), "now": ROOT}
    loads = []
    for callers in settings.callers:
        for spread in settings.spreads:
            load: dict[str, Any] = {"callers": callers, "spread": spread}
            for when, checkout in checkouts.items():
                load[when] = _run(checkout, _JOINING, callers, spread, max(1, settings.replies // callers))
                print(f"{callers} callers, spread {spread}, {when}: {load[when]}", flush=True)
            loads.append(load)
    steps = _steps(checkouts, settings.rounds)
    commits = {when: commit_of(path) for when, path in checkouts.items()}
    record = {"commits": commits, "cores": os.cpu_count(), "slots": _SLOTS, "loads": loads}
    write_record(settings.output, {**record, "steps": steps})


def _run(checkout: Path, code: str, *values: float | str) -> dict[str, Any]:
    measured = subprocess.run(
        [sys.executable, "-c", code, *map(str, values)],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    row: dict[str, Any] = json.loads(measured.stdout.splitlines()[-1])
    return row


def _steps(checkouts: dict[str, Path], rounds: int) -> dict[str, Any]:
    steps: dict[str, Any] = {}
    exact: dict[str, dict[str, Any]] = {}
    for dtype, adapter in (("fp32", "no adapter"), ("fp32", "adapter"), ("bf16", "adapter")):
        runs = [
            {when: _run(path, _ADAPTER, dtype, adapter) for when, path in checkouts.items()}
            for _ in range(rounds)
        ]
        row: dict[str, Any] = _difference(*runs[0].values())
        for when, written in runs[0].items():
            cpu = min(run[when]["cpu_ms_a_token"] for run in runs)
            row[when] = {"operators": written["operators"], "cpu_ms_a_token": cpu}
            if dtype == "bf16":
                row[when]["from_fp32"] = _difference(exact["before"], written)["apart_mean"]
        exact = runs[0]
        steps[f"{adapter}, {dtype}"] = row
        print(f"{adapter}, {dtype}: {row}", flush=True)
    return steps


def _difference(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    apart: list[float] = []
    for left, right, *scores in zip(
        one["ids"], other["ids"], one["logprobs"], other["logprobs"], strict=True
    ):
        pairs = enumerate(zip(left, right, strict=True))
        same = next((number for number, pair in pairs if pair[0] != pair[1]), len(left))
        apart += [abs(first - second) for first, second in list(zip(*scores, strict=True))[:same]]
    return {
        "same_replies": sum(left == right for left, right in zip(one["ids"], other["ids"], strict=True)),
        "replies": len(one["ids"]),
        "apart_mean": float(f"{statistics.mean(apart):.2g}"),
        "apart_most": float(f"{max(apart):.2g}"),
    }


if __name__ == "__main__":
    run_command(EngineSettings, compare)
