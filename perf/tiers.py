"""How long the two tiers of tests take, and each kind of test in the second.

    python -m perf.tiers                      all parts; live needs an engine's package or a network for it
    python -m perf.tiers first kills          only these; the others stay as they were recorded
    python -m perf.tiers folders --before OLD the first tier by folder, here and in the checkout OLD

Writes perf/tiers.json, of which the table of docs/results/tests.md is made (launch/recorded_tables.py). Run
it with nothing else on the machine: the load average before each part is recorded, and shown.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from perf import ROOT
from perf.command import run_command
from perf.recording import commit_of, recorded_rows, write_record
from videopro.cli import setting
from videopro.errors import ConfigError

MARKERS = ("kills", "browser", "two_processes", "long", "wheel", "road")
"""Of the second tier (pyproject.toml); the other parts have a script of their own."""
SCRIPTS = {"first": "test.sh", "ray": "ray_tests.sh", "live": "live.sh"}
PARTS = ("first", *MARKERS, "ray", "live")
FOLDERS = "folders"


@dataclass(frozen=True)
class TiersSettings:
    """Time the two tiers of tests."""

    parts: tuple[str, ...] = field(
        default=(), metadata=setting(f"of {', '.join(PARTS)}; none: all", positional=True)
    )
    before: Path | None = field(
        default=None, metadata=setting("with the part folders: a checkout of an earlier state")
    )
    output: Path = field(default=ROOT / "perf" / "tiers.json", metadata=setting("JSON file"))


def command(part: str) -> list[str]:
    """What runs a part."""
    if part in SCRIPTS:
        return ["bash", f"launch/{SCRIPTS[part]}"]
    return [sys.executable, "-m", "pytest", "--numprocesses", "2", "--dist", "worksteal", "-m", part]


def take(part: str) -> dict[str, object]:
    """Run a part in this checkout, and return what it took. Raises SystemExit if it fails."""
    load, start = os.getloadavg()[0], time.monotonic()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command(part), cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    seconds = time.monotonic() - start
    if done.returncode:
        raise SystemExit(f"{part}: ended with status {done.returncode}:\n{done.stdout[-2000:]}")
    # live.sh runs pytest twice.
    ends = re.findall(r"\b(\d+) passed\b.* in ([\d.]+)s", done.stdout)
    return {
        "tests": sum(int(passed) for passed, _ in ends),
        "seconds": round(seconds),
        "pytest_seconds": round(sum(float(lasted) for _, lasted in ends)),
        "load_before": round(load, 1),
        "commit": commit_of(ROOT),
    }


def folders_of(checkout: Path) -> dict[str, dict[str, float]]:
    """The first tier of a checkout by folder of tests: how many tests, the sum of their seconds in two
    processes, and lines of Python. The environment's packages are those of this checkout."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        others = " and ".join(f"not {marker}" for marker in (*MARKERS, "ray", "live", "live_untrusted"))
        words = ["--numprocesses", "2", "--dist", "worksteal", "-m", others, "--junitxml", str(report)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(checkout)}
        subprocess.run([sys.executable, "-m", "pytest", *words], cwd=checkout, env=environment, check=False)
        cases = list(ElementTree.parse(report).iter("testcase"))
    found: dict[str, dict[str, float]] = {}
    for path in (checkout / "tests").rglob("*.py"):
        inside = path.relative_to(checkout / "tests").parts
        name = inside[0] if len(inside) > 1 else "tests"
        row = found.setdefault(name, {"tests": 0, "seconds": 0.0, "lines": 0})
        row["lines"] += len(path.read_text(encoding="utf-8").splitlines())
    for case in cases:
        names = str(case.get("classname")).split(".")
        row = found[names[1] if names[1] in found else "tests"]
        row["tests"] += 1
        row["seconds"] = round(row["seconds"] + float(case.get("time", 0)), 1)
    return dict(sorted(found.items()))


def measure(given: TiersSettings) -> None:
    """Run the parts and write the file. Raises ConfigError for an unknown part."""
    if given.parts == (FOLDERS,) and given.before is not None:
        record = json.loads(given.output.read_text(encoding="utf-8"))
        states = [given.before.resolve(), ROOT]
        record[FOLDERS] = {commit_of(state): folders_of(state) for state in states}
        write_record(given.output, record)
        return
    unknown = set(given.parts) - set(PARTS)
    if unknown:
        raise ConfigError(f"unknown part {min(unknown)!r}; parts: {', '.join(PARTS)}")
    same: dict[str, Any] = {"cores": os.cpu_count()}
    parts = recorded_rows(given.output, "parts", same)
    for part in PARTS:
        if part in given.parts or not given.parts:
            parts[part] = take(part)
            print(f"{part}: {parts[part]}", flush=True)
            kept = json.loads(given.output.read_text(encoding="utf-8")) if given.output.exists() else {}
            write_record(given.output, {**kept, **same, "parts": parts})


if __name__ == "__main__":
    run_command(TiersSettings, measure, "stopped; what was measured before is kept")
