"""videopro seeds: make tables over runs that differ in the training seed (the paper's Table 4).

    videopro seeds "native=runs/native" "SFT=first:runs/0/videopro,first:runs/1/videopro" \\
        "SFT + refinement=runs/0/videopro,runs/1/videopro" --oracle runs/native --output table.json

A row is a name and the runs of its seeds. Runs with a planner are rescored by `--final` and `--fallback`,
regardless of the rule they were run with; the direct answers of `--oracle` serve as fallback. `first:` takes
the answers and costs before any refinement, `best:` the most confident answer before or after it.
`steps:RUN+PROGRAM` rescores the planner as if it always chose program mode: its first answers, but in native
mode those of PROGRAM, a run of method program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console, Group

from videopro.cli import CommandLine, TextTable, exit_status, option, setting
from videopro.errors import ConfigError, RunError
from videopro.methods import FALLBACK_HELP, FINAL_HELP
from videopro.runs import RunFolder
from videopro.storage import write_file
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
from videopro.traces.scoring import (
    FEW_VIDEOS_NOTE,
    MIN_VIDEOS,
    PLANNER_TOKENS_NOTE,
    PLANNER_TOKENS_OUT,
    ROUTING,
    TOKENS_NOTE,
    SeedRow,
    exclusions_text,
    failed_questions,
    oracle_modes,
    percent,
    percent_interval,
    seed_table,
    shown_interval,
)

FIRST, BEST = "first:", "best:"
"""Prefixes of a run that select how it is rescored."""
STEPS = "steps:"
"""Prefix of two runs that are combined."""
# The paper's threshold (A.3). The oracle says what was right to choose, so it is not a planner's to set.
_CONFIDENT = 0.75


@dataclass(frozen=True)
class SeedsConfig:
    """The settings of `videopro seeds`."""

    rows: tuple[str, ...] = field(
        metadata=setting(
            "NAME=RUN,RUN,...: a row and its seeds; each row is compared with the first", positional=True
        )
    )
    oracle: Path | None = option(
        None, "run of method native that defines the oracle mode (A.3) and serves as fallback"
    )
    final: FinalRule = option("last", FINAL_HELP)
    fallback: FallbackRule = option("none", FALLBACK_HELP)
    family: str | None = option(None, "only questions of this family")
    output: tuple[str, ...] = option((), "write the tables to FILE.md, all numbers to FILE.json, or both")

    @property
    def rule(self) -> AnswerRule:
        """The rule for the final answer."""
        return AnswerRule(self.final, self.fallback)


COMMAND = CommandLine("seeds", SeedsConfig)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 2 for errors that the user can fix."""
    with exit_status() as status:
        config = COMMAND.parse(argv)
        for path in config.output:
            if Path(path).suffix not in (".md", ".json"):
                raise ConfigError(f"--output {path}: must end with .md (tables) or .json (all numbers)")
        native = [] if config.oracle is None else _traces(config.oracle)
        natives = {trace.question_id: trace for trace in native}
        rows = [read_seed_row(spec, config.family, config.rule, natives) for spec in config.rows]
        numbers = seed_table(rows, oracle_modes(native, _CONFIDENT), natives)
        tables = tables_of(numbers)
        for path in config.output:
            _write(Path(path), numbers, tables)
        Console().print(Group(*tables))
        by_seed = {f"{row.name}, seed {n}": each for row in rows for n, each in enumerate(row.seeds, 1)}
        for line in failed_questions(by_seed):
            print(line)
    return status.code


# ---- rows -------------------------------------------------------------------------------------------------


def read_seed_row(
    spec: str, family: str | None = None, rule: AnswerRule | None = None, natives: NativeTraces | None = None
) -> SeedRow:
    """The row of a spec NAME=RUN,RUN,..., with all questions or one family's. `rule`: the rule for the
    final answer; None: the paper's. Raises ConfigError or RunError."""
    name, equals, specs = spec.partition("=")
    run_specs = [run_spec for run_spec in specs.split(",") if run_spec]
    if not equals or not name.strip() or not run_specs:
        raise ConfigError(f"row {spec!r}: must have the form NAME=RUN,RUN,... with a folder for each seed")
    runs: list[Path] = []
    seeds, recorded = [], []
    rule = rule or AnswerRule()
    for run_spec in run_specs:
        folders, rescored, raw = _read(run_spec, rule, natives or {})
        runs += folders
        rescored, raw = (
            [trace for trace in traces if family is None or trace.groups.get("family") == family]
            for traces in (rescored, raw)
        )
        if not rescored:
            raise ConfigError(f"family {family!r}: {folders[0]} has no such questions; leave out --family")
        seeds.append(tuple(rescored))
        recorded.append(tuple(raw))
    # One run to which no other rule applies keeps its row out of the table of rules.
    row = SeedRow(name, tuple(runs), tuple(seeds), recorded=tuple(recorded) if all(recorded) else ())
    return replace(row, read_as=_read_as(run_specs, rule)) if row.planned else row


def _read_as(run_specs: Sequence[str], rule: AnswerRule) -> str:
    """A description of the answers that a row selects."""
    if all(run_spec.startswith((FIRST, STEPS)) for run_spec in run_specs):
        return "before refinement" + ("" if rule.fallback == "none" else ", native fallback")
    if all(run_spec.startswith(BEST) for run_spec in run_specs):
        return replace(rule, final="best").title
    return rule.title


def _read(
    run_spec: str, rule: AnswerRule, natives: NativeTraces
) -> tuple[list[Path], list[Trace], list[Trace]]:
    """The folders that a word of a row names, their rescored traces, and the recorded traces if other rules
    apply to them."""
    if run_spec.startswith(STEPS):
        folders, steps = _steps(run_spec)
        return folders, [_first(trace, rule, natives) for trace in steps], []
    prefix = next((prefix for prefix in (FIRST, BEST) if run_spec.startswith(prefix)), "")
    folder = Path(run_spec.removeprefix(prefix))
    traces = _traces(folder)
    if prefix == FIRST:
        return [folder], [_first(trace, rule, natives) for trace in traces], []
    by = replace(rule, final="best") if prefix == BEST else rule
    return [folder], [_answered(trace, by, natives) for trace in traces], [] if prefix else traces


def _steps(run_spec: str) -> tuple[list[Path], list[Trace]]:
    adaptive, plus, program = run_spec.removeprefix(STEPS).rpartition("+")
    if not plus or not adaptive or not program:
        raise ConfigError(f"{run_spec!r}: must have the form {STEPS}ADAPTIVE+PROGRAM")
    by_id = {trace.question_id: trace for trace in _traces(Path(program))}
    traces = _traces(Path(adaptive))
    # Every question: the row would else mix planners that chose their mode with one that never did.
    missing = [trace.question_id for trace in traces if trace.question_id not in by_id]
    if missing:
        raise RunError(
            f"{program}: lacks {len(missing)} of the questions of {adaptive}, such as {missing[0]}; "
            "finish the run, or pass a run on the same questions"
        )
    return [Path(adaptive), Path(program)], [
        rescore_always_program(trace, by_id[trace.question_id]) for trace in traces
    ]


def _first(trace: Trace, rule: AnswerRule, natives: NativeTraces) -> Trace:
    return rescore_before_refinement(trace, rule.fallback, natives.get(trace.question_id))


def _answered(trace: Trace, rule: AnswerRule, natives: NativeTraces) -> Trace:
    """The trace rescored by the rule; a direct answer is the same under every rule."""
    if trace.rounds and trace.rounds[0].prompt_kind == "native":
        return trace
    return rescore_by_rule(trace, rule, natives.get(trace.question_id))


def _traces(path: Path) -> list[Trace]:
    folder = RunFolder(path)
    if not folder.traces.exists():
        raise RunError(f"{path}: contains no run; pass the folder of a finished run of `videopro infer`")
    traces = folder.read()
    if not traces:
        raise RunError(f"{path}: no question is answered yet; finish the run first")
    return traces


# ---- tables -----------------------------------------------------------------------------------------------


_QUESTIONS, _SEEDS = "95 %, questions", "95 %, seeds"
_LEFTS = frozenset((_QUESTIONS, _SEEDS, "by seed"))


def tables_of(numbers: Sequence[Mapping[str, Any]]) -> list[TextTable]:
    """The numbers as tables: answers, gaps, the same runs under other rules, plans, families, and costs."""
    has_letters = any(row["accuracy"] is not None for row in numbers)
    tables = [_answers(numbers)] if has_letters or not any("open" in row for row in numbers) else []
    if any("open" in row for row in numbers):
        tables.append(_open_answers(numbers))
    if any(row.get("difference") is not None for row in numbers):
        tables.append(_gaps(numbers))
    if has_letters and any("rules" in row for row in numbers):
        tables.append(_rules(numbers))
    if any("well_formed" in row for row in numbers):
        tables.append(_plans(numbers))
    if any(len(row["families"]) > 1 for row in numbers):
        tables.append(_families(numbers))
    return [*tables, _costs(numbers)]


def _answers(numbers: Sequence[Mapping[str, Any]]) -> TextTable:
    rows = [
        (
            row["name"],
            *_counts(row),
            percent(row["accuracy"]),
            percent_interval(shown_interval(row["accuracy_ci95"], row["videos"])),
            percent_interval(row["accuracy_seeds_ci95"]),
            ", ".join(percent(seed) for seed in row["seeds"]) if len(row["seeds"]) > 1 else "",
        )
        for row in numbers
    ]
    heads = ("", "n", "videos", "right", _QUESTIONS, _SEEDS, "by seed")
    answers = {row["answers"] for row in numbers if row["answers"]}
    title = f"right %: {answers.pop()}" if len(answers) == 1 else "right %"
    few = any(row["videos"] < MIN_VIDEOS for row in numbers)
    left_out = [
        f"{row['name']}: left out: {exclusions_text(row['left_out'])}" for row in numbers if row["left_out"]
    ]
    caption = (_INTERVALS, *left_out, *([FEW_VIDEOS_NOTE] if few else []))
    return TextTable(title, heads, tuple(rows), caption, _LEFTS)


_INTERVALS = (
    "n: questions of each run. 95 %, questions: clustered by video, with the trainings as they are; 95 %, "
    "seeds: Student's t over the trainings, which is what a claim about a way of training needs."
)


def _counts(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row["questions"]), str(row["videos"])


def _gaps(numbers: Sequence[Mapping[str, Any]]) -> TextTable:
    rows = [
        (
            row["name"],
            _signed(row["difference"]),
            percent_interval(shown_interval(row["difference_ci95"], row["difference_videos"])),
            percent_interval(row["difference_seeds_ci95"]),
            ", ".join(map(_signed, row["difference_seeds"])) if len(row["difference_seeds"]) > 1 else "",
        )
        for row in numbers[1:]
    ]
    heads = ("", "gap", _QUESTIONS, _SEEDS, "by seed")
    title = f"points more than {numbers[0]['name']}, paired by question"
    videos = sorted({row["difference_videos"] for row in numbers[1:]})
    about = " to ".join(map(str, dict.fromkeys((videos[0], videos[-1]))))
    few = any(row["difference_videos"] < MIN_VIDEOS for row in numbers[1:])
    noun = "video" if videos == [1] else "videos"
    caption = (f"Over the questions of both, about {about} {noun}.", *([FEW_VIDEOS_NOTE] if few else []))
    return TextTable(title, heads, tuple(rows), caption, _LEFTS)


def _rules(numbers: Sequence[Mapping[str, Any]]) -> TextTable:
    rescored = [row for row in numbers if "rules" in row]
    names = [name for name in RESCORINGS if name in rescored[0]["rules"]]
    rows = [(row["name"], *(percent(row["rules"][name]["accuracy"]) for name in names)) for row in rescored]
    note = f"n and videos as above. {RESCORINGS_NOTE}"
    return TextTable("right %, by each rule of the final answer", ("", *names), tuple(rows), (note,))


def _plans(numbers: Sequence[Mapping[str, Any]]) -> TextTable:
    planned = [row for row in numbers if "well_formed" in row]
    rows = [(row["name"], *_counts(row), *(percent(row.get(name)) for name in ROUTING)) for row in planned]
    heads = ("", "n", "videos", "form", "ran", "native", "mode", "balanced")
    return TextTable("plans in %", heads, tuple(rows), (_PLANS,))


_PLANS = (
    "form: replies that are well-formed; ran: programs that ran to their end; native: native plans; mode, "
    "balanced: the oracle's mode chosen, of all questions and as the mean over both modes."
)


def _families(numbers: Sequence[Mapping[str, Any]]) -> TextTable:
    names = sorted({name for row in numbers for name in row["families"]})
    rows = [
        (row["name"], *_counts(row), *(percent(row["families"].get(name)) for name in names))
        for row in numbers
    ]
    note = "n and videos are those of all families together."
    return TextTable("right % by family", ("", "n", "videos", *names), tuple(rows), (note,))


def _costs(numbers: Sequence[Mapping[str, Any]]) -> TextTable:
    names = {"calls": 1, "tokens_in": 0, "tokens_out": 0, "planner_tokens_out": 0, "seconds": 2}
    rows = [
        (
            row["name"],
            *_counts(row),
            *("-" if row[name] is None else f"{row[name]:.{digits}f}" for name, digits in names.items()),
        )
        for row in numbers
    ]
    heads = ("", "n", "videos", "calls", "tokens in", "tokens out", PLANNER_TOKENS_OUT, "s")
    caption = ("Means over the questions whose video could be read.", TOKENS_NOTE, PLANNER_TOKENS_NOTE)
    return TextTable("costs per question", heads, tuple(rows), caption)


def _open_answers(numbers: Sequence[Mapping[str, Any]]) -> TextTable:
    rows = []
    for row in numbers:
        if "open" not in row:
            continue
        metrics = row["open"]
        gap = metrics.get("difference")
        rows.append(
            (
                row["name"],
                str(metrics["n"]),
                str(metrics["videos"]),
                percent(metrics["exact_match"]),
                percent(metrics["f1"]),
                percent_interval(shown_interval(metrics["f1_ci95"], metrics["videos"])),
                percent_interval(metrics["f1_seeds_ci95"]),
                "" if gap is None else _signed(gap["f1"]),
                "" if gap is None else percent_interval(shown_interval(gap["f1_ci95"], gap["videos"])),
            )
        )
    heads = ("", "n", "videos", "exact", "F1", _QUESTIONS, _SEEDS, "gap", "95 %, gap")
    few = any(row["open"]["videos"] < MIN_VIDEOS for row in numbers if "open" in row)
    caption = (
        "exact: exact match with the reference; F1: token F1, with its intervals; gap: points of F1 "
        f"above {numbers[0]['name']}, paired by question.",
        *([FEW_VIDEOS_NOTE] if few else []),
    )
    return TextTable("open questions, %", heads, tuple(rows), caption, _LEFTS | {"95 %, gap"})


def _signed(gap: float | None) -> str:
    return "-" if gap is None else f"{100 * gap:+.1f}"


def _write(path: Path, numbers: Sequence[Mapping[str, Any]], tables: Sequence[TextTable]) -> None:
    is_markdown = path.suffix == ".md"
    text = (
        "\n".join(table.markdown for table in tables)
        if is_markdown
        else json.dumps(list(numbers), indent=1) + "\n"
    )
    write_file(path, text, "set another --output")
