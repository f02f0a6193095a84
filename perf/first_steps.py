"""How long a newcomer's first steps take, in a fresh clone: installing, the demo, all checks and tests.

    python -m perf.first_steps                    all three; needs a network for pip and 10 GB of disk
    python -m perf.first_steps install demo       only these; the others stay as they were recorded

Writes perf/first_steps.json, of which README and docs/index.md are made (launch/recorded_tables.py). Run it
with nothing else on the machine: the load average before each step is recorded, and the first one is said if
it is high.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from perf import ROOT
from perf.command import run_command
from perf.recording import commit_of, recorded_rows, write_record
from videopro.cli import setting
from videopro.errors import ConfigError

STEPS = {
    "install": ["bash", "-c", "source launch/setup.sh ''"],
    "demo": ["bash", "launch/demo.sh"],
    "tests": ["bash", "launch/test.sh"],
}


@dataclass(frozen=True)
class FirstStepsSettings:
    """Time a newcomer's first steps, in a fresh clone."""

    steps: tuple[str, ...] = field(
        default=(), metadata=setting(f"of {', '.join(STEPS)}; none: all", positional=True)
    )
    output: Path = field(default=ROOT / "perf" / "first_steps.json", metadata=setting("JSON file"))


def passed(printed: str) -> int | None:
    """How many tests passed, in what pytest printed at its end."""
    counts = re.findall(r"\b(\d+) passed\b", printed)
    return int(counts[-1]) if counts else None


def take(step: str, clone: Path) -> dict[str, object]:
    """Do a step in a clone, and return what it took. Raises SystemExit if it fails."""
    load, start = os.getloadavg()[0], time.monotonic()
    # As from a new shell, on a machine without pocket videos.
    variables = {
        name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")
    }
    variables["VIDEOPRO_CACHE"] = str(clone.parent / "cache")
    done = subprocess.run(STEPS[step], cwd=clone, env=variables, stdout=subprocess.PIPE, text=True)
    seconds = time.monotonic() - start
    if done.returncode:
        raise SystemExit(f"{step}: ended with status {done.returncode}:\n{done.stdout[-2000:]}")
    tests = passed(done.stdout) if step == "tests" else None
    counted = {} if tests is None else {"tests": tests}
    return {"seconds": round(seconds), "load_before": round(load, 1), "commit": commit_of(clone), **counted}


def measure(request: FirstStepsSettings) -> None:
    """Take the steps and write the file. Raises ConfigError for an unknown step."""
    unknown = set(request.steps) - set(STEPS)
    if unknown:
        raise ConfigError(f"unknown step {min(unknown)!r}; steps: {', '.join(STEPS)}")
    same = {"cores": os.cpu_count()}
    steps = recorded_rows(request.output, "steps", same)
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "videopro"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        # Each step finds what a newcomer has when it begins.
        chosen = [step for step in STEPS if step in request.steps or not request.steps]
        for step in STEPS:
            if step in chosen or (step == "install" and chosen):
                outcome = take(step, clone)
                if step in chosen:
                    steps[step] = outcome
                    print(f"{step}: {outcome}")
    versions = {"python": sys.version.split()[0]}
    write_record(request.output, {**same, "versions": versions, "steps": steps})


if __name__ == "__main__":
    run_command(FirstStepsSettings, measure, "stopped; what was measured before is kept")
