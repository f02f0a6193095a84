"""Small folders of the shape in which official benchmarks come, and traces of given replies about them.

Questions are ours; nothing is copied from a benchmark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from videopro.benchmarks import Benchmark
from videopro.methods.base import Result
from videopro.question import read_letter
from videopro.runner.folder import RunFolder
from videopro.runner.summary import summarize
from videopro.runner.worker import Job, make_trace
from videopro.trace import Call, Execution, Failure, Reply, Round, Trace, VideoRef

Intervals = Sequence[tuple[float, float]]


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def touch(root: Path, *names: str) -> None:
    """Files that are there; nothing opens them."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"something")


def traces_of(
    benchmark: Benchmark, replies: Mapping[str, str], found: Mapping[str, Intervals] | None = None
) -> list[Trace]:
    """Traces as the runner writes them when the model replies so. A question whose video is not there ends in
    VideoError, as a run would have it. `found`: what retrieval gave for a question."""
    job = Job(RunFolder(Path("nowhere")), "key", (), benchmark.protocol, 0)
    traces = []
    for item in benchmark.items:
        video = VideoRef(str(item.video), item.video_key)
        if not item.video.exists():
            result = Result(error=Failure("VideoError", "there is no such file"))
        else:
            raw = replies[item.id]
            letter = None if item.question.is_open else read_letter(raw, item.question)
            reply = Reply(letter, 0.5 if letter else 0.0, {}, raw)
            calls = tuple(
                Call("get_informative_clips", {}, "", intervals=(one,))
                for one in (found or {}).get(item.id, ())
            )
            execution = Execution("ok" if letter else "empty", letter, raw=raw, calls=calls)
            only = Round("native", raw, execution=execution, mode="native")
            result = Result((only,), reply, reply, settled=0)
        trace = make_trace(item, result, video, job)
        # Through the file and back.
        traces.append(Trace.from_line(trace.to_line()))
    assert set(replies) <= {item.id for item in benchmark.items}
    return traces


def score(
    benchmark: Benchmark, replies: Mapping[str, str], found: Mapping[str, Intervals] | None = None
) -> dict[str, Any]:
    """The summary of a run with these replies."""
    return summarize(traces_of(benchmark, replies, found), benchmark.protocol, {})


def metrics(summary: Mapping[str, Any]) -> dict[str, tuple[float | None, float | None]]:
    """Robust and official numbers by name."""
    return {name: (one["robust"], one["official"]) for name, one in summary["metrics"].items()}
