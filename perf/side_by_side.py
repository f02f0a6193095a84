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
from perf.flow import LEGS, make_questions
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
_SHARE = f"""
import sys
from dataclasses import asdict
from perf.flow import FlowSettings, answer_leg
leg, folder, url, model = sys.argv[1:]
flags = asdict(FlowSettings(server=url, model=model))
for in_flight in (1, {_VIDEOS}):
    print(in_flight, answer_leg(leg, folder, url, in_flight, flags)["client_cpu_s_a_question"])
"""


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
    works = (*_CODES, *_COMMANDS, *_SHARES)
    if unknown := set(settings.only) - set(works):
        raise ConfigError(f"--only: there is no {unknown}; there are: {', '.join(works)}")
    with tempfile.TemporaryDirectory() as root, StubEngine() as engine:
        for name in settings.only or works:
            if name == _DECODING:
                make_ten_minutes(Path(root) / "ten.mp4")
            taken: dict[str, dict[str, list[float]]] = {}
            for number in range(settings.rounds):
                # Who comes first changes: the second finds files that the system has read already.
                for when in sorted(checkouts, reverse=bool(number % 2)):
                    checkout, folder = checkouts[when], Path(root) / when
                    if name in _SHARES:
                        took = _own_shares(checkout, Path(root), _SHARES[name], engine)
                    else:
                        took = {"": _cpu_seconds(checkout, folder, {**_CODES, **_COMMANDS}[name])}
                    for part, seconds in took.items():
                        row = taken.setdefault(name + part, {which: [] for which in checkouts})
                        row[when].append(seconds)
                        print(f"{name}{part}, {when}: {seconds} CPU s", flush=True)
            for part, all_of in taken.items():
                before, now = (statistics.median(all_of[when]) for when in checkouts)
                rows[part] = {"before": before, "now": now, "ratio": round(now / before, 2), "all": all_of}
            write_record(settings.output, {**conditions, "rows": rows})


def _cpu_seconds(checkout: Path, folder: Path, words: Sequence[str]) -> float:
    """Of a command of a checkout, and of what it starts."""
    folder.mkdir(exist_ok=True)
    with timed() as spent:
        _run(checkout, [word.replace(_FOLDER, str(folder)) for word in words])
    return round(spent.cpu_s, 3)


def _own_shares(checkout: Path, root: Path, leg: str, engine: StubEngine) -> dict[str, float]:
    """CPU seconds of a worker and its sandbox for a question, by videos in flight."""
    folder = root / leg
    if not folder.exists():
        folder.mkdir()
        make_questions(folder, _VIDEOS, LEGS[leg][1])
    said = _run(checkout, ["-c", _SHARE, leg, str(folder), engine.url.removesuffix("/v1"), MODEL])
    rows = (line.split() for line in said.splitlines())
    return {f", {in_flight} in flight": float(seconds) for in_flight, seconds in rows}


def _run(checkout: Path, words: Sequence[str]) -> str:
    """What Python says, in a checkout."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    ).stdout


if __name__ == "__main__":
    run_command(SideBySideSettings, compare)
