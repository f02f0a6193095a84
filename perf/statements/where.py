"""What was run where, of perf/ran.yaml and perf/gpu.json: README's list, the sentence of docs/status.md."""

from __future__ import annotations

from collections.abc import Iterator

from perf.statements.shared import Statements, listed, record

RAN, GPU = "perf/ran.yaml", "perf/gpu.json"


def measured_parts() -> list[str]:
    """The parts of launch/gpu_check.sh that have figures of a GPU."""
    parts = record(GPU)["parts"]
    return [letter for letter in parts if any("figures" in case for case in parts[letter]["cases"].values())]


def _phrases(level: str) -> Iterator[str]:
    yield from (row["readme"][level] for row in record(RAN)["rows"] if level in row.get("readme", {}))


def _on_gpu() -> str:
    """The device, and what ran on it and did not."""
    gpu, names = record(GPU), record(RAN)["gpu_check"]
    measured = measured_parts()
    missing = [names[letter] for letter in names if letter not in measured]
    but = f"; not {listed(missing)}" if missing else ""
    shapes = {"8b": "Qwen3-VL-8B", "2b": "Qwen3-VL-2B"}[gpu["shapes"]]
    ran = listed([names[letter] for letter in measured])
    return f"one {gpu['facts']['device']}, random weights of {shapes}'s shapes: {ran}{but}"


def _readme() -> list[str]:
    device = record(GPU)["facts"]["device"]
    levels = {
        "here": "A laptop-sized machine (two CPU cores)",
        "random": "The same machine, untrained models (random weights)",
        "gpu": f"One GPU ({device}), untrained models",
        "never": "Never",
    }
    return [
        f"- **{title[0].upper()}{title[1:]}:** {'; '.join(_phrases(level))}."
        for level, title in levels.items()
    ]


def _status() -> list[str]:
    letters = ", ".join(measured_parts())
    cases = [case for part in record(GPU)["parts"].values() for case in part["cases"].values()]
    minutes = sum(case.get("seconds", 0.0) for case in cases) / 60
    return [
        f"""Parts {letters} of this check ran on a GPU ({_on_gpu()}); their cases took
            {minutes:.0f} minutes. The [tables](results/real-shapes.md#on-an-h100) say which cases did not.
            Nothing else in this project has run on a GPU. On a machine that has one,"""
    ]


STATEMENTS: Statements = {
    (RAN, "what was run where"): _readme,
    (GPU, "what ran on a GPU"): _status,
}
