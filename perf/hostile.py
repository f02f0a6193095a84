"""Runs hostile and malformed programs in the executor, and checks that the host is unharmed; then as many
through `videopro infer` with real module models, and checks that the run is complete and can be read.

    python -m perf.hostile [--count 1000] [--seed 0] [--side-by-side 2] [--output FILE]
    python -m perf.hostile --only inference --work FOLDER --output FILE

The programs come from `perf/programs/corpus.py`; `perf/programs/surroundings.py` sets up what they could
harm. A short `perf/soak.py` follows, in which the zygote is killed again and again. The second part
(`perf/programs/inference.py`) can be killed; the same command with its folder resumes it. Exits with status 1
if a program got through, or was lost that could have been run again; if a command failed, or a question is
missing.
"""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from perf.command import run_command
from perf.programs.corpus import corpus
from perf.programs.inference import attack_inference
from perf.programs.surroundings import Surroundings, run_all
from perf.recording import write_record
from perf.soak import SoakSettings, soak, verdict
from perf.timing import timed
from videopro.cli import CommandLine, setting
from videopro.executor import Executor


@dataclass(frozen=True)
class HostileSettings:
    """How many programs, and where the tallies go."""

    count: int = field(default=1000, metadata=setting("programs of each part"))
    seed: int = field(default=0, metadata=setting("of the programs"))
    side_by_side: int = field(default=2, metadata=setting("programs that run at once"))
    kills_for: float = field(default=30.0, metadata=setting("seconds of restarts under kills"))
    only: Literal["both", "executor", "inference"] = field(default="both", metadata=setting("one part alone"))
    work: Path = field(
        default=Path("runs/hostile"), metadata=setting("folder of the runs of the second part, which is kept")
    )
    output: Path | None = field(default=None, metadata=setting("file for the tallies"))


COMMAND = CommandLine(
    "perf.hostile",
    HostileSettings,
    summary="Run hostile and malformed programs in the executor and through `videopro infer`.",
)


def attack(settings: HostileSettings) -> int:
    """Run both parts, print what came of them and write it. Returns 1 if anything went wrong."""
    status = 0
    record: dict[str, Any] = {}
    if settings.output is not None and settings.output.exists():
        record = json.loads(settings.output.read_text(encoding="utf-8"))
    if settings.only != "inference":
        outcome, status = _attack_executor(settings)
        record |= outcome
    if settings.only != "executor":
        record["inference"] = outcome = attack_inference(settings.work, settings.count, settings.seed)
        print(json.dumps(outcome, indent=1))
        complete = outcome["questions_recorded"] == settings.count and not outcome["lines_set_aside"]
        status = status if complete and not any(outcome["exit_statuses"].values()) else 1
    if settings.output is not None:
        write_record(settings.output, record)
    return status


def _attack_executor(settings: HostileSettings) -> tuple[dict[str, Any], int]:
    """What came of the programs in the executor, and 1 if anything went wrong."""
    with timed() as spent, Surroundings() as surroundings, Executor() as executor:
        tallies = run_all(
            corpus(settings.count, settings.seed), executor, surroundings, side_by_side=settings.side_by_side
        )
        harm = surroundings.differences()
        restrictions = executor.restrictions
    print(f"{'family':<30} {'n':>4} {'slowest':>8}  outcomes")
    for name, tally in sorted(tallies.items()):
        outcomes = ", ".join(f"{number} {kind}" for kind, number in tally.outcomes.most_common())
        print(f"{name:<30} {tally.outcomes.total():>4} {tally.slowest:>7.2f}s  {outcomes}")
    total = sum(tally.outcomes.total() for tally in tallies.values())
    print(
        f"\n{total} programs in {len(tallies)} families, {spent}, "
        f"restrictions: {', '.join(restrictions)}, seccomp"
    )
    print("the host is untouched" if not harm else "\n".join(["HARM:", *harm]))
    killed = soak(SoakSettings(seconds=settings.kills_for, threads=4, kill_every=2.0))
    wrong = verdict(killed)
    print(
        f"restarts under kills: {killed['programs']} programs, {killed['kills']} kills, "
        f"{killed['lost_with_a_killed_zygote']} lost with their zygote after a call, "
        f"{killed['processes_left']} processes left{''.join(f'; WRONG: {fault}' for fault in wrong)}"
    )
    record = {
        "programs": total,
        "families": {name: dict(tally.outcomes.most_common()) for name, tally in sorted(tallies.items())},
        "seed": settings.seed,
        "seconds": round(spent.wall_s, 1),
        "cpu_s": round(spent.cpu_s, 1),
        "walls": [*restrictions, "seccomp"],
        "harm": harm,
        "restarts_under_kills": {
            name: killed[name]
            for name in ("seconds", "cpu_s", "programs", "kills", "lost_with_a_killed_zygote", "faults")
        },
        "python": platform.python_version(),
        "kernel": platform.release(),
    }
    return record, 1 if harm or wrong else 0


if __name__ == "__main__":
    run_command(COMMAND, attack)
