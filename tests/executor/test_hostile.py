"""Every attack once, and whether the host is untouched. The second tier runs a thousand programs, and others
while their zygotes are killed; `python -m tests.stress.hostile` does so for any time.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests.stress.hostile import LIMITS, Attack, Surroundings, attack, soak
from tests.stress.hostile_programs import FAMILIES, each_once
from tests.support.sandbox_runs import ONE
from videopro.executor import Executor

SLOW = dataclasses.replace(LIMITS, cpu_seconds=0.1, wall_seconds=1.0)
# Another budget than that of time has to decide, also on a busy machine.
PATIENT = dataclasses.replace(LIMITS, cpu_seconds=0.3, wall_seconds=30.0)


def test_every_attack_ends_as_it_should_and_leaves_the_host_untouched() -> None:
    with Surroundings() as surroundings, Executor() as executor:
        slow, patient = (Attack(executor, surroundings, limits) for limits in (SLOW, PATIENT))
        for name, text in each_once(11, slow=False):
            (slow if FAMILIES[name].slow else patient).run(name, text)
        assert surroundings.differences() == []
        assert executor.run(ONE, {}, {}).value == 1
    ends = slow.ends | patient.ends
    assert ends.keys() == FAMILIES.keys()
    for name, family in FAMILIES.items():
        # On a busy machine the wall clock runs out before the processor time.
        allowed = {*family.ends.split(), *(["WallLimit"] if family.slow else [])}
        assert not family.ends or ends[name].keys() <= allowed, name


@pytest.mark.long
def test_a_thousand_hostile_programs_and_killed_zygotes() -> None:
    assert attack(1000, 0)["harm"] == []
    result = soak(20.0, threads=4, kill_every=2.0)
    assert result["wrong"] == []
    assert result["kills"] > 0
