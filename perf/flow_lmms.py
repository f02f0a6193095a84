"""Measures lmms-eval on the native legs of perf/flow.py: the same engine, videos, questions and frames.

    python perf/flow_lmms.py --python ENV/bin/python [--server URL --model NAME] [--videos 24] [--each 10] \\
        [--in-flight 64] --output FILE

lmms-eval belongs in an environment of its own (see perf/lmms_eval.py). Its model `async_openai` asks the
engine, in its form for Qwen3-VL, with `num_cpus` as the number of its requests in flight: its own default is
half of the processors. For each question it decodes the video and sends its frames as pictures. Without
--server, the engine is the one of known speed.

The time is from the first request to the last reply. The processor time is that of lmms-eval's process, with
loading itself. Prints a row, and adds it to the file beside those of perf/flow.py.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from perf.flow import add_beside, engine
from perf.flow_load import EngineLoad
from perf.flow_server import MODEL
from perf.flow_world import make_questions
from perf.lmms_eval import PATCH, TASK, write_task
from videopro.cli import exit_status
from videopro.command_line import CommandLine
from videopro.settings import setting


@dataclass(frozen=True)
class LmmsFlowSettings:
    """lmms-eval's environment, the engine, and the questions."""

    output: Path = field(metadata=setting("file of perf/flow.py, to which the row is added"))
    python: str = field(
        default=sys.executable, metadata=setting("interpreter of the environment that has lmms-eval")
    )
    server: str = field(default="", metadata=setting("URL of a live engine; unset: one of known speed"))
    model: str = field(default=MODEL, metadata=setting("the live engine's name of its model"))
    videos: int = field(default=24, metadata=setting("made-up videos"))
    each: int = field(default=10, metadata=setting("questions a video"))
    in_flight: int = field(default=64, metadata=setting("requests in flight"))
    frames: int = field(default=64, metadata=setting("frames a question"))
    pixels: int = field(default=50_176, metadata=setting("pixels of a frame"))


COMMAND = CommandLine(
    "perf.flow_lmms", LmmsFlowSettings, summary="Measure lmms-eval on the native legs of perf/flow.py."
)


def arguments(given: LmmsFlowSettings, url: str, folder: Path) -> list[str]:
    """lmms-eval's command line, without the program."""
    model = {
        "model_version": given.model,
        "base_url": f"{url}/v1",
        "api_key": "none",
        "is_qwen3_vl": True,
        "nframes": given.frames,
        "max_pixels": given.pixels,
        "min_pixels": (2 * PATCH) ** 2,
        "num_cpus": given.in_flight,
    }
    return [
        *("--model", "async_openai"),
        *("--model_args", ",".join(f"{name}={value}" for name, value in model.items())),
        *("--tasks", TASK, "--include_path", str(folder), "--batch_size", "1"),
    ]


def measure(given: LmmsFlowSettings) -> dict[str, Any]:
    """Run lmms-eval over the questions. Raises RuntimeError if it fails or asks other requests."""
    offline = dict.fromkeys(("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_EVALUATE_OFFLINE"), "1")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_questions(folder, given.videos, given.each)
        rows = write_task(folder, folder)
        with nullcontext(given.server) if given.server else engine(given.pixels) as url:
            load = EngineLoad(url, is_live=bool(given.server))
            load.start(speed=1.0)
            command = [given.python, "-m", "lmms_eval", *arguments(given, url, folder)]
            before = _cpu_of_children()
            done = subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, **offline, "HF_DATASETS_CACHE": str(folder / "datasets")},
                capture_output=True,
                text=True,
            )
            cpu_s = _cpu_of_children() - before
            said = f"lmms-eval ended with status {done.returncode}: {done.stderr[-2000:]}"
            if done.returncode != 0:
                raise RuntimeError(said)
            try:
                found = load.stop()
            except RuntimeError as error:  # its status is 0 after an error too
                raise RuntimeError(f"{error}; {said}") from None
    if found.requests < len(rows):
        raise RuntimeError(f"{found.requests} of {len(rows)} questions were asked; {said}")
    return {
        "questions": len(rows),
        "videos": given.videos,
        "in_flight": given.in_flight,
        **found.figures(len(rows)),
        "client_cpu_s_a_question": round(cpu_s / len(rows), 4),
    }


def _cpu_of_children() -> float:
    """The CPU seconds of the children that have ended: of lmms-eval, and not of the engine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status("stopped; nothing was recorded") as status:
        given = COMMAND.parse(argv)
        same = {"engine": given.server or "known speed", "frames": given.frames, "pixels": given.pixels}
        name = f"native-{given.each}, {given.in_flight} in flight"
        add_beside(given.output, same, "lmms_eval", name, lambda: measure(given))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
