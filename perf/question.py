"""Measures what a question costs beside the model and decoding: our own work, and reading text (OCR).

    python -m perf.question [--before CHECKOUT] [--questions 40] [--rounds 9] [--output FILE]

The questions are pocket's test split, answered by `--method videopro --planner pocket-teacher`, one program
at a time, as a worker does (`videopro.runner`). They are answered once, and what the model, the decoder and
OCR returned is kept. A round answers them again with these results, which then cost nothing: what is left is
our own work, from the queue to the trace, with the sandbox's processes. Then it reads the text of some of the
frames again, without what the reader remembers of them. Wall and CPU milliseconds are medians over the
rounds.

`--before`: another checkout. Both are measured in turn in every round, on the same questions and frames, and
the texts of all reads are compared. Writes perf/question.json.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perf import ROOT
from perf.child import ChildFailed
from perf.command import run_command
from perf.decoders import versions
from perf.recording import write_record
from videopro.command_line import CommandLine
from videopro.settings import setting

# The side of one checkout. It runs in an older one too, and so uses nothing that is new.
_CODE = """
import functools, json, sys, tempfile
from pathlib import Path
import torch
torch.set_num_threads(1)
from perf.timing import timed
from videopro import benchmarks, methods
from videopro.backbones import load_backbone
from videopro.modules.library import shared_cache
from videopro.modules.models.encoders.base import VideoTextEncoder
from videopro.modules.models.ocr import Ocr
from videopro.runner import worker
from videopro.runs import RunFolder
from videopro.video import Video
from videopro.work import units

out, sys.stdout = sys.stdout, sys.stderr
backbone, benchmark = load_backbone("pocket"), benchmarks.load("pocket", split="test")
items = benchmark.select(limit=int(sys.argv[1]))
benchmark.fetch(items)
method = methods.create("videopro", {"planner": "pocket-teacher", "max_parallel": 1})
kept, pictures, texts = [], [], {}
again = None


def keep(cls, name):
    function = getattr(cls, name)

    def call(self, *args, **keywords):
        if again is None:
            kept.append((name, function(self, *args, **keywords)))
            if name == "read":
                pictures.append((self, args[0]))
            return kept[-1][1]
        before, result = next(again)
        assert before == name
        return result

    setattr(cls, name, call)
    return function


def encode_texts(self, given, encode=VideoTextEncoder.encode_texts):
    if tuple(given) not in texts:
        texts[tuple(given)] = encode(self, given)
    return texts[tuple(given)]


for name in ("answer_batch", "yes_no_batch", "generate_batch"):
    keep(type(backbone), name)
# One for all rounds, with which a method keeps its module models: loading them is no work on a question.
if hasattr(worker, "share_backbone"):
    worker.share_backbone = functools.cache(worker.share_backbone)
keep(Video, "frames")
read = keep(Ocr, "read")
VideoTextEncoder.encode_texts = encode_texts


class Reporter:
    def answering(self, ids):
        pass

    def doing(self, counts):
        pass


def answer():
    shared_cache().clear()
    with tempfile.TemporaryDirectory() as scratch:
        folder = RunFolder(Path(scratch) / "run")
        key = folder.open({}, {"method": method.identity()})
        # One video at a time, so that every round asks for the same in the same order.
        one = {"in_flight": 1} if "in_flight" in worker.WorkerJob.__dataclass_fields__ else {}
        job = worker.WorkerJob(folder, key, tuple(units(items)), benchmark.protocol, 0, **one)
        with timed() as spent:
            worker.run_worker(job, method, backbone, Reporter())
    return spent


def say(value):
    print(json.dumps(value), file=out, flush=True)


answer()
reads = [[region.text for region in result] for name, result in kept if name == "read"]
again = iter(kept)
answer()  # a warm-up
say({"reads": reads})
for line in sys.stdin:
    again = iter(kept)
    own = answer()
    chosen = pictures[:: max(1, len(pictures) // 12)][:12]
    if hasattr(chosen[0][0], "_kept"):
        chosen[0][0]._kept.clear()
    with timed() as ocr:
        for reader, picture in chosen:
            read(reader, picture)
    say({
        "own_ms": 1000 * own.wall_s / len(items),
        "own_cpu_ms": 1000 * own.cpu_s / len(items),
        "ocr_ms": 1000 * ocr.wall_s / len(chosen),
        "ocr_cpu_ms": 1000 * ocr.cpu_s / len(chosen),
    })
"""


@dataclass(frozen=True)
class QuestionSettings:
    """Which questions, and how often."""

    before: Path | None = field(default=None, metadata=setting("another checkout, measured in turn"))
    questions: int = field(default=40, metadata=setting("questions of pocket's test split"))
    rounds: int = field(default=9, metadata=setting("rounds; in each, every checkout is measured once"))
    output: Path = field(default=ROOT / "perf" / "question.json", metadata=setting("file for the results"))


COMMAND = CommandLine(
    "perf.question",
    QuestionSettings,
    summary="Measure what a question costs beside the model and decoding.",
)


class Side:
    """The process of one checkout."""

    def __init__(self, checkout: Path, questions: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE, str(questions)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"},
            cwd=checkout,
            text=True,
        )
        self.reads: list[list[str]] = self._reply()["reads"]

    def measure(self) -> dict[str, float]:
        """One round. Raises ChildFailed."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return dict(self._reply())

    def _reply(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildFailed(f"the process of a checkout ended (status {self._process.wait()})")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def compare(given: QuestionSettings) -> None:
    """Measure, print and write the results. Raises ChildFailed."""
    checkouts = {"before": given.before.absolute()} if given.before is not None else {}
    checkouts["now"] = ROOT
    sides: dict[str, Side] = {}
    rounds: dict[str, list[Mapping[str, float]]] = {name: [] for name in checkouts}
    load = os.getloadavg()[0]
    try:
        for name, checkout in checkouts.items():
            sides[name] = Side(checkout, given.questions)
        for _ in range(given.rounds):
            for name, side in sides.items():
                rounds[name].append(side.measure())
    finally:
        for side in sides.values():
            side.close()
    results = {
        name: {key: round(statistics.median(row[key] for row in rows), 1) for key in rows[0]}
        for name, rows in rounds.items()
    }
    for name, row in results.items():
        print(f"  {name:<8}", "  ".join(f"{key} {value}" for key, value in row.items()))
    reads = [side.reads for side in sides.values()]
    record = {
        "results": results,
        "questions": given.questions,
        "rounds": given.rounds,
        "reads": len(reads[-1]),
        "reads_with_other_text": sum(a != b for a, b in zip(reads[0], reads[-1], strict=True)),
        "load_before": round(load, 1),
        "versions": versions(),
    }
    write_record(given.output, record, indent=2)


if __name__ == "__main__":
    run_command(COMMAND, compare)
