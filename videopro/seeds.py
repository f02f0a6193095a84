"""python -m videopro.seeds: one table over runs that differ in the seed of a training (the paper's Table 4).

    python -m videopro.seeds "native=runs/native" "SFT=first:runs/0/videopro,first:runs/1/videopro" \\
        "SFT + refinement=runs/0/videopro,runs/1/videopro" --oracle runs/native --output table.json

A row is a name and the runs of its seeds. Runs with a planner are read by `--final` and `--fallback`,
whatever they themselves were asked for; `--oracle` answers where a fallback is called for. `first:` takes
the answers before any refinement, and what they cost; `best:` the most confident of the answers before and
after it. `steps:RUN+PROGRAM` is the planner had it always taken several steps: its first answers, but those
of PROGRAM, a run of method program, where it chose one look. Knows runs by their folders. """

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import rich.table
from rich.console import Console, Group
from rich.markup import escape

from videopro.cli import exit_status
from videopro.errors import ConfigError, RunError
from videopro.methods.program import FALLBACK_HELP, FINAL_HELP
from videopro.runs import RunFolder
from videopro.scoring import ROUTING, SeedRow, oracle_modes, percent, seed_table
from videopro.settings import from_command_line, setting
from videopro.storage import write_atomically
from videopro.traces import (
    RESCORINGS,
    RESCORINGS_NOTE,
    AnswerRule,
    FallbackRule,
    FinalRule,
    NativeTraces,
    Trace,
    rescore_always_program,
    rescore_before_refinement,
    rescore_by_rule,
)

PROG = "python -m videopro.seeds"
FIRST, BEST = "first:", "best:"
"""Words before a run, which say how it is read."""
STEPS = "steps:"
"""A word before two runs, which are read together."""


@dataclass(frozen=True)
class SeedsConfig:
    """The settings of the command."""

    rows: tuple[str, ...] = field(
        metadata=setting(
            "NAME=RUN,RUN,...: a row and its seeds; the first row is compared with", positional=True
        )
    )
    oracle: Path | None = field(
        default=None,
        metadata=setting("run of method native: says which mode was enough (A.3), and is the fallback"),
    )
    final: FinalRule = field(default="last", metadata=setting(FINAL_HELP))
    fallback: FallbackRule = field(default="none", metadata=setting(FALLBACK_HELP))
    family: str | None = field(default=None, metadata=setting("only questions of this family"))
    tau: float = field(default=0.75, metadata=setting("confident, for the oracle, means at least this"))
    output: tuple[str, ...] = field(
        default=(), metadata=setting("write the tables to FILE.md, or all numbers to FILE.json; or both")
    )

    @property
    def rule(self) -> AnswerRule:
        """Which answer counts."""
        return AnswerRule(self.final, self.fallback)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 2 for what the user can mend."""
    with exit_status() as status:
        config = from_command_line(
            SeedsConfig,
            list(sys.argv[1:] if argv is None else argv),
            PROG,
            "Accuracy over several seeds of a training, with what was planned and what it cost.",
        )
        native = [] if config.oracle is None else _traces(config.oracle)
        natives = {one.question_id: one for one in native}
        rows = [read_row(one, config.family, config.rule, natives) for one in config.rows]
        found = seed_table(rows, oracle_modes(native, config.tau), natives)
        tables = tables_of(found)
        for path in config.output:
            _write(Path(path), found, tables)
        Console().print(Group(*tables))
    return status.code


# ---- rows -------------------------------------------------------------------------------------------------


def read_row(
    spec: str, family: str | None = None, rule: AnswerRule | None = None, natives: NativeTraces | None = None
) -> SeedRow:
    """The row that NAME=RUN,RUN,... names, all of it or one family's questions. `rule`: which answer counts;
    None: the paper's. Raises ConfigError or RunError."""
    name, equals, rest = spec.partition("=")
    words = [word for word in rest.split(",") if word]
    if not equals or not name.strip() or not words:
        raise ConfigError(f"row {spec!r}: give it as NAME=RUN,RUN,... with a folder for each seed")
    runs: list[Path] = []
    seeds, recorded = [], []
    rule = rule or AnswerRule()
    for word in words:
        folders, own, raw = _read(word, rule, natives or {})
        runs += folders
        own, raw = (
            [one for one in traces if family is None or one.groups.get("family") == family]
            for traces in (own, raw)
        )
        if not own:
            raise ConfigError(f"family {family!r}: {folders[0]} has no question of it; leave --family out")
        seeds.append(tuple(own))
        recorded.append(tuple(raw))
    row = SeedRow(name, tuple(runs), tuple(seeds), recorded=tuple(recorded) if all(recorded) else ())
    return replace(row, read_as=_read_as(words, rule)) if row.planned else row


def _read_as(words: Sequence[str], rule: AnswerRule) -> str:
    """Which answers the words of a row ask for."""
    if all(word.startswith((FIRST, STEPS)) for word in words):
        return "before refinement" + ("" if rule.fallback == "none" else ", native fallback")
    if all(word.startswith(BEST) for word in words):
        return replace(rule, final="best").title
    return rule.title


def _read(word: str, rule: AnswerRule, natives: NativeTraces) -> tuple[list[Path], list[Trace], list[Trace]]:
    """The folders that a word of a row names, what it makes of their traces, and these as they were recorded
    where other rules would read them otherwise."""
    if word.startswith(STEPS):
        folders, steps = _steps(word)
        return folders, [_first(one, rule, natives) for one in steps], []
    prefix = next((one for one in (FIRST, BEST) if word.startswith(one)), "")
    folder = Path(word.removeprefix(prefix))
    traces = _traces(folder)
    if prefix == FIRST:
        return [folder], [_first(one, rule, natives) for one in traces], []
    by = replace(rule, final="best") if prefix == BEST else rule
    return [folder], [_answered(one, by, natives) for one in traces], [] if prefix else traces


def _steps(word: str) -> tuple[list[Path], list[Trace]]:
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
    return [Path(adaptive), Path(program)], [
        rescore_always_program(one, asked[one.question_id]) for one in traces
    ]


def _first(trace: Trace, rule: AnswerRule, natives: NativeTraces) -> Trace:
    return rescore_before_refinement(trace, rule.fallback, natives.get(trace.question_id))


def _answered(trace: Trace, rule: AnswerRule, natives: NativeTraces) -> Trace:
    """By the rule; a direct answer is what it is by every rule."""
    if trace.rounds and trace.rounds[0].prompt_kind == "native":
        return trace
    return rescore_by_rule(trace, rule, natives.get(trace.question_id))


def _traces(path: Path) -> list[Trace]:
    folder = RunFolder(path)
    if not folder.traces.exists():
        raise RunError(f"{path}: holds no run; give the folder of a finished run of videopro.infer")
    found = folder.read()
    if not found:
        raise RunError(f"{path}: no question was answered there yet; finish the run first")
    return found


# ---- what is shown ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TextTable:
    """A table as words, for a terminal and for Markdown; the first column is names."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    def __rich__(self) -> rich.table.Table:
        shown = rich.table.Table(title=escape(self.title), caption=self.caption, caption_justify="left")
        for head in self.heads:
            shown.add_column(head, justify="right" if head in _NUMBERS else "left")
        for row in self.rows:
            shown.add_row(*map(escape, row))
        return shown

    @property
    def markdown(self) -> str:
        """The table with its title above and its caption below."""
        lines = [self.heads, *self.rows]
        cells = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in lines]
        cells.insert(1, " | ".join("---:" if head in _NUMBERS else "---" for head in self.heads))
        rows = "\n".join(f"| {line} |" for line in cells)
        return f"**{self.title}**\n\n{rows}\n" + (f"\n{self.caption}\n" if self.caption else "")


_NUMBERS = (
    *("n", "right", "gap", *RESCORINGS, "form", "ran", "native", "mode", "balanced", "written", "calls", "s"),
)
_QUESTIONS, _SEEDS = "95 %, questions", "95 %, seeds"


def tables_of(found: Sequence[Mapping[str, Any]]) -> list[TextTable]:
    """The numbers as tables: answers, gaps, the same runs by other rules, plans with what they cost."""
    tables = [_answers(found)]
    if any("difference" in one for one in found):
        tables.append(_gaps(found))
    if any("rules" in one for one in found):
        tables.append(_rules(found))
    if any("well_formed" in one for one in found):
        tables.append(_plans(found))
    return tables


def _answers(found: Sequence[Mapping[str, Any]]) -> TextTable:
    rows = [
        (
            one["name"],
            str(one["questions"]),
            percent(one["accuracy"]),
            _between(one["accuracy_ci95"]),
            _between(one["accuracy_seeds_ci95"]),
            ", ".join(percent(seed) for seed in one["seeds"]) if len(one["seeds"]) > 1 else "",
        )
        for one in found
    ]
    heads = ("", "n", "right", _QUESTIONS, _SEEDS, "by seed")
    answers = {one["answers"] for one in found if one["answers"]}
    title = f"right %: {answers.pop()}" if len(answers) == 1 else "right %"
    return TextTable(title, heads, tuple(rows), _INTERVALS)


_INTERVALS = """95 %, questions: clustered by video, with the trainings as they are; 95 %, seeds: Student's t
over the trainings, which is what a claim about a way of training needs"""


def _gaps(found: Sequence[Mapping[str, Any]]) -> TextTable:
    rows = [
        (
            one["name"],
            _signed(one["difference"]),
            _between(one["difference_ci95"]),
            _between(one["difference_seeds_ci95"]),
            ", ".join(map(_signed, one["difference_seeds"])) if len(one["difference_seeds"]) > 1 else "",
        )
        for one in found[1:]
    ]
    heads = ("", "gap", _QUESTIONS, _SEEDS, "by seed")
    return TextTable(f"points more than {found[0]['name']}, paired by question", heads, tuple(rows))


def _rules(found: Sequence[Mapping[str, Any]]) -> TextTable:
    told = [one for one in found if "rules" in one]
    names = [name for name in RESCORINGS if name in told[0]["rules"]]
    rows = [(one["name"], *(percent(one["rules"][name]["accuracy"]) for name in names)) for one in told]
    return TextTable("right %, by each rule of the final answer", ("", *names), tuple(rows), RESCORINGS_NOTE)


def _plans(found: Sequence[Mapping[str, Any]]) -> TextTable:
    rows = [
        (
            one["name"],
            *(percent(one.get(name)) for name in ROUTING),
            f"{one['planned']:.0f}",
            f"{one['calls']:.1f}",
            f"{one['seconds']:.2f}",
        )
        for one in found
    ]
    heads = ("", "form", "ran", "native", "mode", "balanced", "written", "calls", "s")
    return TextTable("plans in %, and costs a question", heads, tuple(rows), _PLANS)


_PLANS = """form: replies that are well-formed; ran: programs that ran to their end; native: native plans;
mode, balanced: the oracle's mode chosen; written: tokens of plans; calls: of the model"""


def _signed(gap: float | None) -> str:
    return "-" if gap is None else f"{100 * gap:+.1f}"


def _between(interval: Sequence[float] | None) -> str:
    return f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f}" if interval else "-"


def _write(path: Path, found: Sequence[Mapping[str, Any]], tables: Sequence[TextTable]) -> None:
    is_markdown = path.suffix == ".md"
    text = (
        "\n".join(one.markdown for one in tables) if is_markdown else json.dumps(list(found), indent=1) + "\n"
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror})") from error


if __name__ == "__main__":
    sys.exit(main())
