"""What the walk by a real engine has to leave: replies of each version of the policy, and answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml
from safetensors.torch import load_file

from tests.support.miniature.planner_checks import json_lines

RATIO_WITHIN = 0.02
"""How far the mean importance ratio of a step may be from 1: the engine and the trainer score the same reply
with the same weights, and differ by rounding."""


def engine_checks(folder: Path) -> Iterator[tuple[str, bool]]:
    """Each thing that has to be so, and whether it is."""
    walked = folder / "engine"
    yield from _rollouts(walked)
    yield from _answers(walked / "runs")
    sft, grpo = (
        load_file(where / "adapter_model.safetensors")
        for where in (folder / "output" / "sft", walked / "grpo")
    )
    yield (
        "GRPO with an engine moved the adapter",
        any(not tensor.equal(sft[name]) for name, tensor in grpo.items()),
    )


def _rollouts(walked: Path) -> Iterator[tuple[str, bool]]:
    settings = yaml.safe_load((walked / "configs" / "grpo.yaml").read_text())
    versions = Counter(row["policy_version"] for row in json_lines(walked / "grpo" / "programs.jsonl"))
    # A group of four in each of two processes, by a policy that has had no update, then one, and so on.
    each = settings["per_device_train_batch_size"] * 2
    expected = dict.fromkeys(range(settings["max_steps"]), each)
    yield f"the engines wrote {each} replies with each version of the policy", versions == expected
    state = json.loads((walked / "grpo" / "trainer_state.json").read_text())
    ratios = [line[_RATIO] for line in state["log_history"] if _RATIO in line]
    yield (
        f"the importance ratio of {len(ratios)} steps is near 1: {ratios}",
        len(ratios) == settings["max_steps"] and all(abs(ratio - 1) <= RATIO_WITHIN for ratio in ratios),
    )


_RATIO = "sampling/importance_sampling_ratio/mean"


def _answers(runs: Path) -> Iterator[tuple[str, bool]]:
    for name in ("native", "videopro"):
        folder = runs / name / "lvbench"
        summary = json.loads((folder / "summary.json").read_text())
        answered = summary["n"] == 4 and summary["coverage"] == 1
        yield f"{name} with an engine answered 4 questions", answered
        yield f"{name} with an engine has no errors", not summary["errors"] and not summary["exceptions"]
        logs = [path.read_text() for path in folder.glob("work/logs/rank*-engine.log")]
        yield f"{name} had an engine for each process", len(logs) == 2 and all("vllm" in log for log in logs)
