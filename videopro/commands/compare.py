"""videopro compare: compare the accuracy, cost, output and modes of runs (Tables 2, 5; VCA's Fig. 1).

    videopro compare runs/native runs/program runs/videopro
    videopro compare runs/table                     # all runs in that folder
    videopro compare --methods native program videopro --benchmark lvbench --root DIR \\
        --model MODEL --backbone adapter=FOLDER --output runs/table
    videopro compare --methods native vca --preset equal --benchmark lvbench ... --output runs/agents

With --methods, it first runs or resumes each method in OUTPUT/METHOD. A setting that only some methods have
applies to those methods.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from rich.console import Console

from videopro import methods
from videopro.backbones import Backbone, load_backbone
from videopro.benchmarks import PRESETS
from videopro.cli import CommandLine, TextTable, exit_status, option, read_yaml
from videopro.commands import infer
from videopro.commands.infer_settings import InferConfig, shared_settings
from videopro.errors import ConfigError, RunError, reading_file
from videopro.methods import METHOD_OPTIONS, METHODS
from videopro.runs import RUN_FIELDS, RunFolder, find_runs
from videopro.storage import parse_json
from videopro.traces import RESCORINGS, RESCORINGS_NOTE, Cost, Trace, rescore_all, without_stored_rounds
from videopro.traces.scoring import (
    FEW_VIDEOS_NOTE,
    MIN_VIDEOS,
    PLANNER_TOKENS_NOTE,
    PLANNER_TOKENS_OUT,
    TOKENS_NOTE,
    Accuracy,
    Difference,
    OpenScore,
    QuestionScore,
    accuracy,
    exclusions,
    exclusions_text,
    failed_questions,
    is_answerable,
    lack_of_model,
    mean_costs,
    mean_frames_seen,
    open_difference,
    open_metrics,
    open_scores,
    paired_difference,
    percent,
    percent_interval,
    planner_tokens_out,
    records_of,
    shown_interval,
)


@dataclass(frozen=True, kw_only=True)
class CompareConfig(InferConfig):
    """The settings of `videopro.infer`, for several methods."""

    methods: tuple[str, ...] = option((), "methods to run; each is compared with the first")


@dataclass(frozen=True)
class ComparisonRun:
    """One run of a comparison."""

    name: str
    summary: Mapping[str, Any]
    traces: Sequence[Trace]

    @cached_property
    def records(self) -> list[QuestionScore]:
        """The scores of its questions with letters."""
        return records_of(self.traces)

    @property
    def writes_programs(self) -> bool:
        """Whether a planner wrote programs."""
        return "planner" in self.summary["settings"]

    @cached_property
    def asked(self) -> list[Trace]:
        """The questions whose video could be read, over which costs are averaged; without refinements stored
        only for other thresholds."""
        return [without_stored_rounds(trace) for trace in self.traces if is_answerable(trace)]

    @cached_property
    def opened(self) -> list[OpenScore]:
        """The scores of its open questions."""
        return open_scores(self.traces)

    @property
    def preset(self) -> str:
        """Which settings an agent used: "paper" or "equal"; "" for other methods."""
        return str(self.summary["settings"].get("preset", ""))

    @property
    def lacks(self) -> str:
        """Why the run has no accuracy to compare; see `lack_of_model`."""
        return lack_of_model(self.traces)

    @property
    def is_fallback(self) -> bool:
        """Whether it answers like a native fallback: from the backbone's own frames only."""
        settings = self.summary["settings"]
        plain = settings.get("subtitles") == "none" and not settings.get("frames") and not settings.get("fps")
        return self.summary["method"] == "native" and plain


COMMAND = CommandLine(
    "compare",
    CompareConfig,
    ignore=RUN_FIELDS,
    configs="compare",
    options=replace(METHOD_OPTIONS, chosen_by="methods"),
)


def main(argv: Sequence[str] | None = None, *, load: Callable[..., Backbone] = load_backbone) -> int:
    """The command line. Returns the exit status of `videopro.infer`."""
    argv = list(sys.argv[1:] if argv is None else argv)
    with exit_status() as status:
        if argv and not argv[0].startswith("-") and not {"--help", "-h"} & set(argv):
            flags = [word for word in argv if word.startswith("-")]
            if flags:
                raise ConfigError(
                    f"videopro compare: {flags[0]} does not apply to finished runs; leave it out"
                )
            runs = read_comparison_runs(list(map(Path, argv)))
        else:
            config = COMMAND.parse(argv)
            runs = run_methods(config, load=load)
        Console().print(*tables_of(runs))
        for line in failed_questions({run.name: run.traces for run in runs}):
            print(line)
    return status.code


def run_methods(
    config: CompareConfig, *, load: Callable[..., Backbone] = load_backbone
) -> list[ComparisonRun]:
    """Run each method into OUTPUT/METHOD. Raises VideoProError, if possible before the first run starts."""
    each = settings_of_each(config)
    infer.check_all(each.values(), load=load)
    for settings in each.values():
        infer.run(settings, load=load)
    return [replace(read_comparison_run(settings.output), name=name) for name, settings in each.items()]


def settings_of_each(config: CompareConfig) -> dict[str, InferConfig]:
    """The settings of each method's run. Raises ConfigError for invalid settings."""
    if len(config.methods) < 2 or len(set(config.methods)) < len(config.methods):
        raise ConfigError(
            f"methods is {' '.join(config.methods) or 'empty'}; pass at least two different methods"
        )
    if config.benchmark in PRESETS or "," in config.benchmark:
        raise ConfigError(
            f"{config.benchmark!r} is several benchmarks; run `videopro infer` for each method, and pass the "
            "folders to `videopro report`"
        )
    # A method may be named by its file, whose path would make a poor name of a folder.
    folders = {name: METHODS.find(name).name for name in config.methods}
    for key, value in config.options.items():
        if not any(methods.takes(name, key, value) for name in config.methods):
            raise ConfigError(f"none of the methods {', '.join(config.methods)} accepts {key}={value!r}")
    # Without the list of methods: what is recorded of each run is what `videopro infer` would record.
    alone = InferConfig(**shared_settings(config, InferConfig))
    each: dict[str, InferConfig] = {}
    for name in config.methods:
        options = {key: value for key, value in config.options.items() if methods.takes(name, key, value)}
        methods.create(name, options)
        each[name] = replace(alone, method=name, output=config.output / folders[name], options=options)
    return each


def read_comparison_runs(paths: Sequence[Path]) -> list[ComparisonRun]:
    """The runs at `paths`; a folder of several runs adds all of them, direct answers first. Runs with the
    same name get their folders' names. Raises RunError."""
    # A method of somebody's own, which this process does not know, comes last.
    order = {name: position for position, name in enumerate(METHODS)}
    by_folder: dict[Path, ComparisonRun] = {}
    for path in paths:
        runs = [(folder, read_comparison_run(folder)) for folder in find_runs([path])]
        runs.sort(key=lambda item: order.get(item[1].summary["method"], len(order)))
        for folder, run in runs:
            by_folder.setdefault(folder.resolve(), run)
    parts = 1
    # As much of the paths as distinguishes the runs: a/native and b/native.
    while len({_name(folder, parts) for folder in by_folder}) < len(by_folder):
        parts += 1
    return [replace(run, name=_name(folder, parts)) for folder, run in by_folder.items()]


def _name(folder: Path, parts: int) -> str:
    return "/".join(folder.parts[-parts:])


def read_comparison_run(path: Path) -> ComparisonRun:
    """A finished run's numbers, and the scores of its questions. Raises RunError for a folder without one."""
    folder = RunFolder(path)
    with reading_file(f"{folder.summary}:", "pass the folder of a finished run", RunError):
        summary = parse_json(folder.summary.read_text(encoding="utf-8"))
    settings = read_yaml(folder.config) if folder.config.exists() else summary
    # A run that was begun again with other settings has its old summary until it is finished.
    for key in ("run_key", "model"):
        if summary.get(key) != settings.get(key):
            raise RunError(
                f"{folder.summary}: belongs to another run ({key} {summary.get(key)!r}, but this run's is "
                f"{settings.get(key)!r}); re-run the command of the run to rewrite it"
            )
    return ComparisonRun(path.name, summary, folder.read())


def tables_of(runs: Sequence[ComparisonRun]) -> list[TextTable]:
    """Tables with one row per run: accuracy, accuracy under each rule for the final answer (for runs with
    programs), cost, and output. Differences are to the first run, question by question, on the questions of
    both."""
    opened = [run for run in runs if run.opened]
    has_letters = any(run.records for run in runs) or not opened
    letters = [_accuracies(runs), *_by_rules(runs)] if has_letters else []
    return [*letters, *([_open_answers(opened)] if opened else []), _costs(runs), _outputs(runs)]


_INTERVAL = "95 % interval"


def _accuracies(runs: Sequence[ComparisonRun]) -> TextTable:
    # A run that has no accuracy to show has no gap either.
    gaps = [
        paired_difference(run.records, runs[0].records) if index and not run.lacks else None
        for index, run in enumerate(runs)
    ]
    presets = ("settings",) if any(run.preset for run in runs) else ()
    rows = tuple(
        (run.name, *((run.preset or "-",) if presets else ()), *_accuracy(run, gap))
        for run, gap in zip(runs, gaps, strict=True)
    )
    return TextTable(
        _title(runs),
        ("", *presets, "n", "videos", "accuracy %", _INTERVAL, "gap", _INTERVAL),
        rows,
        tuple(_caption(runs, gaps)),
        lefts=frozenset(("settings", _INTERVAL)),
    )


def _accuracy(run: ComparisonRun, gap: Difference | None) -> list[str]:
    result = accuracy(run.records)
    counts = [str(result.n), str(result.clusters)]
    if run.lacks:
        return [*counts, "-", "-", "", ""]
    cells = [*counts, percent(result.accuracy), percent_interval(result.shown_ci95)]
    if gap is None or gap.difference is None:
        return [*cells, "", ""]
    return [*cells, f"{100 * gap.difference:+.1f}", percent_interval(gap.shown_ci95)]


def _title(runs: Sequence[ComparisonRun]) -> str:
    titles = {"{benchmark} {split}, {model}".format(**run.summary) for run in runs}
    return titles.pop() if len(titles) == 1 else "runs on different benchmarks or models"


def _caption(runs: Sequence[ComparisonRun], gaps: Sequence[Difference | None]) -> Iterator[str]:
    yield (
        "n: scored questions. Gap: points above the first row, paired by question, over the questions "
        "of both. Intervals are clustered by video."
    )
    estimates: list[Accuracy | Difference] = [accuracy(run.records) for run in runs if not run.lacks]
    estimates += [gap for gap in gaps if gap is not None]
    if any(estimate.n and estimate.shown_ci95 is None for estimate in estimates):
        yield FEW_VIDEOS_NOTE
    yield from _exclusions(runs)
    for run in runs:
        if run.lacks:
            yield f"{run.name} {run.lacks}"
    if any(run.preset for run in runs):
        yield "settings: paper, as in the agent's paper; equal, as many frames per call as the other methods"
    # Reported, not refused: runs with other limits may be compared, and a gap is paired by question.
    questions = [{record.question_id for record in run.records} for run in runs]
    if any(ids != questions[0] for ids in questions):
        yield "the runs have different questions; each accuracy is over the run's own questions"


def _exclusions(runs: Sequence[ComparisonRun]) -> Iterator[str]:
    """What the accuracy of each run leaves out, by reason."""
    for run in runs:
        if excluded := exclusions(run.traces):
            yield f"{run.name}: left out: {exclusions_text(excluded)}"


def _by_rules(runs: Sequence[ComparisonRun]) -> list[TextTable]:
    """Accuracy under each rule for the final answer, for the runs that wrote programs."""
    planned = [run for run in runs if run.writes_programs]
    if not planned:
        return []
    rows = []
    for run in planned:
        # A fallback is an answer of the same model to the same questions, so only such a run gives it.
        direct = next((other for other in runs if other.is_fallback and _is_comparable(other, run)), None)
        natives = {} if direct is None else {trace.question_id: trace for trace in direct.traces}
        read = [rescore_all(run.traces, reading, natives) for reading in RESCORINGS.values()]
        scores = [None if traces is None else accuracy(records_of(traces)) for traces in read]
        cells = ["-" if score is None else percent(score.accuracy) for score in scores]
        overall = accuracy(run.records)
        rows.append((run.name, str(overall.n), str(overall.clusters), *cells))
    return [
        TextTable(
            "accuracy %, by final-answer rule",
            ("", "n", "videos", *RESCORINGS),
            tuple(rows),
            (RESCORINGS_NOTE, *_exclusions(planned)),
        )
    ]


def _open_answers(runs: Sequence[ComparisonRun]) -> TextTable:
    """Exact match and token F1 of the open questions."""
    rows = []
    for run in runs:
        metrics = open_metrics(run.opened)
        assert metrics is not None
        gap = None if run is runs[0] else open_difference(run.opened, runs[0].opened)
        rows.append(
            (
                run.name,
                str(metrics.n),
                str(metrics.videos),
                percent(metrics.exact_match),
                percent(metrics.f1),
                percent_interval(shown_interval(metrics.f1_ci95, metrics.videos)),
                "" if gap is None else f"{100 * gap.f1:+.1f}",
                "" if gap is None else percent_interval(shown_interval(gap.f1_ci95, gap.videos)),
            )
        )
    few = any(len({score.video for score in run.opened}) < MIN_VIDEOS for run in runs)
    return TextTable(
        "open questions, %",
        ("", "n", "videos", "exact match", "token F1", _INTERVAL, "gap", _INTERVAL),
        tuple(rows),
        (
            "Compared with the reference text, ignoring case, punctuation and English articles. Gap: points "
            "of F1 above the first row, paired by question. Intervals: of F1, clustered by video.",
            *([FEW_VIDEOS_NOTE] if few else []),
        ),
        lefts=frozenset((_INTERVAL,)),
    )


def _is_comparable(run: ComparisonRun, other: ComparisonRun) -> bool:
    return all(run.summary[key] == other.summary[key] for key in ("benchmark", "split", "protocol", "model"))


def _costs(runs: Sequence[ComparisonRun]) -> TextTable:
    """What a question cost: its own cost, and with what was prepared for many questions."""
    costs = [(run, each) for run in runs if (each := mean_costs(run.asked)) is not None]
    has_shared = any(each.raw != each.own for _, each in costs)
    rows: list[tuple[str, ...]] = []
    for run, each in costs:
        counts = _counts(run.asked)
        seen = _number(mean_frames_seen(run.asked), 1)
        kind = ("own",) if has_shared else ()
        rows.append((run.name, *counts, *kind, seen, *_cost_cells(each.own)))
        if each.raw != each.own:
            least = ">" if each.is_at_least else ""
            rows.append(("", "", "", "amortised", "", *_cost_cells(each.amortised, least)))
            rows.append(("", "", "", "raw", "", *_cost_cells(each.raw, least)))
    notes = [
        "n: questions whose video could be read. Seen, decoded: frames. Seen counts the distinct times that "
        "calls and steps used, excluding the frames in the planner's prompt."
    ]
    if has_shared:
        notes.append(
            "own: without the index, database or selection that questions share; amortised: with the "
            "question's share of that cost; raw: with all of it. >: at least."
        )
    return TextTable(
        "cost per question",
        (
            *("", "n", "videos", *(("cost",) if has_shared else ()), "seen", "decoded", "calls"),
            *("tokens in", "tokens out", "s"),
        ),
        tuple(rows),
        (*notes, TOKENS_NOTE),
        lefts=frozenset(("cost",)),
    )


def _counts(traces: Sequence[Trace]) -> tuple[str, str]:
    """The numbers of questions and of videos."""
    return str(len(traces)), str(len({trace.video.key for trace in traces}))


def _cost_cells(cost: Cost, least: str = "") -> list[str]:
    digits = ((cost.frames, 1), (cost.calls, 1), (cost.tokens_in, 0), (cost.tokens_out, 0), (cost.seconds, 2))
    return [f"{least}{_number(value, count)}" for value, count in digits]


def _outputs(runs: Sequence[ComparisonRun]) -> TextTable:
    modes = ("native", "program", "refined", "fallback")
    rows = tuple(
        (
            run.name,
            *_counts([trace for trace in run.traces if trace.error is None and trace.rounds]),
            *(percent(run.summary["modes"][name]) for name in modes),
            _number(run.summary["output"]["characters"], 0),
            _number(planner_tokens_out(run.asked), 0),
        )
        for run in runs
    )
    return TextTable(
        "modes (%) and output per question",
        ("", "n", "videos", *modes, "characters", PLANNER_TOKENS_OUT),
        rows,
        (
            "n: questions that ended without an error. native, program: the planner's first choice; refined: "
            "the program was refined; fallback: answered directly in the end. characters: of all "
            "replies that count.",
            PLANNER_TOKENS_NOTE,
        ),
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
