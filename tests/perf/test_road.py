"""The recorded plans of the shipped roads are what the command expects today."""

import json

import pytest

from perf.road import GPUS, RECORD, expected_stages, shipped
from tests.support import ROOT


@pytest.mark.parametrize("name", GPUS)
def test_the_recorded_plan_is_that_of_the_shipped_config(name: str) -> None:
    recorded = json.loads((ROOT / RECORD).read_text())[name]
    assert recorded["gpus"] == GPUS[name]
    # What the synthesis gives is read from annotations: perf/training_data.json has the same.
    assert expected_stages(shipped(name), recorded["synthesis"]) == recorded["stages"]


def test_it_is_the_plan_of_the_synthesis_page() -> None:
    paper = json.loads((ROOT / RECORD).read_text())["paper"]
    plan = json.loads((ROOT / "perf" / "training_data.json").read_text())["plan"]
    assert paper["synthesis"].items() <= plan.items()
    (synthesis,) = [stage for stage in paper["stages"] if stage["stage"] == "synthesize"]
    assert synthesis["dollars"] == plan["teacher"]["cost"]
    assert synthesis["seconds"][1] * paper["gpus"] / 3600 == pytest.approx(plan["hours"]["model"])


def test_what_a_pilot_expected_is_near_what_the_stages_took() -> None:
    stages = json.loads((ROOT / "perf" / "pilot.json").read_text())["stages"]
    for name, stage in stages.items():
        expected, took = stage["expected"][1], stage["took"]
        if max(expected, took) > 20:
            assert max(expected, took) / min(expected, took) <= 1.5, name
        else:
            assert abs(expected - took) <= 10, name
