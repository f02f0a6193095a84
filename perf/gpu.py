"""Checks everything that a GPU is for, part by part, with random weights and generated videos.

    python -m perf.gpu [PART ...] [--shapes 8b] [--work FOLDER] [--output FILE] [--redo PART ...]
    python -m perf.gpu --tables FILE        (print the tables of a file of results)

Parts (all of them by default): a, an SFT step; b, writing replies; c, packed updates; d, a GRPO step as
shipped; e, log-probabilities; f, inference; g, the clip encoder; h, DeepSpeed; j, a step of an engine; k,
steps of changing lengths; l, all modules; i, the same by vLLM, and continuous batching. Each part is a
process of its own and takes at most 8 minutes (--part-seconds). What is not done by then is done by the same
command given again: cases that ended are not repeated (--redo repeats a part's). A case that fails, for want
of memory or by an error, is recorded as that, and the others go on.

Shapes: 8b (Qwen3-VL-8B; the default on a GPU), 2b (Qwen3-VL-2B, with little work: a CPU can run it), tiny
(the pocket model's; the default on a CPU). Results go to perf/gpu.json on a GPU with the shapes of 8b, to
perf/shapes_2b.json on a CPU with those of 2b, else to results.json in the work folder. Parts that are not run
keep their results; of another device or other versions, only a run of all parts replaces them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from perf import ROOT
from perf.battery.cases import Bench, Record, run_cases
from perf.battery.measuring import on_gpu
from perf.battery.parts import MODULES, load_part
from perf.battery.results import is_of, table, tables, write_results
from perf.battery.shapes import SHAPES
from perf.child import child_command
from perf.command import run_command
from videopro.cli import setting
from videopro.errors import ConfigError

PART_SECONDS = 480.0


@dataclass(frozen=True)
class GpuSettings:
    """Check everything that a GPU is for, part by part, with random weights."""

    parts: tuple[str, ...] = field(
        default=(), metadata=setting(f"of {', '.join(MODULES)}; none: all", positional=True)
    )
    shapes: Literal["8b", "2b", "tiny"] | None = field(
        default=None, metadata=setting("shapes of the model; unset: 8b on a GPU, tiny on a CPU")
    )
    work: Path | None = field(
        default=None, metadata=setting("folder of the cases; unset: runs/gpu-check/SHAPES")
    )
    redo: tuple[str, ...] = field(default=(), metadata=setting("parts whose cases are repeated"))
    part_seconds: float = field(
        default=PART_SECONDS, metadata=setting("seconds after which a part is stopped")
    )
    tables: Path | None = field(
        default=None, metadata=setting("print the tables of this file of results, and stop")
    )
    output: Path | None = field(
        default=None, metadata=setting("file for the results; unset: see perf/gpu.py")
    )


def part_command(letter: str, bench: Bench) -> list[str]:
    """The command of a part's own process."""
    return child_command("perf.gpu:run_inside", letter, bench.shapes.name, str(bench.folder))


def run_part(letter: str, command: list[str], record: Record, seconds: float = PART_SECONDS) -> bool:
    """Run a part in a process of its own, for at most `seconds`. Returns whether all of its cases ended. A
    case that ends its process fails, and the next ones go on; raises SystemExit if there was none yet."""
    began, ended = time.time(), len(record.read().get(letter, {}))
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        status: int | None = process.wait(seconds)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        # With what the part itself has started.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    case = record.unfinished(letter)
    if status == 0:
        return True
    if status is not None:
        if case is None:
            raise SystemExit(f"part {letter}: its process ended with status {status} before its first case")
        fail(record, letter, case, _reason(status))
        return run_part(letter, command, record, seconds - (time.time() - began))
    if case is not None and len(record.read().get(letter, {})) == ended:
        fail(record, letter, case, f"took longer than the {seconds:.0f} s of a part")
    return False


def _reason(status: int) -> str:
    if status == -signal.SIGKILL:
        return "its process was killed (SIGKILL), as the system does where the machine's memory is used up"
    return (
        f"its process ended with status {status}" if status > 0 else f"its process ended by signal {-status}"
    )


def fail(record: Record, letter: str, case: str, reason: str) -> None:
    """Record that a case's process ended before the case did."""
    record.append(letter, case, failed=reason, load=round(os.getloadavg()[0], 1))


def run_inside(letter: str, shapes: str, folder: str) -> None:
    """Run a part's cases in this process, one of its own."""
    bench = Bench(SHAPES[shapes], Path(folder))
    run_cases(letter, load_part(letter).cases(bench), Record(bench.path("cases.jsonl")))


def results_file(
    settings: GpuSettings, bench: Bench, conditions: Mapping[str, Any], letters: Sequence[str]
) -> Path:
    """Where the results go. Some parts alone never replace a file of another device, or of other versions or
    shapes: the recorded one stays as it is, and ConfigError is raised for `--output`."""
    name = {("8b", True): "gpu.json", ("2b", False): "shapes_2b.json"}.get((bench.shapes.name, on_gpu()))
    apart = bench.folder / "results.json"
    path = settings.output or (ROOT / "perf" / name if name is not None else apart)
    if path == apart or set(letters) == set(MODULES) or is_of(path, bench.shapes, conditions):
        return path
    if settings.output is not None:
        raise ConfigError(
            f"{path}: holds results of another device, or of other versions or shapes, which some parts "
            "alone do not replace; give another --output"
        )
    print(f"{path} is of another device or of other versions, and stays as it is")
    return apart


def check(settings: GpuSettings) -> int:
    """Run the parts, print their tables and write the results. Returns 1 if any failed or is not finished."""
    if settings.tables is not None:
        print(tables(settings.tables))
        return 0
    for letter in (*settings.parts, *settings.redo):
        if letter not in MODULES:
            raise ConfigError(f"there is no part {letter!r}; the parts are {', '.join(MODULES)}")
    shapes = SHAPES[settings.shapes or ("8b" if on_gpu() else "tiny")]
    bench = Bench(shapes, (settings.work or ROOT / "runs" / "gpu-check" / shapes.name).absolute())
    record = Record(bench.path("cases.jsonl"))
    letters = settings.parts or tuple(dict.fromkeys(settings.redo)) or tuple(MODULES)
    results = results_file(settings, bench, record.conditions, letters)
    for letter in settings.redo:
        record.forget(letter)
    print(f"{record.conditions['device']}, {shapes.title}, random weights; work folder {bench.folder}")
    unfinished, titles = [], {}
    for letter in letters:
        if not run_part(letter, part_command(letter, bench), record, settings.part_seconds):
            unfinished.append(letter)
        titles[letter] = load_part(letter).TITLE
        cases = record.read().get(letter, {})
        print(f"\n{table(f'({letter}) {titles[letter]}', cases)}\n", flush=True)
        write_results(results, shapes, record.conditions, {letter: cases}, titles)
    print(f"results: {results}")
    failed = [f"{letter}, {case}" for letter in letters for case in _failed(record, letter)]
    if unfinished:
        print(f"not finished: {', '.join(unfinished)}; give the same command again to continue")
    if failed:
        print(f"failed: {'; '.join(failed)}")
    return 1 if unfinished or failed else 0


def _failed(record: Record, letter: str) -> list[str]:
    return [name for name, case in record.read().get(letter, {}).items() if "failed" in case]


if __name__ == "__main__":
    run_command(GpuSettings, check, "stopped; give the same command again to continue")
