"""Measures what `vllm bench serve` reaches with the requests of perf/flow.py's native legs.

    python perf/flow_bench.py --python ENGINE/bin/python --server URL --model NAME [--videos 24] \\
        [--each 10] [--in-flight 64] [--frames 16] [--pixels 15360] --output FILE

The requests are those that a run with as many videos in flight sends to the engine of known speed, in their
order. vLLM's own benchmark client (`vllm.benchmarks.serve`, in the engine's environment) sends them again to
the live engine, with `--in-flight` of them at a time and nothing to prepare: what an engine does for a client
that costs nothing but HTTP. One request before them warms the engine up.

The time is from the first request to the last reply. `client_cpu_s_a_question` is the processor time of
vLLM's client, with its start. Prints a row, and adds it to the file beside those of perf/flow.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf import ROOT
from perf.child import call_in_child
from perf.flow import FlowSettings, add_beside, engine
from perf.flow_load import EngineLoad
from perf.flow_server import MODEL
from perf.flow_world import make_questions
from perf.timing import timed
from videopro.cli import exit_status
from videopro.command_line import CommandLine
from videopro.settings import setting


@dataclass(frozen=True)
class BenchSettings:
    """The live engine, its environment, and the questions."""

    output: Path = field(metadata=setting("file of perf/flow.py, to which the row is added"))
    python: str = field(metadata=setting("interpreter of the engine's environment"))
    server: str = field(metadata=setting("URL of the live engine, without /v1"))
    model: str = field(metadata=setting("its name of its model"))
    videos: int = field(default=24, metadata=setting("made-up videos"))
    each: int = field(default=10, metadata=setting("questions a video"))
    in_flight: int = field(default=64, metadata=setting("requests in flight"))
    frames: int = field(default=16, metadata=setting("frames a question"))
    pixels: int = field(default=15_360, metadata=setting("pixels of a frame"))


COMMAND = CommandLine(
    "perf.flow_bench", BenchSettings, summary="Measure vllm bench serve on the native legs of perf/flow.py."
)


def record(given: BenchSettings, folder: Path) -> Path:
    """Write the bodies of the requests that a run sends, as JSON lines. Raises ChildFailed."""
    make_questions(folder, given.videos, given.each)
    kept = folder / "requests.jsonl"
    of_run = asdict(FlowSettings(videos=given.videos, frames=given.frames, pixels=given.pixels, model=MODEL))
    settings = {name: value for name, value in of_run.items() if name not in ("only", "output")}
    with engine(given.pixels, str(kept)) as url:
        call_in_child("perf.flow:answer_leg", "native-10", str(folder), url, given.in_flight, settings)
    return kept


def measure(given: BenchSettings) -> dict[str, Any]:
    """Send the requests by vLLM's client. Raises RuntimeError if it fails or a request does."""
    with tempfile.TemporaryDirectory() as name:
        kept, times = record(given, Path(name)), Path(name) / "times.json"
        load = EngineLoad(given.server, is_live=True)
        load.start(speed=1.0)
        words = [kept, given.server, given.model, given.in_flight, times]
        with timed() as spent:
            done = subprocess.run(
                [given.python, str(ROOT / "perf" / "flow_bench_client.py"), *map(str, words)],
                capture_output=True,
                text=True,
            )
        found = load.stop()
        asked = given.videos * given.each
        if done.returncode != 0 or not times.exists():
            raise RuntimeError(f"vLLM's client ended with status {done.returncode}: {done.stderr[-2000:]}")
        said = json.loads(times.read_text(encoding="utf-8"))
    if said["completed"] != asked:
        raise RuntimeError(f"{said['completed']} of {asked} requests were answered")
    return {
        "questions": asked,
        "videos": given.videos,
        "in_flight": given.in_flight,
        **found.figures(asked),
        "questions_per_s": round(asked / said["duration"], 2),
        "client_cpu_s_a_question": round(spent.cpu_s / asked, 4),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status("stopped; nothing was recorded") as status:
        given = COMMAND.parse(argv)
        same = {"engine": given.server, "frames": given.frames, "pixels": given.pixels}
        name = f"native-{given.each}, {given.in_flight} in flight"
        add_beside(given.output, same, "vllm_bench", name, lambda: measure(given))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
