"""Kills commands again and again, gives each again until it ends, and compares with runs that were let be.

    python perf/kills.py --json perf/kills.json [--only infer synthesis sft grpo] [--kills infer=20 ...]

Each trial is a folder of its own, with empty caches: the command is started in it and killed with SIGKILL,
the whole group of processes, at a moment drawn from the seed; the same command is started again, and killed
again or let be, until it ends with status 0. Moments are spread over five phases: `start` (nothing is written
yet), `work` (any time after), `saving` (while a checkpoint, an index or the settings are being written),
`writing` (just after the run's own files grew) and `end` (while datasets, summaries or the trained weights
are written). What is equal at the end, and how exactly, `perf/kill_worlds.py` says for each command.

Python's start would take most of the time, so all but inference run in forks of a process that has imported
them; what runs in the fork is the command's own `main`. Linux.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import platform
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kill_worlds import KILL_TARGETS, KillTarget, ProgressCounter  # noqa: E402

PHASES = ("start", "work", "saving", "writing", "end")
KILLS = 26
KILLS_A_TRIAL = 4
# Between looks at what a command has written.
POLL_SECONDS = 0.003
# Behind a change that was waited for: at once, or within a few more writes.
BEHIND_SECONDS = 0.03
# Of a command's beginning, in which it writes nothing yet on a machine that has nothing else to do.
START_SECONDS = 3.0
# A command that takes longer hangs.
TIMEOUT_SECONDS = 1500.0
TOLERANCE = 1e-6


@dataclass(frozen=True)
class ReferenceRun:
    """A run that was let be."""

    seconds: float
    first: float
    """Seconds until it wrote anything."""
    changes: dict[str, int]
    """How often what it writes changed, by phase."""
    found: Any


@dataclass
class Kill:
    """One kill: the phase that was aimed at, and what was seen of it before."""

    trial: int
    phase: str
    changes: int
    after_seconds: float


@dataclass
class KillResults:
    """What came of the trials of a command."""

    equality: str
    whole_seconds: float
    kills: list[Kill] = field(default_factory=list)
    starts: int = 0
    too_late: int = 0
    """Starts that ended before the moment that was drawn for them."""
    trials: int = 0
    finished: int = 0
    equal: int = 0
    largest_difference: float = 0.0
    """Of numbers that are compared within a tolerance."""
    faults: list[str] = field(default_factory=list)


class RunningCommand:
    """A command that is running, in a group of processes of its own."""

    def __init__(self, target: KillTarget, folder: Path) -> None:
        (folder / "cache").mkdir(parents=True, exist_ok=True)
        self.began = time.monotonic()
        self.status: int | None = None
        self._pid = os.fork()
        if not self._pid:
            _become(target, folder)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def ended(self) -> bool:
        if self.status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        if self.status is None and self.seconds > TIMEOUT_SECONDS:
            self.kill()
            raise SystemExit(f"a command did not end within {TIMEOUT_SECONDS:.0f} s")
        return self.status is not None

    def kill(self) -> None:
        """The whole group, at once."""
        os.killpg(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        self.status = os.waitstatus_to_exitcode(status)


def _become(target: KillTarget, folder: Path) -> None:
    """In the fork: be the command. Never returns."""
    status = 70
    try:
        os.setsid()
        log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ["VIDEOPRO_CACHE"] = str(folder / "cache")
        words = target.words(folder)
        if not target.in_fork:
            os.execv(sys.executable, [sys.executable, "-m", target.module, *words])
        status = importlib.import_module(target.module).main(words)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def progress_counters(target: KillTarget, folder: Path) -> dict[str, ProgressCounter]:
    """What to look at in each phase but the start; for work at all of it."""
    looks = dict(target.counters(folder))
    every = tuple(looks.values())
    return {**looks, "work": lambda: [look() for look in every]}


def run_uninterrupted(target: KillTarget, folder: Path) -> ReferenceRun:
    """The run that the others are compared with. Raises SystemExit where it fails."""
    started = RunningCommand(target, folder)
    looks = {phase: (look, look()) for phase, look in progress_counters(target, folder).items()}
    changes: Counter[str] = Counter()
    first = 0.0
    while not started.ended():
        for phase, (look, before) in looks.items():
            now = look()
            if now != before:
                looks[phase] = look, now
                changes[phase] += 1
                first = first or started.seconds
        time.sleep(POLL_SECONDS)
    if started.status:
        raise SystemExit(f"{target.name} fails by itself:\n{(folder / 'log').read_text()[-4000:]}")
    return ReferenceRun(started.seconds, first, dict(changes), target.found(folder))


def wait(
    started: RunningCommand,
    look: ProgressCounter | None,
    phase: str,
    whole: ReferenceRun,
    share: float,
    chance: random.Random,
) -> int:
    """Wait for a moment of a phase in the `share` of a run that is left; how many changes were seen, or -1 if
    the command ended before it."""
    changes = 0
    # How fast a run is depends on what else the machine does; what it has written does not.
    beginning = min(whole.first, START_SECONDS)
    within = {"start": beginning, "work": 0.1 * whole.seconds}.get(phase, BEHIND_SECONDS)
    delay = within * chance.random()
    if look is not None:
        wanted = chance.randint(1, max(1, round(whole.changes.get(phase, 1) * share)))
        before = look()
        while changes < wanted:
            if started.ended():
                return -1
            now = look()
            if now != before:
                before, changes = now, changes + 1
            else:
                time.sleep(POLL_SECONDS)
    end = time.monotonic() + delay
    while (left := end - time.monotonic()) > 0:
        if started.ended():
            return -1
        time.sleep(min(POLL_SECONDS, left))
    return -1 if started.ended() else changes


def trial(
    target: KillTarget,
    number: int,
    folder: Path,
    whole: ReferenceRun,
    outcome: KillResults,
    most: int,
    seed: str,
) -> None:
    """One folder: killed up to KILLS_A_TRIAL times, then let be, then compared."""
    chance = random.Random(seed)
    outcome.trials += 1
    killed = Counter(one.phase for one in outcome.kills)
    fewest = sorted(PHASES, key=lambda phase: (killed[phase], chance.random()))
    phases = sorted(fewest[: min(KILLS_A_TRIAL, most - len(outcome.kills))], key=PHASES.index)
    looks = progress_counters(target, folder)
    for place, phase in enumerate((*phases, None)):
        started = RunningCommand(target, folder)
        outcome.starts += 1
        if phase is not None:
            changes = wait(started, looks.get(phase), phase, whole, 1 / (place + 1), chance)
            if changes >= 0:
                started.kill()
                outcome.kills.append(Kill(number, phase, changes, round(started.seconds, 3)))
                continue
            outcome.too_late += 1
        while not started.ended():
            time.sleep(0.05)
        break
    if started.status:
        said = (folder / "log").read_text(errors="replace")[-1500:]
        outcome.faults.append(f"trial {number}: status {started.status}: {said}")
        return
    outcome.finished += 1
    try:
        found = target.found(folder)
    except (AssertionError, OSError, ValueError, KeyError, IndexError) as error:
        outcome.faults.append(f"trial {number}: {type(error).__name__}: {error}")
        return
    different, distance = compare(whole.found, found)
    outcome.largest_difference = max(outcome.largest_difference, distance)
    if different:
        outcome.faults.append(f"trial {number}: differs in {', '.join(different[:5])}")
    else:
        outcome.equal += 1


def compare(expected: Any, found: Any, where: str = "") -> tuple[list[str], float]:
    """Where two results differ, and by how much numbers do that count as equal."""
    if isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        parts = [compare(expected[name], found[name], f"{where}/{name}") for name in expected]
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        parts = [
            compare(*pair, f"{where}/{place}") for place, pair in enumerate(zip(expected, found, strict=True))
        ]
    elif isinstance(expected, float) and isinstance(found, int | float):
        distance = abs(expected - found)
        close = math.isclose(expected, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        return ([] if close else [f"{where}: {expected} and {found}"]), distance if close else 0.0
    else:
        return ([] if expected == found else [f"{where}: {str(expected)[:80]} and {str(found)[:80]}"]), 0.0
    return [one for places, _ in parts for one in places], max((far for _, far in parts), default=0.0)


def prepare(root: Path, names: Sequence[str]) -> dict[str, ReferenceRun]:
    """The runs that were let be; those of training learn from what the synthesis made."""
    wholes = {}
    wanted = [name for name in KILL_TARGETS if name in names or name == "synthesis"]
    for name in sorted(wanted, key=("synthesis", "infer", "sft", "grpo").index):
        folder = root / f"{name}-whole"
        share_videos(root, folder)
        wholes[name] = run_uninterrupted(KILL_TARGETS[name], folder)
        share_videos(folder, root)
        print(f"{name}: let be {wholes[name].seconds:.0f} s, {wholes[name].changes}", flush=True)
        if name == "synthesis":
            (root / "data").mkdir()
            for file in ("sft.jsonl", "grpo.jsonl"):
                shutil.copy(folder / "run" / file, root / "data")
    return wholes


def share_videos(given: Path, taker: Path) -> None:
    """The world's videos take longest to make and are the same for all."""
    (taker / "cache").mkdir(parents=True, exist_ok=True)
    for one in (given / "cache").glob("pocket-*"):
        if not (taker / "cache" / one.name).exists():
            (taker / "cache" / one.name).symlink_to(one.resolve(), target_is_directory=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="where the record goes")
    parser.add_argument("--only", nargs="+", choices=list(KILL_TARGETS), default=list(KILL_TARGETS))
    parser.add_argument("--kills", nargs="+", default=[], help=f"of a command, COMMAND=N; else {KILLS}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--note", default="", help="for the record, such as what else the machine does")
    parser.add_argument(
        "--folder", type=Path, help="for the trials; unset: a temporary one, deleted at the end"
    )
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    for module in (
        "videopro.train.sft",
        "videopro.train.grpo",
        "videopro.data_synthesis.run",
        "videopro.backbones.qwen.backbone",
    ):
        importlib.import_module(module)
    root = args.folder or Path(tempfile.mkdtemp(prefix="videopro-kills-"))
    wanted = dict.fromkeys(args.only, KILLS)
    wanted |= {name: int(count) for name, count in (one.split("=") for one in args.kills)}
    wholes = prepare(root, args.only)
    outcomes = {
        name: KillResults(KILL_TARGETS[name].equality, round(wholes[name].seconds, 1)) for name in args.only
    }
    number = 0
    # In turn, so that a campaign that is cut short has tried all of them.
    while any(len(one.kills) < wanted[name] for name, one in outcomes.items()):
        for name, outcome in outcomes.items():
            if len(outcome.kills) >= wanted[name]:
                continue
            number += 1
            folder = root / f"{name}-{number}"
            share_videos(root, folder)
            seed = f"{args.seed}/{name}/{number}"
            trial(KILL_TARGETS[name], number, folder, wholes[name], outcome, wanted[name], seed)
            print(
                f"{name}: {len(outcome.kills)} kills, {outcome.equal} of {outcome.trials} equal", flush=True
            )
            if not outcome.faults:
                shutil.rmtree(folder)
            record(args, outcomes)
    if args.folder is None and not any(one.faults for one in outcomes.values()):
        shutil.rmtree(root)


def record(args: argparse.Namespace, outcomes: dict[str, KillResults]) -> None:
    """Write what is known so far, beside what the file has of other commands."""
    if args.json is not None:
        before = json.loads(args.json.read_text())["commands"] if args.json.exists() else {}
        run = {
            "command": f"python perf/kills.py --kills {' '.join(args.kills)} --seed {args.seed}",
            "note": args.note,
            "machine": {"cores": os.cpu_count(), "system": platform.platform(), "load": os.getloadavg()},
        }
        commands = {**before, **{name: {**run, **asdict(one)} for name, one in outcomes.items()}}
        told = {
            "kills": sum(len(one["kills"]) for one in commands.values()),
            "by phase": dict(Counter(kill["phase"] for one in commands.values() for kill in one["kills"])),
            "trials": sum(one["trials"] for one in commands.values()),
            "equal": sum(one["equal"] for one in commands.values()),
            "commands": commands,
        }
        args.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    for name, one in outcomes.items():
        for fault in one.faults[-1:]:
            print(f"{name}: {fault}", flush=True)


if __name__ == "__main__":
    main()
