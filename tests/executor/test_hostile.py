"""A hundred hostile and malformed programs, every family among them; `perf/hostile.py` runs a thousand."""

from __future__ import annotations

import dataclasses

from perf.programs.corpus import FAMILIES, corpus
from perf.programs.surroundings import LIMITS, Surroundings, run_all
from videopro.executor import Executor

QUICK = dataclasses.replace(LIMITS, cpu_seconds=0.1, wall_seconds=1.5)
SWALLOWED = "breaches that are swallowed"
# These exceed another budget, which has to decide: on a busy machine the wall clock must not run out first.
PATIENT = dataclasses.replace(QUICK, wall_seconds=30.0)


def test_the_host_is_untouched() -> None:
    programs = list(corpus(100, seed=11))
    assert len(programs) == 100
    assert len(FAMILIES) >= 20
    with Surroundings() as surroundings, Executor() as executor:
        assert surroundings.differences() == []
        others = [case for case in programs if case[0] != SWALLOWED]
        swallowed = [case for case in programs if case[0] == SWALLOWED]
        tallies = run_all(others, executor, surroundings, limits=QUICK)
        tallies |= run_all(swallowed, executor, surroundings, limits=PATIENT)
        assert surroundings.differences() == []
        assert executor.run("def execute_command():\n    return 1", {}, {}).value == 1
    assert set(tallies) == set(FAMILIES)
    for name in ("files", "processes", "signals", "network"):
        assert set(tallies[name].outcomes) <= {"PermissionError", "OSError", "ok", "WallLimit", "CpuLimit"}, (
            name
        )
    assert set(tallies["channels between programs"].outcomes) == {"ok"}
    assert set(tallies[SWALLOWED].outcomes) <= {"CpuLimit", "OutputLimit", "CallLimit", "FrameLimit"}
    for name in ("floods of calls", "loops", "sleeps", "memory", "malformed programs"):
        assert "ok" not in tallies[name].outcomes or name in ("memory", "malformed programs"), name


def test_the_corpus_is_the_same_for_the_same_seed() -> None:
    assert list(corpus(60, seed=3)) == list(corpus(60, seed=3))
    assert list(corpus(60, seed=3)) != list(corpus(60, seed=4))
    assert len({text for _, text in corpus(1000, seed=0)}) > 800


def test_harm_would_be_detected() -> None:
    with Surroundings() as surroundings:
        surroundings.secret.write_text("changed")
        (surroundings.folder / "new").write_text("x")
        assert len(surroundings.differences()) == 1
        surroundings.other.kill()
        surroundings.other.wait()
        assert "another process was ended" in surroundings.differences()
