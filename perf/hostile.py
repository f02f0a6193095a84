"""Runs hostile and malformed programs in the executor, and checks that the host is unharmed.

    python perf/hostile.py [--count 1000] [--seed 0] [--side-by-side 2] [--json FILE]

The programs come from `tests/support/hostile_programs.py`; `tests/support/hostile_world.py` sets up what they
could harm. A short `perf/soak.py` follows, in which the zygote is killed again and again. Exits with status 1
if a program got through, or if a program was lost that could have been run again.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf.soak import soak, verdict
from tests.support.hostile_programs import corpus
from tests.support.hostile_world import Surroundings, run_all
from videopro.executor import Executor


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--side-by-side", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the tallies here")
    parser.add_argument("--kills-for", type=float, default=30.0, help="seconds of restarts under kills")
    options = parser.parse_args()
    begun = time.monotonic()
    with Surroundings() as surroundings, Executor() as executor:
        tallies = run_all(
            corpus(options.count, options.seed), executor, surroundings, side_by_side=options.side_by_side
        )
        harm = surroundings.differences()
        restrictions = executor.restrictions
    seconds = time.monotonic() - begun
    print(f"{'family':<30} {'n':>4} {'slowest':>8}  outcomes")
    for name, tally in sorted(tallies.items()):
        outcomes = ", ".join(f"{number} {kind}" for kind, number in tally.outcomes.most_common())
        print(f"{name:<30} {tally.outcomes.total():>4} {tally.slowest:>7.2f}s  {outcomes}")
    total = sum(tally.outcomes.total() for tally in tallies.values())
    print(
        f"\n{total} programs in {len(tallies)} families, {seconds:.0f} s, "
        f"restrictions: {', '.join(restrictions)}, seccomp"
    )
    print("the host is untouched" if not harm else "\n".join(["HARM:", *harm]))
    killed = soak(argparse.Namespace(seconds=options.kills_for, threads=4, kill_every=2.0))
    wrong = verdict(killed)
    print(
        f"restarts under kills: {killed['programs']} programs, {killed['kills']} kills, "
        f"{killed['lost_with_a_killed_zygote']} lost with their zygote after a call, "
        f"{killed['processes_left']} processes left{''.join(f'; WRONG: {what}' for what in wrong)}"
    )
    if options.json:
        record = {
            "programs": total,
            "families": {name: dict(tally.outcomes.most_common()) for name, tally in sorted(tallies.items())},
            "seed": options.seed,
            "seconds": round(seconds, 1),
            "walls": [*restrictions, "seccomp"],
            "harm": harm,
            "restarts_under_kills": {
                name: killed[name]
                for name in ("seconds", "programs", "kills", "lost_with_a_killed_zygote", "faults")
            },
            "python": platform.python_version(),
            "kernel": platform.release(),
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 1 if harm or wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
