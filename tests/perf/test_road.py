"""The recorded plans of the shipped roads are what the command expects today."""

import json

import pytest

from perf.road import GPUS, RECORD, expected_stages, shipped
from tests.support import ROOT
from videopro.commands.reproduce.estimates import Estimate


@pytest.mark.parametrize("name", GPUS)
def test_the_recorded_plan_is_that_of_the_shipped_config(name: str) -> None:
    recorded = json.loads((ROOT / RECORD).read_text())[name]
    (synthesis,) = [dict(stage) for stage in recorded["stages"] if stage["stage"] == "synthesize"]
    del synthesis["stage"]
    assert recorded["gpus"] == GPUS[name]
    # What the synthesis gives is read from annotations: perf/training_data.json has the same.
    stages = expected_stages(shipped(name), recorded["rows"], Estimate(**synthesis))
    assert stages == recorded["stages"]


def test_it_is_the_plan_of_the_synthesis_page() -> None:
    paper = json.loads((ROOT / RECORD).read_text())["paper"]
    plan = json.loads((ROOT / "perf" / "training_data.json").read_text())["plan"]
    assert paper["rows"] == {name: plan["rows"][name]["rows"] for name in ("sft", "grpo")}
    (synthesis,) = [stage for stage in paper["stages"] if stage["stage"] == "synthesize"]
    assert (synthesis["dollars"], synthesis["gpu_hours"]) == (plan["teacher"]["cost"], plan["hours"]["model"])
