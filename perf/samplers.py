"""Compares GRPO that samples with an engine to GRPO that samples by itself: importance ratios and rewards.

    python -m perf.samplers --data grpo.jsonl --program ENGINE [--steps 20] [--groups 4] [--seeds 0 1]

Trains the shipped planner of the pocket model on the same rows with `sampler: local` and `sampler: vllm`,
once for each seed, with the settings of configs/grpo/pocket.yaml. The ratio is that of the update's own pass
to what the engine drew a token with, as TRL logs it (`sampling/importance_sampling_ratio/mean`). Both
samplers draw from the same seeds and not the same tokens: their kernels differ, so the first reply that
differs changes all that follow. What is compared are therefore rewards over steps, not replies. Runs that are
in the file already are not repeated. Writes perf/samplers.json.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from perf import ROOT
from perf.command import run_command
from perf.recording import recorded_rows, write_record
from perf.timing import timed
from videopro.cli import setting

SAMPLERS = ("local", "vllm")
_RATIO = "sampling/importance_sampling_ratio"


@dataclass(frozen=True)
class SamplersSettings:
    """Compare GRPO with an engine to GRPO that samples by itself."""

    data: Path = field(metadata=setting("grpo.jsonl with plans of pocket's questions"))
    program: Path = field(metadata=setting("folder of the environment with vLLM"))
    steps: int = field(default=20, metadata=setting("optimizer steps"))
    groups: int = field(default=4, metadata=setting("prompts per step, with 8 replies each"))
    seeds: tuple[int, ...] = field(default=(0, 1), metadata=setting("seeds of the trainings"))
    work: Path | None = field(default=None, metadata=setting("scratch folder; unset: a temporary one"))
    output: Path = field(
        default=ROOT / "perf" / "samplers.json", metadata=setting("file for the results; its runs stay")
    )


def train(settings: SamplersSettings, sampler: str, seed: int, folder: Path) -> dict[str, Any]:
    """One training. Returns its rewards and ratios by step."""
    output = folder / f"{sampler}-{seed}"
    command = [
        *(sys.executable, "-m", "videopro", "grpo", "--config", "pocket", "--adapter", "pocket-sft"),
        *("--train_data", str(settings.data.resolve()), "--output_dir", str(output), "--seed", str(seed)),
        *("--max_steps", str(settings.steps), "--gradient_accumulation_steps", str(settings.groups)),
        *("--save_strategy", "no", "--sampler", sampler),
    ]
    if sampler == "vllm":
        command += ["--vllm", json.dumps({"program": str(settings.program.resolve())})]
    log = folder / f"{output.name}.log"
    load = round(os.getloadavg()[0], 2)
    with timed() as spent, log.open("w") as file:
        status = subprocess.run(command, cwd=ROOT, stdout=file, stderr=file).returncode
    if status != 0:
        raise SystemExit(f"failed with status {status}: {output.name}\n{log.read_text()[-3000:]}")
    history = json.loads((output / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]
    steps = [line for line in history if "reward" in line]
    ratios = {name: [line.get(f"{_RATIO}/{name}") for line in steps] for name in ("mean", "min", "max")}
    return {
        "rewards": [round(line["reward"], 4) for line in steps],
        **({f"ratio_{name}": values for name, values in ratios.items()} if sampler == "vllm" else {}),
        "wall_s": round(spent.wall_s, 1),
        "load": load,
    }


def compare(settings: SamplersSettings) -> None:
    """Train with each sampler and seed, and record what is new."""
    same = {
        "steps": settings.steps,
        "groups": settings.groups,
        "rows": len(settings.data.read_text(encoding="utf-8").splitlines()),
        "versions": {name: metadata.version(name) for name in ("torch", "transformers", "trl")},
    }
    runs = recorded_rows(settings.output, "runs", same)
    with tempfile.TemporaryDirectory() as temporary:
        folder = settings.work or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for seed in settings.seeds:
            for sampler in SAMPLERS:
                name = f"{sampler}, seed {seed}"
                if name in runs:
                    continue
                runs[name] = train(settings, sampler, seed, folder)
                write_record(settings.output, {**same, "runs": runs})
                print(f"{name}: mean reward {statistics.mean(runs[name]['rewards']):.3f}", flush=True)
    print(f"recorded in {settings.output}; tables: python launch/recorded_tables.py")


if __name__ == "__main__":
    run_command(SamplersSettings, compare, "stopped; the runs that ended are recorded")
