"""The requests, cost and rows that the synthesis expects, from its own plan, made from annotations alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from videopro.cli import build_settings
from videopro.commands.reproduce.estimates import Estimate
from videopro.commands.reproduce.road import Road
from videopro.commands.reproduce.stages import Stage
from videopro.data_synthesis import run as synthesis
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.errors import ConfigError


class Expected(NamedTuple):
    """The expected cost of a synthesis, and its rows for "sft" and "grpo"."""

    takes: Estimate
    rows: Mapping[str, int]


def expected_of_synthesis(road: Road, stages: Sequence[Stage]) -> Expected | None:
    """The expected cost and output of the stage `synthesize`, after printing its plan; None if it is not
    among the stages, or its annotations are not downloaded yet.

    Raises ConfigError for invalid settings, and if it would give no rows for a training that follows, before
    the teacher is paid.
    """
    config = road.config
    if "synthesize" not in [stage.kind for stage in stages]:
        return None
    settings = build_settings(SynthesisConfig, road.synthesis_settings(), "synthesize")
    for part in road.benchmarks():
        is_read = part.name == config.source or road.excluded(part) in settings.exclude
        # Still to be downloaded, or only partly: what is missing is named among the findings.
        if is_read and not getattr(road.sizes[part.folder], "is_counted", False):
            return None
    plan = synthesis.run(replace(settings, plan=True))
    rows = {name: int(plan["rows"][name]["rows"]) for name in ("sft", "grpo")}
    needed = {
        "sft": config.makes_sft_rows and config.has_teacher,
        "grpo": config.makes_grpo_rows and config.grpo_prompts == "teacher",
    }
    for name, is_needed in needed.items():
        if is_needed and not rows[name]:
            raise ConfigError(
                f"the synthesis would give no rows for {name}, as all videos may go to the other training; "
                "set another --synthesize seed=N or sft_share=SHARE, or use more questions"
            )
    teacher = plan["teacher"]
    works_on = f"{plan['questions']:,} questions"
    if teacher["requests"]:
        tokens = (teacher["tokens in"] + teacher["tokens out"]) / 1e6
        works_on += f", {teacher['requests']:,} requests and {tokens:,.1f} million teacher tokens"
    hours = float(plan["hours"]["model"]) if road.gpus else None
    basis = f"the synthesis's own plan ({plan['rests on']['time']})"
    return Expected(Estimate(works_on, hours, teacher["cost"], basis), rows)
