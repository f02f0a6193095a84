"""What a change gained at real shapes: the same steps by an earlier checkout and by this one, in turn.

    python -m perf.before_after CHECKOUT            writes perf/before_after.json

Sampling of 16 replies to one prompt after a video of 64 frames, as GRPO samples them; a GRPO step without
programs; an SFT step of two rows with 16 frames. Random weights. Each case is a process of its own, first of
the earlier checkout and then of this one, so that both have the same machine; a case that a file of results
has is not repeated. Beside them, the matrix products of a sampling step by themselves, below which no step
can be.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from perf import ROOT
from perf.battery.cases import Bench
from perf.battery.shapes import SHAPES
from perf.battery.writing import load
from perf.child import call_in_child
from perf.command import run_command
from perf.recorded import print_tables
from perf.recording import commit_of, recorded_rows, write_record
from perf.timing import timed
from videopro.cli import setting

ROWS = 16
_STEPS = 11
# Runs in the earlier checkout too, whose battery has the same functions.
_CODE = f"""
import json, sys
from dataclasses import replace
from pathlib import Path
checkout, shapes, folder, call = sys.argv[1:]
sys.path[0] = checkout
from perf.battery.cases import Bench
from perf.battery.reinforcing import NoPrograms
from perf.battery import fine_tuning, grpo_step, writing
from perf.battery.shapes import SHAPES
bench = Bench(replace(SHAPES[shapes], rows=({ROWS},), group={ROWS}, groups=1), Path(folder))
print(json.dumps(eval(call)))
"""
CASES = {
    "sampling, adapter in the step": (f"writing.write(bench, {ROWS}, 'on')",) * 2,
    # What GRPO samples from: with the adapter in the step before, now from a merged copy.
    "sampling, as GRPO samples": (
        f"writing.write(bench, {ROWS}, 'on')",
        f"writing.write(bench, {ROWS}, 'merged')",
    ),
    "GRPO step": ("grpo_step.step(bench, NoPrograms, 'false')",) * 2,
    "SFT step": ("fine_tuning.sft_step(replace(bench, shapes=replace(bench.shapes, frames=16)), 2)",) * 2,
}
"""By name, what the earlier checkout and this one call."""


@dataclass(frozen=True)
class BeforeAfterSettings:
    """Compare an earlier checkout with this one at the shapes of a real model."""

    checkout: Path = field(metadata=setting("root of the earlier checkout", positional=True))
    shapes: Literal["2b", "tiny"] = field(default="2b", metadata=setting("shapes of the model"))
    work: Path | None = field(
        default=None, metadata=setting("folder of the model and the films; unset: runs/before-after/SHAPES")
    )
    output: Path = field(default=ROOT / "perf" / "before_after.json", metadata=setting("JSON file"))


def case(checkout: Path, shapes: str, folder: Path, call: str) -> dict[str, Any]:
    """The figures of one case in a process of its own, with its CPU seconds and the load before it."""
    load = os.getloadavg()[0]
    with timed() as spent:
        done = subprocess.run(
            [sys.executable, "-c", _CODE, str(checkout), shapes, str(folder), call],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**figures, "load": round(load, 1), **spent.rounded()}


def products_ms(shapes: str, folder: str) -> float:
    """Milliseconds that the products of a step of sampling take, of merged weights with ROWS rows."""
    model: Any = load(Bench(SHAPES[shapes], Path(folder)), "merged").model
    layers = [each for each in model.model.language_model.modules() if isinstance(each, torch.nn.Linear)]
    layers.append(model.get_output_embeddings())
    rows = {layer.in_features: layer.weight.new_ones(ROWS, layer.in_features) for layer in layers}
    times = []
    with torch.inference_mode():
        for _ in range(_STEPS):
            began = time.perf_counter()
            for layer in layers:
                torch.nn.functional.linear(rows[layer.in_features], layer.weight)
            times.append(1000 * (time.perf_counter() - began))
    return round(statistics.median(times), 1)


def measure(request: BeforeAfterSettings) -> None:
    """Run the cases that the file does not have, and write it after each."""
    earlier = request.checkout.resolve()
    same = {"shapes": request.shapes, "cores": os.cpu_count(), "before": commit_of(earlier)}
    cases = recorded_rows(request.output, "cases", same)
    work = (request.work or ROOT / "runs" / "before-after" / request.shapes).absolute()
    for name, (before, after) in CASES.items():
        if name in cases:
            continue
        row = {}
        for side, checkout, call in (("before", earlier, before), ("after", ROOT, after)):
            row[side] = case(checkout, request.shapes, work, call)
            print(f"{name}, {side}: {row[side]}", flush=True)
        cases[name] = {**row, "after_commit": commit_of(ROOT)}
        write_record(request.output, {**same, "cases": cases})
    products = call_in_child("perf.before_after:products_ms", request.shapes, str(work))
    record = {**same, "products_ms": products, "cases": cases}
    write_record(request.output, record)
    print_tables("perf/before_after.json", record)


if __name__ == "__main__":
    run_command(BeforeAfterSettings, measure)
