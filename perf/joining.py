"""How full the steps are in which replies are written, by an earlier checkout and by this one, in turn.

    python -m perf.joining CHECKOUT [--callers 8 16 64] [--spreads 0 0.5 1]     writes perf/joining.json

Callers ask the pocket model for one reply after another, about two videos' prefixes, as programs in flight
do. The model has 8 slots on a CPU. Each reply ends after a drawn number of tokens: log-normal with this
spread (0: all equal), 48 on average. Counted are the replies that each step continues, until the last request
has been made: from then on fewer callers wait. The time is that of all replies.
"""

from __future__ import annotations

import json
import os
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
_CODE = """
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
lengths = np.clip(draw.lognormal(np.log(48) - spread**2 / 2, spread, callers * each), 4, 480).astype(int)
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
        (reply,) = shared.generate_batch([request], Sampling(480, temperature=1.0))
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
_SLOTS = 8


@dataclass(frozen=True)
class JoiningSettings:
    """Which checkout, and which loads."""

    checkout: Path = field(metadata=setting("root of the earlier checkout", positional=True))
    callers: tuple[int, ...] = option((8, 16, 64), "callers at the same time")
    spreads: tuple[float, ...] = option((0.0, 0.5, 1.0), "spreads of the logarithm of the lengths")
    replies: int = option(192, "replies in all, about equally many for each caller")
    output: Path = option(ROOT / "perf" / "joining.json", "JSON file")


def compare(settings: JoiningSettings) -> None:
    """Measure each load with both checkouts, and write the file."""
    checkouts = {"before": settings.checkout.resolve(), "now": ROOT}
    loads = []
    for callers in settings.callers:
        for spread in settings.spreads:
            load: dict[str, Any] = {"callers": callers, "spread": spread}
            for when, checkout in checkouts.items():
                load[when] = _measure(checkout, callers, spread, max(1, settings.replies // callers))
                print(f"{callers} callers, spread {spread}, {when}: {load[when]}", flush=True)
            loads.append(load)
    commits = {when: commit_of(path) for when, path in checkouts.items()}
    write_record(
        settings.output, {"commits": commits, "cores": os.cpu_count(), "slots": _SLOTS, "loads": loads}
    )


def _measure(checkout: Path, callers: int, spread: float, each: int) -> dict[str, float]:
    measured = subprocess.run(
        [sys.executable, "-c", _CODE, str(callers), str(spread), str(each)],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    row: dict[str, float] = json.loads(measured.stdout.splitlines()[-1])
    return row


if __name__ == "__main__":
    run_command(JoiningSettings, compare)
