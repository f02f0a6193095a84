"""Compares one `videopro index` on two files with two commands at the same time on the same two files.

    python perf/index_processes.py [--before CHECKOUT] [--rounds 5] [--output FILE]

The encoder is a stand-in for one on a GPU of each command's own: a batch of clips takes it SECONDS, whatever
else the machine does, and its vectors mean nothing. Decoding is real. Both commands are started before the
time begins and get the same list of files, two videos of pocket's test split; the time is that until the
last of them has ended. `cpu_s` is the CPU time of the commands together. One round runs every way once; a
figure is the median over the rounds. `--before`: another checkout, measured in the same rounds. Writes
perf/index_processes.json.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf import ROOT
from perf.child import ChildFailed
from perf.decoders import versions
from perf.recording import write_record
from videopro.cli import exit_status
from videopro.command_line import CommandLine
from videopro.pocket import find_video
from videopro.settings import setting

# The command with a stand-in encoder. Runs in this checkout and in another.
_CODE = """
import json, sys, threading, time
from pathlib import Path
seconds, root, *paths = sys.argv[1:]
import numpy as np
from videopro import index
from videopro.modules.models.encoders import VideoTextEncoder
gpu = threading.Lock()


class StandIn(VideoTextEncoder):
    clip_frames = 8

    def identity(self):
        return {"encoder": "stand-in"}

    def frame_size(self, height, width):
        return 64, 112

    def encode_clips(self, clips):
        with gpu:
            time.sleep(float(seconds))
        return np.tile(np.float32([1.0, 0.0]), (len(clips), 1))

    def encode_texts(self, texts):
        return np.tile(np.float32([1.0, 0.0]), (len(texts), 1))

    def _embed_clips(self, clips):
        raise NotImplementedError

    _embed_texts = _embed_clips


encoder = StandIn("stand-in")
index.load_encoder = lambda *a, **k: encoder
print("ready", flush=True)
sys.stdin.readline()
before = time.process_time()
sys.stdout, out = sys.stderr, sys.stdout
status = index.index(index.IndexConfig(videos=tuple(paths), root=Path(root)))
print(json.dumps([status, time.process_time() - before]), file=out, flush=True)
"""


VIDEOS = ("medium_000", "medium_001")
SECONDS = 2.5


@dataclass(frozen=True)
class ProcessesSettings:
    """How often."""

    before: Path | None = field(default=None, metadata=setting("another checkout, measured in turn"))
    rounds: int = field(default=5, metadata=setting("rounds; in each, every way runs once"))
    output: Path = field(
        default=ROOT / "perf" / "index_processes.json", metadata=setting("file for the results")
    )


COMMAND = CommandLine(
    "perf.index_processes",
    ProcessesSettings,
    summary="Compare one index command on two files with two at the same time.",
)


def run_commands(checkout: Path, count: int, paths: Sequence[Path]) -> tuple[float, float]:
    """Wall and CPU seconds of `count` commands on the same files. Raises ChildFailed."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as root:
        children = [
            subprocess.Popen(
                [sys.executable, "-c", _CODE, str(SECONDS), root, *map(str, paths)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                cwd=root,
                text=True,
            )
            for _ in range(count)
        ]
        for child in children:
            assert child.stdout is not None
            if child.stdout.readline() != "ready\n":
                raise ChildFailed(f"a command did not start (status {child.wait()})")
        began = time.perf_counter()
        for child in children:
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()
        replies = [json.loads(child.communicate(timeout=1800)[0].splitlines()[-1]) for child in children]
        wall = time.perf_counter() - began
        if any(status for status, _ in replies) or len(list(Path(root).rglob("*.safetensors"))) != len(paths):
            raise ChildFailed("a command did not index every file")
    return wall, sum(cpu for _, cpu in replies)


def compare(given: ProcessesSettings) -> None:
    """Measure, print the table and write it. Raises ChildFailed."""
    checkouts = {"before": given.before.absolute()} if given.before is not None else {}
    checkouts["now"] = ROOT
    runs: dict[tuple[str, int], list[tuple[float, float]]] = {
        (name, count): [] for name in checkouts for count in (1, 2)
    }
    load = os.getloadavg()[0]
    paths = [find_video(Path(f"pocket:test/{name}")) for name in VIDEOS]
    for _ in range(given.rounds):
        for (name, count), found in runs.items():
            found.append(run_commands(checkouts[name], count, paths))
    results = {}
    for name in checkouts:
        row: dict[str, float] = {}
        for count, words in ((1, "one"), (2, "two")):
            walls, cpus = zip(*runs[name, count], strict=True)
            row[f"{words}_s"] = round(statistics.median(walls), 2)
            row[f"{words}_cpu_s"] = round(statistics.median(cpus), 2)
        ratios = [two / one for (one, _), (two, _) in zip(runs[name, 1], runs[name, 2], strict=True)]
        results[name] = {**row, "two_of_one": round(statistics.median(ratios), 2)}
        print(f"  {name:<8}", "  ".join(f"{key} {value}" for key, value in results[name].items()))
    record = {
        "results": results,
        "videos": list(VIDEOS),
        "seconds_per_batch": SECONDS,
        "rounds": given.rounds,
        "load_before": round(load, 1),
        "versions": versions(),
    }
    write_record(given.output, record, indent=2)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status("stopped; nothing was recorded") as status:
        compare(COMMAND.parse(argv))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
