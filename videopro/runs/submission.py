"""Write the answers of a run in the format of a benchmark's evaluation server.

Unparsed and missing answers are submitted as missing, never as a random letter.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from videopro.benchmarks import OFFICIAL
from videopro.cli import setting
from videopro.errors import ConfigError, RunError, writing_file
from videopro.question import LETTERS
from videopro.runs.folder import RunFolder
from videopro.runs.judging import recorded_protocol
from videopro.storage import write_atomically
from videopro.traces import Trace

# How EgoSchema's server and lmms-eval encode a missing answer.
NO_ANSWER = -1

Cell = Callable[[Trace], object]
Form = Callable[[Sequence[Trace]], str]


@dataclass(frozen=True)
class SubmitConfig:
    """The settings of `videopro benchmarks submit`."""

    run: Path = field(metadata=setting("run folder", positional=True))
    output: Path = field(
        metadata=setting("file to write, .json or .csv (egoschema: .json for validate.py, .csv for Kaggle)")
    )


@dataclass(frozen=True)
class Submission:
    """The written file, and how many of its questions have no answer."""

    path: Path
    questions: int
    unanswered: int


def submit(config: SubmitConfig) -> Submission:
    """Write the file. Raises RunError if the folder is not a run of a benchmark with a server."""
    folder = RunFolder(config.run)
    recorded_protocol(folder)
    protocol = (folder.recorded_identity() or {})["protocol"]
    name = protocol.get("benchmark")
    # A user's own benchmarks are in neither: they have another form.
    if name in OFFICIAL and name not in FORMS:
        raise RunError(
            f"{folder.path}: {name!r} is scored locally, not by a server; benchmarks with a submission file: "
            f"{', '.join(FORMS)}, and your own benchmarks"
        )
    endings = FORMS.get(str(name), _GENERIC)
    if config.output.suffix not in endings:
        raise ConfigError(
            f"output is {str(config.output)!r}; for {name} it must end in {' or '.join(endings)}"
        )
    # By id: traces are in the order in which workers answered.
    traces = sorted(folder.read(), key=lambda trace: trace.question_id)
    content = endings[config.output.suffix](traces)
    with writing_file(config.output):
        write_atomically(config.output, content)
    return Submission(config.output, len(traces), sum(not _answer(trace) for trace in traces))


def _letter(trace: Trace) -> str | None:
    return trace.final.letter if trace.final is not None else None


def _option_index(trace: Trace) -> int:
    letter = _letter(trace)
    return NO_ANSWER if letter is None else LETTERS.index(letter)


def _as_json(cell: Cell) -> Form:
    """{id: cell}."""
    return lambda traces: json.dumps({trace.question_id: cell(trace) for trace in traces}, indent=1) + "\n"


def _as_csv(head: str, cell: Cell) -> Form:
    """A column of ids with this heading, and one of cells."""

    def written(traces: Sequence[Trace]) -> str:
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow((head, "answer"))
        writer.writerows((trace.question_id, cell(trace)) for trace in traces)
        return file.getvalue()

    return written


def _mlvu_json(traces: Sequence[Trace]) -> str:
    """question_id, question_type, option (JUNJIE99/MLVU, evaluation_test/README.md)."""
    rows = [
        {
            "question_id": trace.question_id,
            "question_type": trace.groups.get("task", ""),
            "option": _letter(trace) or "",
        }
        for trace in traces
    ]
    return json.dumps(rows, indent=1) + "\n"


def _answer(trace: Trace) -> str:
    """The letter; for an open question, the reply; "" if there is none."""
    if trace.choices or trace.final is None:
        return _letter(trace) or ""
    return trace.final.raw


# The forms of users' benchmarks, of plug-ins and of `jsonl`.
_GENERIC: Mapping[str, Form] = {".json": _as_json(_answer), ".csv": _as_csv("id", _answer)}
FORMS: Mapping[str, Mapping[str, Form]] = {
    # egoschema/EgoSchema, README.md and validate.py; Kaggle's competition egoschema-public.
    "egoschema": {".json": _as_json(_option_index), ".csv": _as_csv("q_uid", _option_index)},
    # lmms-eval, longvideobench_aggregate_results_for_submission.
    "longvideobench": {".json": _as_json(_answer)},
    "mlvu": {".json": _mlvu_json},
}
