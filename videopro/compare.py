"""python -m videopro.compare: compare runs: accuracy, cost, output and modes (Tables 2, 5; VCA's Fig. 1).

    python -m videopro.compare runs/native runs/program runs/videopro
    python -m videopro.compare --methods native program videopro --planner pocket-teacher \\
        --benchmark pocket --split test --model pocket --output runs/table
    python -m videopro.compare --methods native vca --preset equal --benchmark pocket ... --output runs/agents

The second form first runs each method into OUTPUT/METHOD, or resumes it; a setting that only some of the
methods have applies to those.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.markup import escape
from rich.table import Table

from videopro import infer, methods
from videopro.backbones import Backbone, load_backbone
from videopro.benchmarks import PRESETS
from videopro.cli import exit_status
from videopro.command_line import CommandLine
from videopro.errors import ConfigError, RunError
from videopro.infer_settings import InferConfig
from videopro.methods import METHODS, MethodFlags
from videopro.runs import RUN_FIELDS, RunFolder
from videopro.scoring import (
    Difference,
    QuestionScore,
    accuracy,
    is_answerable,
    lack_of_model,
    mean_costs,
    mean_frames_seen,
    paired_difference,
    percent,
    records_of,
)
from videopro.settings import did_you_mean, read_yaml, setting
from videopro.storage import parse_json
from videopro.traces import RESCORINGS, RESCORINGS_NOTE, Cost, Trace, rescore_all, without_stored_rounds


@dataclass(frozen=True)
class CompareConfig(InferConfig):
    """The settings of `videopro.infer`, for several methods."""

    methods: tuple[str, ...] = field(
        default=(), metadata=setting("methods to run; the others are compared with the first")
    )


@dataclass(frozen=True)
class ComparisonRun:
    """One run of a comparison."""

    name: str
    summary: Mapping[str, Any]
    records: Sequence[QuestionScore]
    traces: Sequence[Trace]

    @property
    def writes_programs(self) -> bool:
        """Whether a planner wrote programs."""
        return "planner" in self.summary["settings"]

    @property
    def preset(self) -> str:
        """Whose settings an agent used: "paper" or "equal"; "" for other methods."""
        return str(self.summary["settings"].get("preset", ""))

    @property
    def lacks(self) -> str:
        """Why it has no accuracy to compare; see `lack_of_model`."""
        return lack_of_model(self.traces)

    @property
    def is_fallback(self) -> bool:
        """Whether it answers as a native fallback does: from the backbone's own frames only."""
        settings = self.summary["settings"]
        plain = settings.get("subtitles") == "none" and not settings.get("frames") and not settings.get("fps")
        return self.summary["method"] == "native" and plain


COMMAND = CommandLine("compare", CompareConfig, ignore=RUN_FIELDS, configs="compare")


def main(argv: Sequence[str] | None = None, *, load: Callable[..., Backbone] = load_backbone) -> int:
    """The command line. Returns the exit status of `videopro.infer`."""
    argv = list(sys.argv[1:] if argv is None else argv)
    with exit_status() as status:
        if argv and not argv[0].startswith("-"):
            runs = [read_comparison_run(Path(folder)) for folder in argv]
        else:
            config = COMMAND.parse(argv)
            runs = run_methods(config, load=load)
        Console().print(comparison(runs))
    return status.code


def run_methods(
    config: CompareConfig, *, load: Callable[..., Backbone] = load_backbone
) -> list[ComparisonRun]:
    """Run each method into OUTPUT/METHOD. Raises VideoProError, if possible before the first run starts."""
    each = settings_of_each(config)
    for settings in each.values():
        infer.check(settings, load=load)
    for settings in each.values():
        infer.run(settings, load=load)
    return [replace(read_comparison_run(settings.output), name=name) for name, settings in each.items()]


def settings_of_each(config: CompareConfig) -> dict[str, InferConfig]:
    """The settings of each method's run. Raises ConfigError for invalid settings."""
    if len(config.methods) < 2 or len(set(config.methods)) < len(config.methods):
        raise ConfigError(
            f"methods is {' '.join(config.methods) or 'empty'}; give two or more different ones"
        )
    if config.benchmark in PRESETS:
        raise ConfigError(
            f"{config.benchmark!r} is several benchmarks; run videopro.infer for each method, and pass the "
            "folders to videopro.report"
        )
    unknown = [name for name in config.methods if name not in METHODS]
    if unknown:
        raise ConfigError(f"unknown method {unknown[0]!r}; {did_you_mean(unknown[0], list(METHODS))}")
    settings = {name: {option.name for option in fields(METHODS[name].Settings)} for name in config.methods}
    for key in {**config.options, **config.given_flags()}:
        if not any(key in known for known in settings.values()):
            raise ConfigError(f"none of the methods {', '.join(config.methods)} has a setting {key!r}")
    alone: dict[str, Any] = {option.name: getattr(config, option.name) for option in fields(InferConfig)}
    flags = {option.name for option in fields(MethodFlags)}
    each: dict[str, InferConfig] = {}
    for name, known in settings.items():
        own: dict[str, Any] = {
            key: None if key in flags and key not in known else value for key, value in alone.items()
        }
        own |= {"method": name, "output": config.output / name}
        own["options"] = {key: value for key, value in config.options.items() if key in known}
        each[name] = InferConfig(**own)
    for name, run in each.items():
        methods.create(name, run.options_with_flags(name, run.options))
    return each


def read_comparison_run(path: Path) -> ComparisonRun:
    """A finished run's numbers, and the scores of its questions. Raises RunError for a folder without one."""
    folder = RunFolder(path)
    try:
        summary = parse_json(folder.summary.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(
            f"{folder.summary}: cannot be read ({error}); give the folder of a finished run"
        ) from error
    known = summary if isinstance(summary, dict) else {}
    lacking = [key for key in ("modes", "output", "method", "settings") if key not in known]
    if lacking:
        raise RunError(
            f"{folder.summary}: has no {lacking[0]!r}, as an older version wrote it; re-run the run's own "
            "command to rewrite it"
        )
    settings = read_yaml(folder.config) if folder.config.exists() else summary
    for key in ("run_key", "model"):
        if summary.get(key) != settings.get(key):
            raise RunError(
                f"{folder.summary}: belongs to another run ({key} {summary.get(key)!r}, but this run's is "
                f"{settings.get(key)!r}); re-run the run's own command to rewrite it"
            )
    traces = folder.read()
    return ComparisonRun(path.name, summary, records_of(traces), traces)


def comparison(runs: Sequence[ComparisonRun]) -> Group:
    """Tables with one row per run: accuracy, accuracy under each rule for the final answer (for runs with
    programs), cost and output. Differences are to the first run, question by question, on the questions of
    both."""
    right = Table(title=escape(_title(runs)), caption="\n".join(_caption(runs)), caption_justify="left")
    presets = ("settings",) if any(run.preset for run in runs) else ()
    for name in ("", *presets, "n", "videos", "accuracy %", "95 % interval", "difference", "95 % interval"):
        right.add_column(name, justify="left" if name in ("", "settings", "95 % interval") else "right")
    took = Table(title="output and seconds per question; modes in %")
    for name in ("", "chars", "tokens", "s", "native", "program", "refined", "fallback"):
        took.add_column(name, justify="right" if name else "left")
    for place, run in enumerate(runs):
        gap = paired_difference(run.records, runs[0].records) if place and not run.lacks else None
        own = (run.preset or "-",) if presets else ()
        right.add_row(escape(run.name), *own, *_accuracy(run, gap))
        took.add_row(escape(run.name), *_output(run.summary))
    return Group(right, *_by_rules(runs), _costs(runs), took)


def _costs(runs: Sequence[ComparisonRun]) -> Table:
    """What a question cost: its own cost, and with what was prepared for many questions."""
    table = Table(
        title="cost per question",
        caption="own: without what many questions share (index, database, selection); amortised: with its\n"
        "share of that; raw: with all of that. Seen: different moments that calls and steps looked at; a\n"
        "planner's own look at the whole video is not among them. >: at least",
        caption_justify="left",
    )
    for name in ("", "cost", "frames seen", "decoded", "calls", "tokens in", "tokens out", "s"):
        table.add_column(name, justify="left" if name in ("", "cost") else "right")
    for run in runs:
        # Refinements that were only stored for other thresholds are not counted.
        asked = [without_stored_rounds(trace) for trace in run.traces if is_answerable(trace)]
        found = mean_costs(asked)
        if found is None:
            continue
        seen = _number(mean_frames_seen(asked), 1)
        table.add_row(escape(run.name), "own", seen, *_cost_cells(found.own))
        if found.raw != found.own:
            least = ">" if found.is_at_least else ""
            table.add_row("", "amortised", "", *_cost_cells(found.amortised, least))
            table.add_row("", "raw", "", *_cost_cells(found.raw, least))
    return table


def _cost_cells(cost: Cost, least: str = "") -> list[str]:
    digits = ((cost.frames, 1), (cost.calls, 1), (cost.tokens_in, 0), (cost.tokens_out, 0), (cost.seconds, 2))
    return [f"{least}{_number(value, count)}" for value, count in digits]


def _by_rules(runs: Sequence[ComparisonRun]) -> list[Table]:
    """Accuracy under each rule for the final answer, for the runs that wrote programs."""
    planned = [run for run in runs if run.writes_programs]
    if not planned:
        return []
    table = Table(
        title="right %, by each rule of the final answer", caption=RESCORINGS_NOTE, caption_justify="left"
    )
    table.add_column("")
    for name in RESCORINGS:
        table.add_column(name, justify="right")
    for run in planned:
        direct = next((other for other in runs if other.is_fallback and _is_comparable(other, run)), None)
        natives = {} if direct is None else {trace.question_id: trace for trace in direct.traces}
        read = [rescore_all(run.traces, reading, natives) for reading in RESCORINGS.values()]
        cells = ["-" if own is None else percent(accuracy(records_of(own)).accuracy) for own in read]
        table.add_row(escape(run.name), *cells)
    return [table]


def _is_comparable(run: ComparisonRun, other: ComparisonRun) -> bool:
    return all(run.summary[key] == other.summary[key] for key in ("benchmark", "split", "protocol", "model"))


def _accuracy(run: ComparisonRun, gap: Difference | None) -> list[str]:
    summary = run.summary
    counts = [str(summary["n"]), str(summary["videos"])]
    if run.lacks:
        return [*counts, "-", run.lacks, "", ""]
    cells = [*counts, percent(summary["accuracy"]), _between(summary["accuracy_ci95"])]
    if gap is None or gap.difference is None:
        return [*cells, "", ""]
    return [*cells, f"{100 * gap.difference:+.1f}", _between(gap.ci95)]


def _output(summary: Mapping[str, Any]) -> list[str]:
    output, modes = summary["output"], summary["modes"]
    return [
        _number(output["characters"], 0),
        _number(output["tokens"], 0),
        _number(summary["seconds_per_question"], 2),
        *(percent(modes[name]) for name in ("native", "program", "refined", "fallback")),
    ]


def _between(interval: Sequence[float] | None) -> str:
    return f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f}" if interval else "-"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _title(runs: Sequence[ComparisonRun]) -> str:
    titles = {"{benchmark} {split}, {model}".format(**run.summary) for run in runs}
    return titles.pop() if len(titles) == 1 else "runs on different benchmarks or models"


def _caption(runs: Sequence[ComparisonRun]) -> list[str]:
    lines = ["differences to the first row, paired by question; intervals clustered by video"]
    if any(run.preset for run in runs):
        lines.append("settings: paper, the agent's own paper's; equal, as many frames a call as the others")
    asked = [{record.question_id for record in run.records} for run in runs]
    if any(own != asked[0] for own in asked):
        lines.append("the runs do not have the same questions: accuracies are over each run's own")
    return lines


if __name__ == "__main__":
    sys.exit(main())
