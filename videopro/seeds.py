"""python -m videopro.seeds: one table over runs that differ in the seed of a training (the paper's Table 4).

    python -m videopro.seeds "native=runs/native" "SFT=first:runs/0/videopro,first:runs/1/videopro" \\
        "SFT + refinement=runs/0/videopro,runs/1/videopro" --oracle runs/native --output table.json

A row is a name and the runs of its seeds. `first:` takes the answers before any refinement, and what they
cost, from a run that refined; `best:` the most confident of the answers before and after it.
`steps:RUN+PROGRAM` is the planner had it always taken several steps: its first answers, but those of PROGRAM,
a run of method program, where it chose one look. Knows runs by their folders.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table

from videopro import scoring
from videopro.command import exit_status
from videopro.config import about, from_command_line
from videopro.errors import ConfigError, RunError
from videopro.hindsight import always_steps, before_refinement, most_confident
from videopro.routing import Mode, figures, oracle_modes, planned_in
from videopro.runner.folder import RunFolder, write_atomically
from videopro.runner.summary import percent, records_of
from videopro.scoring import Scored
from videopro.trace import Cost, Trace

PROG = "python -m videopro.seeds"
READ_AS: dict[str, Callable[[Trace], Trace]] = {"first:": before_refinement, "best:": most_confident}
"""What a word before a run makes of each of its traces."""
STEPS = "steps:"
"""A word before two runs, which are read together."""
ROUTING = ("well_formed", "executed", "native_share", "mode_accuracy", "mode_balanced_accuracy")


@dataclass(frozen=True)
class SeedsConfig:
    """The settings of the command."""

    rows: tuple[str, ...] = field(
        metadata=about(
            "NAME=RUN,RUN,...: a row and its seeds; the first row is compared with", positional=True
        )
    )
    oracle: Path | None = field(
        default=None, metadata=about("run of method native, which says which mode was enough (A.3)")
    )
    family: str | None = field(default=None, metadata=about("only questions of this family"))
    tau: float = field(default=0.75, metadata=about("confident, for the oracle, means at least this"))
    output: Path | None = field(default=None, metadata=about("write the numbers to this JSON file"))


@dataclass(frozen=True)
class Row:
    """A row with the traces of its runs, one list a seed."""

    name: str
    runs: tuple[Path, ...]
    seeds: tuple[tuple[Trace, ...], ...]
    planned: bool
    """Whether a planner wrote programs in it."""


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 2 for what the user can mend."""
    with exit_status() as status:
        config = from_command_line(
            SeedsConfig,
            list(sys.argv[1:] if argv is None else argv),
            PROG,
            "Accuracy over several seeds of a training, with what was planned and what it cost.",
        )
        rows = [read_row(one, config.family) for one in config.rows]
        oracle = {} if config.oracle is None else oracle_modes(_traces(config.oracle), config.tau)
        found = table_of(rows, oracle)
        if config.output is not None:
            _write(config.output, found)
        Console().print(shown(found))
    return status.code


def read_row(spec: str, family: str | None = None) -> Row:
    """The row that NAME=RUN,RUN,... names, all of it or one family's questions. Raises ConfigError or
    RunError."""
    name, equals, rest = spec.partition("=")
    words = [word for word in rest.split(",") if word]
    if not equals or not name.strip() or not words:
        raise ConfigError(f"row {spec!r}: give it as NAME=RUN,RUN,... with a folder for each seed")
    runs, seeds = [], []
    for word in words:
        folders, traces = _read(word)
        runs += folders
        traces = [one for one in traces if family is None or one.groups.get("family") == family]
        if not traces:
            raise ConfigError(f"family {family!r}: {folders[0]} has no question of it; leave --family out")
        seeds.append(tuple(traces))
    plans = any(one.rounds and one.rounds[0].prompt_kind != "native" for own in seeds for one in own)
    return Row(name, tuple(runs), tuple(seeds), plans)


def _read(word: str) -> tuple[list[Path], list[Trace]]:
    """The folders that a word of a row names, and what it makes of their traces."""
    if word.startswith(STEPS):
        adaptive, plus, program = word.removeprefix(STEPS).rpartition("+")
        if not plus or not adaptive or not program:
            raise ConfigError(f"{word!r}: give the runs as {STEPS}ADAPTIVE+PROGRAM")
        asked = {one.question_id: one for one in _traces(Path(program))}
        traces = _traces(Path(adaptive))
        missing = [one.question_id for one in traces if one.question_id not in asked]
        if missing:
            raise RunError(
                f"{program}: has not {len(missing)} of the questions of {adaptive}, such as {missing[0]}; "
                "finish it, or name a run on the same questions"
            )
        made = [always_steps(one, asked[one.question_id]) for one in traces]
        return [Path(adaptive), Path(program)], made
    prefix = next((one for one in READ_AS if word.startswith(one)), "")
    folder = Path(word.removeprefix(prefix))
    traces = _traces(folder)
    return [folder], [READ_AS[prefix](one) for one in traces] if prefix else traces


def table_of(rows: Sequence[Row], oracle: Mapping[str, Mode]) -> list[dict[str, Any]]:
    """The numbers of each row, JSON-able; shares in 0..1, costs a question.

    Accuracy pools the answers of all seeds; its interval, and that of the difference to the first row,
    question by question and seed by seed, are clustered by video, so that a question answered under three
    seeds does not count as three. `seeds` holds each seed's own accuracy: what another training would
    change. Raises ConfigError for rows whose numbers of seeds cannot be paired.
    """
    return [_numbers(row, rows[0], oracle) for row in rows]


def _numbers(row: Row, reference: Row, oracle: Mapping[str, Mode]) -> dict[str, Any]:
    each = [records_of(traces) for traces in row.seeds]
    pooled = scoring.accuracy(_pooled(each), distinct=len(each[0]))
    found: dict[str, Any] = {
        "name": row.name,
        "runs": [str(run) for run in row.runs],
        "questions": len(each[0]),
        "accuracy": pooled.accuracy,
        "accuracy_ci95": pooled.ci95,
        "seeds": [scoring.accuracy(records).accuracy for records in each],
        "families": {
            name: part.accuracy
            for name, part in scoring.group_accuracy(_pooled(each)).get("family", {}).items()
        },
        **_costs(row.seeds),
    }
    if row is not reference:
        gap = scoring.paired_difference(*_paired(row, reference))
        found |= {"difference": gap.difference, "difference_ci95": gap.ci95}
    if row.planned:
        of_seeds = [figures([planned_in(trace, oracle) for trace in traces]) for traces in row.seeds]
        for name in ROUTING:
            if all(name in one for one in of_seeds):
                found[name] = sum(one[name] for one in of_seeds) / len(of_seeds)
    return found


def _pooled(each: Sequence[Sequence[Scored]]) -> list[Scored]:
    """The records of several seeds as one list, where each question keeps its video and gets a name of its
    own under each seed."""
    return [
        replace(record, question_id=f"{seed}/{record.question_id}")
        for seed, records in enumerate(each)
        for record in records
    ]


def _paired(row: Row, reference: Row) -> tuple[list[Scored], list[Scored]]:
    ours, others = [[records_of(traces) for traces in one.seeds] for one in (row, reference)]
    if len(others) == 1:
        others = others * len(ours)
    elif len(ours) == 1:
        ours = ours * len(others)
    if len(ours) != len(others):
        raise ConfigError(
            f"row {row.name!r} has {len(ours)} seeds and the first row {len(others)}; give as many, or one"
        )
    return _pooled(ours), _pooled(others)


def _costs(seeds: Sequence[Sequence[Trace]]) -> dict[str, float]:
    traces = [trace for own in seeds for trace in own]
    cost = sum((trace.cost for trace in traces), Cost())
    written = sum(one.planning.tokens_out for trace in traces for one in trace.rounds[: trace.refined + 1])
    names = ("seconds", "calls", "frames", "tokens_in", "tokens_out")
    return {name: getattr(cost, name) / len(traces) for name in names} | {"planned": written / len(traces)}


def shown(found: Sequence[Mapping[str, Any]]) -> Group:
    """The numbers as two tables: answers, and plans with what they cost a question."""
    right = Table(caption=_CAPTION, caption_justify="left")
    for name in ("", "n", "right %", "95 %", "seeds %", "gap", "95 % of gap"):
        right.add_column(name, justify="right" if name in ("n", "right %", "gap") else "left")
    plans = Table(title="plans in %, and cost a question")
    heads = ("", "form", "ran", "native", "mode", "balanced", "written", "calls", "s")
    for name in heads:
        plans.add_column(name, justify="right" if name else "left")
    for one in found:
        gap = one.get("difference")
        right.add_row(
            escape(one["name"]),
            str(one["questions"]),
            percent(one["accuracy"]),
            _between(one["accuracy_ci95"]),
            ", ".join(map(percent, one["seeds"])) if len(one["seeds"]) > 1 else "",
            "" if gap is None else f"{100 * gap:+.1f}",
            "" if gap is None else _between(one["difference_ci95"]),
        )
        plans.add_row(
            escape(one["name"]),
            *(percent(one.get(name)) for name in ROUTING),
            f"{one['planned']:.0f}",
            f"{one['calls']:.1f}",
            f"{one['seconds']:.2f}",
        )
    return Group(right, plans)


_CAPTION = """gaps to the first row, paired by question; intervals clustered by video, over all seeds
form: replies that are well-formed; mode, balanced: the oracle's mode chosen; written: tokens of plans"""


def _between(interval: Sequence[float] | None) -> str:
    return f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f}" if interval else "-"


def _traces(path: Path) -> list[Trace]:
    folder = RunFolder(path)
    if not folder.traces.exists():
        raise RunError(f"{path}: holds no run; give the folder of a finished run of videopro.infer")
    found = folder.read()
    if not found:
        raise RunError(f"{path}: no question was answered there yet; finish the run first")
    return found


def _write(path: Path, found: Sequence[Mapping[str, Any]]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(list(found), indent=1) + "\n")
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror})") from error


if __name__ == "__main__":
    sys.exit(main())
