"""How long a newcomer's first steps take."""

from __future__ import annotations

import math

from perf.statements.shared import Statements, listed, record

FIRST_STEPS = "perf/first_steps.json"
_BUSY = 1.5
"""A load average above this, before the first step, says that the machine did other work; what has just ended
still counts in it for some minutes, as one step does before the next."""


def _minutes(seconds: float) -> str:
    minutes = math.ceil(seconds / 60)
    return f"{minutes} minute{'s' if minutes > 1 else ''}"


def _first_steps() -> list[str]:
    steps, cores = record(FIRST_STEPS)["steps"], record(FIRST_STEPS)["cores"]
    took = {
        "install": "installing takes {}",
        "demo": "the demo {}",
        "tests": "all checks with {count} tests {}",
    }
    durations = {name: steps[name] for name in took if name in steps}
    phrases = [
        took[name].format(_minutes(step["seconds"]), count=f"{step['tests']:,}" if "tests" in step else "")
        for name, step in durations.items()
    ]
    load = next(iter(durations.values()))["load_before"]
    beside = f", beside other work (load average {load:g} before)" if load > _BUSY else ""
    return [f"On {cores} cores, {listed(phrases)}{beside}."]


STATEMENTS: Statements = {(FIRST_STEPS, "how long the first steps take"): _first_steps}
