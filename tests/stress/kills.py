"""Kills commands at random moments, re-runs each until it finishes, and compares the results with
uninterrupted runs.

    python -m tests.stress.kills --output tests/stress/kills.json
        [--only infer synthesis sft grpo] [--kills infer=20 ...]

Each trial has its own folder with empty caches. The command is started and its whole process group killed
with SIGKILL at a moment drawn from the seed; the same command is started again, and killed again or left to
finish, until it exits with status 0. Moments are spread over five phases: `start` (nothing is written yet),
`work` (any time after), `saving` (while a checkpoint, an index or the settings are being written), `writing`
(just after the run's own files grew) and `end` (while datasets, summaries or the trained weights are
written). All run on the pocket world. `KILL_TARGETS` says for each command which files it writes in each
phase, what must be equal at the end, and how exactly.

Starting Python would take most of the time, so all commands but inference run in forks of a process that has
already imported them; the fork runs the command's own `main`. Linux only.
"""

import hashlib
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from perf import ROOT
from perf.command import run_command
from perf.recording import recorded_rows, write_record
from perf.timing import timed
from videopro.cli import did_you_mean, setting
from videopro.errors import ConfigError

PHASES = ("start", "work", "saving", "writing", "end")
KILLS = 26
KILLS_PER_TRIAL = 4
POLL_SECONDS = 0.003
# How long after an awaited change to kill at most: at once, or within a few more writes.
MAX_DELAY_SECONDS = 0.03
# How long a command writes nothing after its start, on an idle machine.
START_SECONDS = 3.0
# A command that takes longer is considered hung.
TIMEOUT_SECONDS = 1500.0
TOLERANCE = 1e-6


# Names in a training's folder, repeated here because commands are observed from outside.
UNFINISHED, CHECKPOINT = "unfinished", "checkpoint-"
# Only pocket's own model: the others take longer to load than a run takes.
_FEW_MODELS = ("--ocr", "none", "--detector", "none", "--tracker", "none")
# Fields that depend on the clock, or on what this process has decoded or cached before.
_TIMES = ("seconds", "stages", "cost", "cached", "versions", "planning")
_LOGGED_TIMES = ("runtime", "second", "time", "begun", "flos")

ProgressCounter = Callable[[], object]
"""Returns a value that changes whenever a command has written something."""


@dataclass(frozen=True)
class KillTarget:
    """One command. Its folder holds `run`, its output, and `cache`, its VIDEOPRO_CACHE."""

    name: str
    module: str
    words: Callable[[Path], list[str]]
    counters: Callable[[Path], Mapping[str, ProgressCounter]]
    """Progress counters by phase, for a folder."""
    found: Callable[[Path], Any]
    """The results in a folder that are equal in every run, as JSON values."""
    equality: str
    """For the record: what is compared, and how exactly."""
    in_fork: bool = True
    """Whether it may run in a fork of a process that has imported it. A command that starts processes may
    not."""


def sizes(folder: Path, *patterns: str) -> ProgressCounter:
    """Counts by the sizes of the files that match these patterns."""

    def look() -> object:
        found = {}
        for pattern in patterns:
            for path in folder.glob(pattern):
                try:
                    found[path.name] = path.stat().st_size
                except OSError:  # Deleted meanwhile.
                    continue
        return found

    return look


# ---- inference and synthesis ------------------------------------------------------------------------------


def _infer(folder: Path) -> list[str]:
    of = ("--benchmark", "pocket", "--split", "val", "--limit", "10", "--workers", "1")
    how = ("--model", "pocket", "--method", "videopro", "--planner", "pocket-teacher")
    none = ("--options", *(f"{part}=none" for part in ("ocr", "detector", "tracker")))
    return [*of, *how, "--output", str(folder / "run"), *none]


def _synthesis(folder: Path) -> list[str]:
    of = ("--source", "pocket", "--limit", "8", "--programs", "2", "--videos", "2", *_FEW_MODELS)
    return [*of, "--model", "pocket", "--teacher", "pocket-teacher", "--output", str(folder / "run")]


def _counters_of_questions(
    lines: str, ends: tuple[str, ...]
) -> Callable[[Path], Mapping[str, ProgressCounter]]:
    def counters(folder: Path) -> Mapping[str, ProgressCounter]:
        return {
            "saving": sizes(folder, "run/config.yaml", "run/.*.new", "run/work/*", "cache/index/*/*"),
            "writing": sizes(folder, f"run/{lines}"),
            "end": sizes(folder, *(f"run/{name}" for name in ends)),
        }

    return counters


def _traces(file: Path) -> Any:
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    times = Counter(line["question_id"] for line in lines)
    assert set(times.values()) == {1}, f"{file}: questions that appear more than once: {times}"
    return {line["question_id"]: _timeless(line) for line in lines}


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _timeless(item) for name, item in value.items() if name not in _TIMES}
    if isinstance(value, list):
        return [_timeless(item) for item in value]
    return value


def _answered(folder: Path) -> Any:
    summary = json.loads((folder / "run" / "summary.json").read_text(encoding="utf-8"))
    kept = ("n", "accuracy", "coverage", "errors", "unparsed")
    traces = _traces(folder / "run" / "traces.jsonl")
    for trace in traces.values():
        # Each trial has its own folder of videos.
        trace["video"]["path"] = Path(trace["video"]["path"]).name
    return {"traces": traces, "summary": {name: summary.get(name) for name in kept}}


def _synthesised(folder: Path) -> Any:
    files = ("sft.jsonl", "grpo.jsonl", "card.json", "CARD.md")
    own = str(folder).encode()
    return {
        "questions": sorted(_traces(folder / "run" / "records.jsonl")),
        **{name: _digest((folder / "run" / name).read_bytes().replace(own, b"")) for name in files[:2]},
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# ---- training ---------------------------------------------------------------------------------------------


def checkpoints(run: Path) -> list[Path]:
    """A run's checkpoints, the latest first."""
    return sorted(
        run.glob(f"{CHECKPOINT}[0-9]*"),
        key=lambda path: int(path.name.removeprefix(CHECKPOINT)),
        reverse=True,
    )


def _training(folder: Path, kind: str, *more: str) -> list[str]:
    data = folder.parent / "data" / f"{kind}.jsonl"
    of = ("--config", str(ROOT / "configs" / kind / "pocket.yaml"), "--train_data", str(data))
    how = ("--save_steps", "1", "--logging_steps", "1", "--disable_tqdm", "true", "--seed", "1")
    return [*of, "--output_dir", str(folder / "run"), *how, *more]


def _sft(folder: Path) -> list[str]:
    return _training(folder, "sft", "--max_steps", "8", "--gradient_accumulation_steps", "1")


def _grpo(folder: Path) -> list[str]:
    few = ("--max_steps", "5", "--num_generations", "4", "--per_device_train_batch_size", "4")
    short = ("--gradient_accumulation_steps", "1", "--max_completion_length", "64")
    none = '{"ocr": "none", "detector": "none", "tracker": "none"}'
    return _training(folder, "grpo", "--adapter", "pocket-sft", *few, *short, "--modules", none)


def _counters_of_training(folder: Path) -> Mapping[str, ProgressCounter]:
    return {
        "saving": sizes(folder, "run/checkpoint-*/*"),
        "writing": sizes(folder, "run/programs.jsonl", "run/completions/*", "run/*.json", "run/.*.new"),
        "end": sizes(folder, f"run/{UNFINISHED}/*.*", "run/*.safetensors", "run/*.bin", "run/tokenizer*"),
    }


def _trained(folder: Path) -> Any:
    run = folder / "run"
    history = json.loads((run / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]
    programs = run / "programs.jsonl"
    return {
        "adapter": _digest((run / "adapter_model.safetensors").read_bytes()),
        "last checkpoint's adapter": _digest(
            (checkpoints(run)[0] / "adapter_model.safetensors").read_bytes()
        ),
        "last checkpoint's optimizer": _digest((checkpoints(run)[0] / "optimizer.pt").read_bytes()),
        "checkpoints": [path.name for path in checkpoints(run)],
        # The last line describes the last command only.
        "history": [_untimed(line) for line in history if "train_runtime" not in line],
        "programs": programs.read_text(encoding="utf-8").splitlines() if programs.exists() else [],
        "tables": sorted(path.name for path in (run / "completions").glob("*")),
        "left": [path.name for path in run.glob(f"{UNFINISHED}*")],
    }


def _untimed(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in line.items() if not any(word in name for word in _LOGGED_TIMES)}


KILL_TARGETS = {
    target.name: target
    for target in (
        KillTarget(
            "infer",
            "videopro.infer",
            _infer,
            _counters_of_questions("traces.jsonl", ("summary.json", ".summary.json.new")),
            _answered,
            "each question once; traces but for times, costs and what was remembered, numbers to 1e-6 "
            "(batches differ after a resume); the summary's accuracy",
            in_fork=False,
        ),
        KillTarget(
            "synthesis",
            "videopro.data_synthesis.run",
            _synthesis,
            _counters_of_questions(
                "records.jsonl",
                ("*sft.jsonl*", ".sft.jsonl*", ".grpo.jsonl*", "grpo.jsonl", "*ard.*", ".*ard.*"),
            ),
            _synthesised,
            "each question once; the bytes of both datasets",
        ),
        KillTarget(
            "sft",
            "videopro.train.sft",
            _sft,
            _counters_of_training,
            _trained,
            "the bytes of the adapter and of the last checkpoint's adapter and optimizer; the losses",
        ),
        KillTarget(
            "grpo",
            "videopro.train.grpo",
            _grpo,
            _counters_of_training,
            _trained,
            "the bytes of the adapter and of the last checkpoint's adapter and optimizer; every program that "
            "was run, once; rewards and losses",
        ),
    )
}


# ---- killing them ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KillSettings:
    """Kill commands at random moments, and compare their results with uninterrupted runs."""

    output: Path | None = field(
        default=None, metadata=setting("file for the record; results of other commands in it stay")
    )
    only: tuple[str, ...] = field(
        default=tuple(KILL_TARGETS), metadata=setting(f"commands to kill, of {', '.join(KILL_TARGETS)}")
    )
    kills: dict[str, int] = field(
        default_factory=dict, metadata=setting(f"kills of a command; {KILLS} of each other one")
    )
    seed: int = field(default=0, metadata=setting("of the moments"))
    note: str = field(default="", metadata=setting("recorded as it is, such as what else the machine does"))
    folder: Path | None = field(
        default=None, metadata=setting("folder for the trials; unset: a temporary one, deleted at the end")
    )


@dataclass(frozen=True)
class ReferenceRun:
    """An uninterrupted run."""

    seconds: float
    cpu_s: float
    first: float
    """Seconds until it wrote anything."""
    changes: dict[str, int]
    """Number of changes of its files, by phase."""
    found: Any


@dataclass
class Kill:
    """One kill: the intended phase, and the changes seen in it before the kill."""

    trial: int
    phase: str
    changes: int
    after_seconds: float


@dataclass
class KillResults:
    """The outcome of a command's trials."""

    equality: str
    whole_seconds: float
    whole_cpu_s: float
    kills: list[Kill] = field(default_factory=list)
    starts: int = 0
    too_late: int = 0
    """Starts that finished before the moment drawn for their kill."""
    trials: int = 0
    finished: int = 0
    equal: int = 0
    largest_difference: float = 0.0
    """Largest difference among numbers that are compared within a tolerance."""
    faults: list[str] = field(default_factory=list)


class RunningCommand:
    """A running command, in its own process group."""

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
        """Kill the whole group at once."""
        os.killpg(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        self.status = os.waitstatus_to_exitcode(status)


def _become(target: KillTarget, folder: Path) -> None:
    """Run the command in the forked process. Never returns."""
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
    """The counters of each phase but the start; `work` watches all of them."""
    looks = dict(target.counters(folder))
    every = tuple(looks.values())
    return {**looks, "work": lambda: [look() for look in every]}


def run_uninterrupted(target: KillTarget, folder: Path) -> ReferenceRun:
    """The run that the others are compared with. Raises SystemExit if it fails."""
    with timed() as spent:
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
        raise SystemExit(
            f"{target.name} failed without being killed:\n{(folder / 'log').read_text()[-4000:]}"
        )
    return ReferenceRun(spent.wall_s, spent.cpu_s, first, dict(changes), target.found(folder))


def wait(
    started: RunningCommand,
    look: ProgressCounter | None,
    phase: str,
    whole: ReferenceRun,
    share: float,
    chance: random.Random,
) -> int:
    """Wait for a random moment of a phase, in the remaining `share` of a run. Returns the number of changes
    seen, or -1 if the command finished first."""
    changes = 0
    # Changes are counted rather than seconds: a run's speed depends on the machine's load, its writes do not.
    beginning = min(whole.first, START_SECONDS)
    within = {"start": beginning, "work": 0.1 * whole.seconds}.get(phase, MAX_DELAY_SECONDS)
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
    """One trial: kill up to KILLS_PER_TRIAL times, let the command finish, compare."""
    chance = random.Random(seed)
    outcome.trials += 1
    killed = Counter(kill.phase for kill in outcome.kills)
    fewest = sorted(PHASES, key=lambda phase: (killed[phase], chance.random()))
    phases = sorted(fewest[: min(KILLS_PER_TRIAL, most - len(outcome.kills))], key=PHASES.index)
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
        log = (folder / "log").read_text(errors="replace")[-1500:]
        outcome.faults.append(f"trial {number}: status {started.status}: {log}")
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
    """Where two results differ, and the largest difference of numbers that count as equal."""
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
    different = [place for places, _ in parts for place in places]
    return different, max((distance for _, distance in parts), default=0.0)


def prepare(root: Path, names: Sequence[str]) -> dict[str, ReferenceRun]:
    """Make the uninterrupted runs. Training uses the data of the synthesis run."""
    wholes = {}
    wanted = [name for name in KILL_TARGETS if name in names or name == "synthesis"]
    for name in sorted(wanted, key=("synthesis", "infer", "sft", "grpo").index):
        folder = root / f"{name}-whole"
        share_videos(root, folder)
        wholes[name] = run_uninterrupted(KILL_TARGETS[name], folder)
        share_videos(folder, root)
        print(
            f"{name}: uninterrupted {wholes[name].seconds:.0f} s, {wholes[name].cpu_s:.0f} CPU s, "
            f"{wholes[name].changes}",
            flush=True,
        )
        if name == "synthesis":
            (root / "data").mkdir()
            for file in ("sft.jsonl", "grpo.jsonl"):
                shutil.copy(folder / "run" / file, root / "data")
    return wholes


def share_videos(given: Path, taker: Path) -> None:
    """Link the pocket world's videos into another cache: they take longest to make and are the same for
    all."""
    (taker / "cache").mkdir(parents=True, exist_ok=True)
    for videos in (given / "cache").glob("pocket-*"):
        if not (taker / "cache" / videos.name).exists():
            (taker / "cache" / videos.name).symlink_to(videos.resolve(), target_is_directory=True)


def campaign(given: KillSettings) -> None:
    """Run the trials of each command, and record their outcomes as they come. Raises ConfigError for an
    unknown command, or an output file of something else."""
    for name in (*given.only, *given.kills):
        if name not in KILL_TARGETS:
            raise ConfigError(f"unknown command {name!r}; {did_you_mean(name, list(KILL_TARGETS))}")
    if given.output is not None:
        recorded_rows(given.output, "commands", {})
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    for module in (
        "videopro.train.sft",
        "videopro.train.grpo",
        "videopro.data_synthesis.run",
        "videopro.backbones.qwen.backbone",
    ):
        importlib.import_module(module)
    root = given.folder or Path(tempfile.mkdtemp(prefix="videopro-kills-"))
    wanted = dict.fromkeys(given.only, KILLS) | given.kills
    wholes = prepare(root, given.only)
    outcomes = {
        name: KillResults(
            KILL_TARGETS[name].equality, round(wholes[name].seconds, 1), round(wholes[name].cpu_s, 1)
        )
        for name in given.only
    }
    number = 0
    # In turn, so that a campaign that is cut short has tried all commands.
    while any(len(outcome.kills) < wanted[name] for name, outcome in outcomes.items()):
        for name, outcome in outcomes.items():
            if len(outcome.kills) >= wanted[name]:
                continue
            number += 1
            folder = root / f"{name}-{number}"
            share_videos(root, folder)
            seed = f"{given.seed}/{name}/{number}"
            trial(KILL_TARGETS[name], number, folder, wholes[name], outcome, wanted[name], seed)
            print(
                f"{name}: {len(outcome.kills)} kills, {outcome.equal} of {outcome.trials} equal", flush=True
            )
            if not outcome.faults:
                shutil.rmtree(folder)
            record(given, outcomes)
    if given.folder is None and not any(outcome.faults for outcome in outcomes.values()):
        shutil.rmtree(root)


def record(given: KillSettings, outcomes: dict[str, KillResults]) -> None:
    """Write the results so far; the file's results of other commands are kept."""
    if given.output is not None:
        before = recorded_rows(given.output, "commands", {})
        kills = " ".join(f"{name}={count}" for name, count in given.kills.items())
        run = {
            "command": f"python -m tests.stress.kills --kills {kills} --seed {given.seed}",
            "note": given.note,
            "machine": {"cores": os.cpu_count(), "system": platform.platform(), "load": os.getloadavg()},
        }
        commands = {**before, **{name: {**run, **asdict(outcome)} for name, outcome in outcomes.items()}}
        every = [kill for command in commands.values() for kill in command["kills"]]
        result = {
            "kills": len(every),
            "by phase": dict(Counter(kill["phase"] for kill in every)),
            "trials": sum(command["trials"] for command in commands.values()),
            "equal": sum(command["equal"] for command in commands.values()),
            "commands": commands,
        }
        write_record(given.output, result)
    for name, outcome in outcomes.items():
        for fault in outcome.faults[-1:]:
            print(f"{name}: {fault}", flush=True)


if __name__ == "__main__":
    run_command(KillSettings, campaign, "stopped; the trials that ended are recorded")
