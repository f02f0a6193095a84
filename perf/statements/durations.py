"""How long a newcomer's first steps take."""

from __future__ import annotations

import math

from perf.statements.shared import Statements, listed, record

FIRST_STEPS = "perf/first_steps.json"
_BUSY = 1.0
"""A load average above this, before the first step, says that the machine did other work."""


def _minutes(seconds: float) -> str:
    whole = math.ceil(seconds / 60)
    return f"{whole} minute{'s' if whole > 1 else ''}"


def _first_steps() -> list[str]:
    steps, cores = record(FIRST_STEPS)["steps"], record(FIRST_STEPS)["cores"]
    took = {
        "install": "installing takes {}",
        "demo": "the demo {}",
        "tests": "all checks with {count} tests {}",
    }
    found = {name: steps[name] for name in took if name in steps}
    words = [
        took[name].format(_minutes(step["seconds"]), count=f"{step['tests']:,}" if "tests" in step else "")
        for name, step in found.items()
    ]
    busy = [step["load_before"] for step in found.values() if step["load_before"] > _BUSY]
    beside = f", beside other work (load average {max(busy):g} before)" if busy else ""
    return [f"On {cores} cores, {listed(words)}{beside}."]


STATEMENTS: Statements = {(FIRST_STEPS, "how long the first steps take"): _first_steps}
