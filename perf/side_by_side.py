"""What a change costs elsewhere: the same work by an earlier checkout and by this one, in turn.

    python -m perf.side_by_side CHECKOUT [--rounds 3] [--only WORK ...]       writes perf/side_by_side.json

Each piece of work is a process of its own with the checkout on its path: 64 frames of a film of ten minutes
(perf.decode's), 300 programs in the sandbox, 16 replies sampled after a video by a tiny model of Qwen3-VL's
class, and the help of four commands. CPU seconds are those of all its processes. Of a question's own share,
they are those of a worker and its sandbox for a question of perf.flow, with one video in flight and with all
12, to an engine that answers at once (perf/stub_engine.py). The table has the medians. Each piece of work is
recorded when it ends; `--only` does some of it, and keeps what the file has of the others.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perf import ROOT
from perf.command import run_command
from perf.decoders import make_ten_minutes
from perf.recording import commit_of, recorded_rows, write_record
from perf.stub_engine import MODEL, StubEngine
from perf.timing import timed
from videopro.cli import option, setting
from videopro.errors import ConfigError

# Stands for a folder of the checkout's own, beside the film.
_FOLDER = "FOLDER"
_DECODING = "64 frames of ten minutes, three times"
# The earlier checkout has the same names in its own `perf`.
_CODES = {
    name: ("-c", f"from pathlib import Path; folder = Path('{_FOLDER}')\n{code}")
    for name, code in {
        _DECODING: """
from videopro.video import FrameStore, Video
for _ in range(3):
    Video.open(folder.parent / "ten.mp4", store=FrameStore()).sample(64)""",
        "300 programs in the sandbox": """
from perf.executor import measure, ours
from videopro.executor import Executor
with Executor() as executor:
    measure(ours(executor), 300)""",
        "16 replies sampled after a video": """
from dataclasses import replace
from perf.battery import writing
from perf.battery.cases import Bench
from perf.battery.shapes import SHAPES
tiny = replace(SHAPES["tiny"], rows=(16,), group=16, groups=1, reply=256)
writing.write(Bench(tiny, folder), 16, "on")""",
    }.items()
}
_COMMANDS = {
    f"videopro {command} --help": ("-m", "videopro", *command.split(), "--help")
    for command in ("ask", "infer", "sft", "grpo")
}
_SHARES = {"a direct question's own share": "native-10", "a videopro question's own share": "videopro"}
_VIDEOS = 12


@dataclass(frozen=True)
class SideBySideSettings:
    """Which checkout, and how often."""

    checkout: Path = field(metadata=setting("root of the earlier checkout", positional=True))
    rounds: int = option(3, "times that each piece of work is done by each checkout")
    only: tuple[str, ...] = option((), "pieces of work, by their names; none: all")
    output: Path = option(ROOT / "perf" / "side_by_side.json", "JSON file")


def compare(settings: SideBySideSettings) -> None:
    """Do all of it in turn, and write the file."""
    checkouts = {"before": settings.checkout.resolve(), "now": ROOT}
    conditions = {
        "commits": {when: commit_of(path) for when, path in checkouts.items()},
        "cores": os.cpu_count(),
    }
    rows = recorded_rows(settings.output, "rows", conditions) if settings.only else {}
    with tempfile.TemporaryDirectory() as root, StubEngine() as engine:
        shares = {name: _flow(engine, leg) for name, leg in _SHARES.items()}
        works = {**_CODES, **_COMMANDS, **shares}
        if unknown := set(settings.only) - set(works):
            raise ConfigError(f"--only: there is no {unknown}; there are: {', '.join(works)}")
        for name in settings.only or works:
            if name == _DECODING:
                make_ten_minutes(Path(root) / "ten.mp4")
            taken: dict[str, dict[str, list[float]]] = {}
            for number in range(settings.rounds):
                # Who comes first changes: the second finds files that the system has read already.
                for when in sorted(checkouts, reverse=bool(number % 2)):
                    folder = Path(root) / when
                    in_all = _cpu_seconds(checkouts[when], folder, works[name])
                    for part, took in (_own_shares(folder) if name in shares else {"": in_all}).items():
                        taken.setdefault(name + part, {which: [] for which in checkouts})[when].append(took)
                        print(f"{name}{part}, {when}: {took} CPU s", flush=True)
            for part, seconds in taken.items():
                before, now = (statistics.median(seconds[when]) for when in checkouts)
                rows[part] = {"before": before, "now": now, "ratio": round(now / before, 2), "all": seconds}
            write_record(settings.output, {**conditions, "rows": rows})


def _cpu_seconds(checkout: Path, folder: Path, words: Sequence[str]) -> float:
    """Of a command of a checkout, and of what it starts."""
    folder.mkdir(exist_ok=True)
    with timed() as spent:
        subprocess.run(
            [sys.executable, *(word.replace(_FOLDER, str(folder)) for word in words)],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    return round(spent.cpu_s, 3)


def _flow(engine: StubEngine, leg: str) -> tuple[str, ...]:
    url = engine.url.removesuffix("/v1")
    counts = (f"--{name}={_VIDEOS}" for name in ("videos", "alone", "in-flight"))
    flags = ("--model", MODEL, "--only", leg, *counts, "--output", f"{_FOLDER}/flow.json")
    return ("-m", "perf.flow", url, *flags)


def _own_shares(folder: Path) -> dict[str, float]:
    """CPU seconds of a worker and its sandbox for a question, of the run of perf.flow that just ended."""
    record = folder / "flow.json"
    rows = json.loads(record.read_text())["results"].values()
    record.unlink()
    return {f", {row['in_flight']} in flight": row["client_cpu_s_a_question"] for row in rows}


if __name__ == "__main__":
    run_command(SideBySideSettings, compare)
