"""What a change costs elsewhere: the same work by an earlier checkout and by this one, in turn.

    python -m perf.side_by_side CHECKOUT [--rounds 3]            writes perf/side_by_side.json

Each piece of work is a process of its own with the checkout on its path: 64 frames of a film of ten minutes
(perf.decode's), 300 programs in the sandbox, 16 replies sampled after a video by a tiny model of Qwen3-VL's
class, and the help of three commands; and once, a direct question's own share of a run (perf.flow's, without
the engine). CPU seconds are those of all its processes; the table has the medians.
"""

from __future__ import annotations

import os
import re
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
from perf.recording import commit_of, write_record
from perf.timing import timed
from videopro.cli import option, setting

# Each is given a folder beside the film. The earlier checkout has the same names in its own `perf`.
_CODES = {
    name: ("-c", f"import sys; from pathlib import Path; folder = Path(sys.argv[1])\n{code}")
    for name, code in {
        "64 frames of ten minutes, three times": """
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
_SHARE = "a direct question's own share"


@dataclass(frozen=True)
class SideBySideSettings:
    """Which checkout, and how often."""

    checkout: Path = field(metadata=setting("root of the earlier checkout", positional=True))
    rounds: int = option(3, "times that each piece of work is done by each checkout")
    output: Path = option(ROOT / "perf" / "side_by_side.json", "JSON file")


def compare(settings: SideBySideSettings) -> None:
    """Do all of it in turn, and write the file."""
    checkouts = {"before": settings.checkout.resolve(), "now": ROOT}
    taken: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as root:
        make_ten_minutes(Path(root) / "ten.mp4")
        for name, words in {**_CODES, **_COMMANDS, _SHARE: ()}.items():
            taken[name] = {when: [] for when in checkouts}
            for number in range(1 if name == _SHARE else settings.rounds):
                # Who comes first changes: the second finds files that the system has read already.
                for when in sorted(checkouts, reverse=bool(number % 2)):
                    took = _own_share if name == _SHARE else _cpu_seconds
                    taken[name][when].append(took(checkouts[when], Path(root) / when, words))
                    print(f"{name}, {when}: {taken[name][when][-1]} CPU s", flush=True)
    rows = []
    for name, seconds in taken.items():
        before, now = (statistics.median(seconds[when]) for when in checkouts)
        rows.append(
            {"work": name, "before": before, "now": now, "ratio": round(now / before, 2), "all": seconds}
        )
    commits = {when: commit_of(path) for when, path in checkouts.items()}
    write_record(settings.output, {"commits": commits, "cores": os.cpu_count(), "rows": rows})


def _cpu_seconds(checkout: Path, folder: Path, words: Sequence[str]) -> float:
    """Of a command of a checkout, and of what it starts."""
    folder.mkdir(exist_ok=True)
    with timed() as spent:
        subprocess.run(
            [sys.executable, *words, str(folder)][: None if words[0] == "-c" else -1],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
    return round(spent.cpu_s, 3)


def _own_share(checkout: Path, folder: Path, _: Sequence[str]) -> float:
    """CPU seconds of a worker and its sandbox for a question, of those that perf.flow asks."""
    path = folder / "flow.json"
    flow = ("-m", "perf.flow", "--only", "native-10", "--in-flight", "8", "--output", str(path))
    _cpu_seconds(checkout, folder, flow)
    return float(re.search(r'"client_cpu_s_a_question": ([0-9.]+)', path.read_text())[1])  # type: ignore[index]


if __name__ == "__main__":
    run_command(SideBySideSettings, compare)
