"""The numbers of runs that differ in the training seed: accuracy under every rule for the final answer,
differences, routing and costs, with two intervals, one over questions and one over seeds.

The interval over questions takes the trained models as fixed and asks how other questions would turn out; the
one over seeds asks how other trainings would turn out, and is wide with three seeds. A claim about a training
method needs the second. Pure functions over traces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from videopro.errors import ConfigError
from videopro.traces.record import Trace
from videopro.traces.scoring import metrics as scoring
from videopro.traces.scoring.intervals import t_interval
from videopro.traces.scoring.metrics import QuestionScore
from videopro.traces.scoring.open_answers import OpenScore, open_difference, open_metrics, open_scores
from videopro.traces.scoring.programs import Mode, planner_tokens_out, planning_metrics, trace_plan_record
from videopro.traces.scoring.verdicts import exclusions, is_answerable, records_of
from videopro.traces.selection import RESCORINGS, NativeTraces, Rescoring, rescore_all
from videopro.traces.steps import Cost

ROUTING = ("well_formed", "executed", "native_share", "mode_accuracy", "mode_balanced_accuracy")


@dataclass(frozen=True)
class SeedRow:
    """A row with the traces of its runs, one tuple per seed."""

    name: str
    runs: tuple[Path, ...]
    seeds: tuple[tuple[Trace, ...], ...]
    """The traces, rescored by the row's own rule."""
    read_as: str = ""
    """A description of these answers; "" for direct ones, which are the same under every rule."""
    recorded: tuple[tuple[Trace, ...], ...] = ()
    """The traces as recorded, for the other rules; empty: no other rule applies."""

    @property
    def planned(self) -> bool:
        """Whether a planner wrote programs."""
        return any(_is_planned(trace) for traces in self.seeds for trace in traces)

    @property
    def has_rules(self) -> bool:
        """Whether its runs can be rescored by other rules than the row's own."""
        return self.planned and bool(self.recorded)


def seed_table(
    rows: Sequence[SeedRow], oracle: Mapping[str, Mode], natives: NativeTraces
) -> list[dict[str, Any]]:
    """The numbers of each row, JSON-able; shares in 0..1, costs per question.

    `accuracy` pools the answers of all seeds. `difference` compares with the first row, question by question
    and seed by seed. Their `..._ci95` are clustered by video, so that a question answered under three seeds
    does not count as three; they take the seeds as fixed. `seeds` and `difference_seeds` are the values of
    each seed, and `..._seeds_ci95` is Student's interval over these, None for a single seed. `rules`: the
    same under each of `videopro.traces.RESCORINGS`, for rows of whole runs with a planner; rules with a
    fallback need direct answers from `natives` or the runs themselves. `left_out`: what the accuracies leave
    out, by reason, over all seeds. Raises ConfigError if the rows'
    numbers of seeds cannot be paired.
    """
    return [_numbers(row, rows[0], oracle, natives) for row in rows]


def _numbers(
    row: SeedRow, reference: SeedRow, oracle: Mapping[str, Mode], natives: NativeTraces
) -> dict[str, Any]:
    baseline = None if row is reference else reference.seeds
    numbers: dict[str, Any] = {
        "name": row.name,
        "answers": row.read_as,
        "runs": [str(run) for run in row.runs],
        "questions": len(row.seeds[0]),
        "videos": len({score.video for traces in row.seeds for score in _scored(traces)}),
        "left_out": exclusions([trace for traces in row.seeds for trace in traces]),
        **_right(row.name, row.seeds, baseline),
        "families": {
            name: part.accuracy
            for name, part in scoring.group_accuracy(_pooled(_records(row.seeds))).get("family", {}).items()
        },
        **_costs(row.seeds),
        **_open(row.seeds, baseline),
    }
    if row.has_rules:
        numbers["rules"] = _by_rules(row, None if row is reference else reference, natives)
    if row.planned:
        of_seeds = [
            planning_metrics([trace_plan_record(trace, oracle) for trace in traces]) for traces in row.seeds
        ]
        for name in ROUTING:
            if all(name in metrics for metrics in of_seeds):
                numbers[name] = sum(metrics[name] for metrics in of_seeds) / len(of_seeds)
    return numbers


def _by_rules(row: SeedRow, reference: SeedRow | None, natives: NativeTraces) -> dict[str, Any]:
    by_rule = {}
    for name, reading in RESCORINGS.items():
        seeds = _read(row, reading, natives)
        baseline = None if reference is None else _read(reference, reading, natives)
        if seeds is not None and (reference is None or baseline is not None):
            by_rule[name] = _right(row.name, seeds, baseline)
    return by_rule


def _read(row: SeedRow, reading: Rescoring, natives: NativeTraces) -> Sequence[Sequence[Trace]] | None:
    """The traces of each seed rescored by a rule; None if a fallback's direct answer is missing."""
    if not row.has_rules:
        return row.seeds
    seeds = []
    for traces in row.recorded:
        read = rescore_all(traces, reading, natives)
        if read is None:
            return None
        seeds.append(read)
    return seeds


def _right(
    name: str, seeds: Sequence[Sequence[Trace]], baseline: Sequence[Sequence[Trace]] | None
) -> dict[str, Any]:
    """The accuracy of these seeds, and its difference to the `baseline`'s."""
    each = _records(seeds)
    pooled = scoring.accuracy(_pooled(each), distinct=len(each[0]))
    alone = [scoring.accuracy(records).accuracy for records in each]
    numbers: dict[str, Any] = {
        "accuracy": pooled.accuracy,
        "accuracy_ci95": pooled.ci95,
        "seeds": alone,
        "accuracy_seeds_ci95": _over_seeds(alone),
    }
    if baseline is None:
        return numbers
    pairs = _paired(name, each, _records(baseline))
    gap = scoring.paired_difference(
        _pooled([first for first, _ in pairs]), _pooled([other for _, other in pairs])
    )
    gaps = [scoring.paired_difference(*pair).difference for pair in pairs]
    return numbers | {
        "difference": gap.difference,
        "difference_ci95": gap.ci95,
        "difference_videos": gap.clusters,
        "difference_seeds": gaps,
        "difference_seeds_ci95": _over_seeds(gaps),
    }


def _open(seeds: Sequence[Sequence[Trace]], baseline: Sequence[Sequence[Trace]] | None) -> dict[str, Any]:
    """Exact match and token F1 over the open questions, and their differences; empty without any."""
    each = [open_scores(traces) for traces in seeds]
    pooled = open_metrics(_pooled(each), distinct=len(each[0]))
    alone = [open_metrics(scores) for scores in each]
    if pooled is None or any(metrics is None for metrics in alone):
        return {}
    f1 = [metrics.f1 for metrics in alone if metrics is not None]
    numbers: dict[str, Any] = {
        **asdict(pooled),
        "n": len(each[0]),
        "f1_seeds": f1,
        "f1_seeds_ci95": t_interval(f1),
    }
    if baseline is not None:
        theirs = [open_scores(traces) for traces in baseline]
        # A single run, such as one of direct answers, is compared with every seed.
        theirs = theirs * len(each) if len(theirs) == 1 else theirs
        ours = each * len(theirs) if len(each) == 1 else each
        gap = open_difference(_pooled(ours), _pooled(theirs))
        if gap is not None:
            numbers["difference"] = asdict(gap)
    return {"open": numbers}


def _over_seeds(values: Sequence[float | None]) -> tuple[float, float] | None:
    measured = [value for value in values if value is not None]
    # An interval over some of the seeds would look like one over all.
    return t_interval(measured) if len(measured) == len(values) else None


def _scored(traces: Sequence[Trace]) -> list[QuestionScore | OpenScore]:
    return [*records_of(traces), *open_scores(traces)]


def _records(seeds: Sequence[Sequence[Trace]]) -> list[list[QuestionScore]]:
    return [records_of(traces) for traces in seeds]


ScoreT = TypeVar("ScoreT", QuestionScore, OpenScore)


def _pooled(each: Sequence[Sequence[ScoreT]]) -> list[ScoreT]:
    """The scores of several seeds as one list: each question keeps its video and gets an id per seed."""
    return [
        replace(record, question_id=f"{seed}/{record.question_id}")
        for seed, records in enumerate(each)
        for record in records
    ]


def _paired(
    name: str, ours: list[list[QuestionScore]], theirs: list[list[QuestionScore]]
) -> list[tuple[list[QuestionScore], list[QuestionScore]]]:
    if len(theirs) == 1:
        theirs = theirs * len(ours)
    elif len(ours) == 1:
        ours = ours * len(theirs)
    if len(ours) != len(theirs):
        raise ConfigError(
            f"row {name!r} has {len(ours)} seeds, but the first row {len(theirs)}; use equal numbers, or one"
        )
    return list(zip(ours, theirs, strict=True))


def _costs(seeds: Sequence[Sequence[Trace]]) -> dict[str, float | None]:
    """Means over the questions whose video could be read, as everywhere."""
    traces = [trace for of_seed in seeds for trace in of_seed if is_answerable(trace)]
    cost = sum((trace.cost for trace in traces), Cost())
    costs: dict[str, float | None] = {
        name: getattr(cost, name) / len(traces) if traces else None
        for name in ("seconds", "calls", "frames", "tokens_in", "tokens_out")
    }
    return costs | {"planner_tokens_out": planner_tokens_out(traces)}


def _is_planned(trace: Trace) -> bool:
    return bool(trace.rounds) and trace.rounds[0].prompt_kind != "native"
