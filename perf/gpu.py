"""Checks everything that a GPU is for, part by part, with random weights and generated videos.

    python perf/gpu.py [PART ...] [--shapes 8b] [--work FOLDER] [--results FILE] [--redo PART ...]
    python perf/gpu.py --tables FILE        (print the tables of a file of results)

Parts (all of them by default): a, an SFT step; b, writing replies; c, packed updates; d, a GRPO step with
programs beside it; e, log-probabilities; f, inference; g, the clip encoder; h, DeepSpeed; i, vLLM. Each part
is a process of its own and takes at most 8 minutes. What is not done by then is done by the same command
given again: cases that ended are not repeated (--redo repeats a part's). A case that fails, for want of
memory or by an error, is recorded as that, and the others go on.

Shapes: 8b (Qwen3-VL-8B; the default on a GPU), 2b (Qwen3-VL-2B, with little work: a CPU can run it), tiny
(the pocket model's; the default on a CPU). Results go to perf/gpu.json on a GPU with the shapes of 8b, to
perf/shapes_2b.json on a CPU with those of 2b, else to results.json in the work folder.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from perf.battery.cases import Bench, Record, run_cases  # noqa: E402
from perf.battery.measuring import on_gpu  # noqa: E402
from perf.battery.parts import MODULES, load_part  # noqa: E402
from perf.battery.results import table, tables, write_results  # noqa: E402
from perf.battery.shapes import SHAPES  # noqa: E402

PART_SECONDS = 480


def part_command(letter: str, bench: Bench) -> list[str]:
    """The command of a part's own process."""
    command = [sys.executable, str(Path(__file__).resolve()), "--inside", letter]
    return [*command, "--shapes", bench.shapes.name, "--work", str(bench.folder)]


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
        fail(record, letter, case, _why(status))
        return run_part(letter, command, record, seconds - (time.time() - began))
    if case is not None and len(record.read().get(letter, {})) == ended:
        fail(record, letter, case, f"took longer than the {seconds:.0f} s of a part")
    return False


def _why(status: int) -> str:
    if status == -signal.SIGKILL:
        return "its process was killed (SIGKILL), as the system does where the machine's memory is used up"
    return (
        f"its process ended with status {status}" if status > 0 else f"its process ended by signal {-status}"
    )


def fail(record: Record, letter: str, case: str, why: str) -> None:
    """Record that a case's process ended before the case did."""
    record.append(letter, case, failed=why, load=round(os.getloadavg()[0], 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(MODULES))
    parser.add_argument("--shapes", choices=list(SHAPES), default="8b" if on_gpu() else "tiny")
    parser.add_argument("--work", type=Path, help="default: runs/gpu-check/SHAPES")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--redo", nargs="*", default=[], choices=list(MODULES), metavar="PART")
    parser.add_argument("--tables", type=Path, metavar="FILE")
    parser.add_argument("--inside", choices=list(MODULES), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.tables is not None:
        print(tables(given.tables))
        return
    shapes = SHAPES[given.shapes]
    bench = Bench(shapes, (given.work or ROOT / "runs" / "gpu-check" / shapes.name).absolute())
    record = Record(bench.path("cases.jsonl"))
    if given.inside is not None:
        run_cases(given.inside, load_part(given.inside).cases(bench), record)
        return
    for letter in given.parts:
        if letter not in MODULES:
            parser.error(f"there is no part {letter!r}; the parts are {', '.join(MODULES)}")
    for letter in given.redo:
        record.forget(letter)
    letters = given.parts or list(dict.fromkeys(given.redo)) or list(MODULES)
    results = given.results
    if results is None:
        own = {("8b", True): "gpu.json", ("2b", False): "shapes_2b.json"}.get((shapes.name, on_gpu()))
        results = ROOT / "perf" / own if own is not None else bench.folder / "results.json"
    print(f"{record.facts['device']}, {shapes.title}, random weights; work folder {bench.folder}")
    unfinished, titles = [], {}
    for letter in letters:
        if not run_part(letter, part_command(letter, bench), record):
            unfinished.append(letter)
        titles[letter] = load_part(letter).TITLE
        cases = record.read().get(letter, {})
        print(f"\n{table(f'({letter}) {titles[letter]}', cases)}\n", flush=True)
        write_results(results, shapes, record.facts, {letter: cases}, titles)
    print(f"results: {results}")
    failed = [f"{letter}, {case}" for letter in letters for case in _failed(record, letter)]
    if unfinished:
        print(f"not finished: {', '.join(unfinished)}; give the same command again to continue")
    if failed:
        print(f"failed: {'; '.join(failed)}")
    if unfinished or failed:
        raise SystemExit(1)


def _failed(record: Record, letter: str) -> list[str]:
    return [name for name, case in record.read().get(letter, {}).items() if "failed" in case]


if __name__ == "__main__":
    main()
