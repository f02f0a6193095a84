"""CG-Bench's metrics over the runs of several tasks: accuracy on the whole video and on the clue, the
intervals that the model names, and the metrics that combine them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from videopro.benchmarks import share_at_iou, written_iou
from videopro.cli import TextTable, option, setting
from videopro.errors import RunError, writing_file
from videopro.runs.folder import RunFolder
from videopro.runs.judging import recorded_protocol
from videopro.storage import write_atomically
from videopro.traces import Trace
from videopro.traces.scoring import percent, score_trace

NAMES = ("long_acc", "clue_acc", "mIoU", "rec@IoU", "acc@IoU", "CRR")
# The protocols that each task may have.
LONG, CLUE, MIOU = ("long", "long_subtitles", "videopro"), ("clue",), ("miou", "miou_subtitles")
_KINDS = ("duration", "domain", "family")
_Row = dict[str, float | None]


@dataclass(frozen=True)
class CombineConfig:
    """The settings of `videopro benchmarks combine`."""

    long: Path = field(metadata=setting("CG-Bench run with protocol long (or videopro)"))
    clue: Path | None = option(None, "CG-Bench run with protocol clue")
    miou: Path | None = option(None, "CG-Bench run with protocol miou")
    output: Path | None = option(None, "JSON file for the metrics")


def combine(config: CombineConfig) -> TextTable:
    """The table of several runs. Raises RunError for runs with other tasks, models or questions."""
    long = _traces(config.long, "--long", LONG)
    clue = _traces(config.clue, "--clue", CLUE) if config.clue else None
    miou = _traces(config.miou, "--miou", MIOU) if config.miou else None
    for path, traces in ((config.clue, clue), (config.miou, miou)):
        if path is not None and traces is not None:
            _check_same_model(config.long, path)
            _check_same_questions(config.long, long, path, traces)
    numbers = combine_cg_bench(long, clue, miou)
    if config.output is not None:
        with writing_file(config.output):
            write_atomically(config.output, json.dumps(numbers, indent=2) + "\n")
    rows = [
        (label, *("-" if row[name] is None else percent(row[name]) for name in NAMES))
        for label, row in numbers.items()
    ]
    return TextTable("CG-Bench, official scores", ("", *(f"{name} %" for name in NAMES)), tuple(rows), ())


def combine_cg_bench(
    long: Sequence[Trace], clue: Sequence[Trace] | None, miou: Sequence[Trace] | None
) -> dict[str, _Row]:
    """The official numbers, shares in 0..1, of all questions ("all") and of each group ("domain: News"); None
    without a run or without questions.

    A reply that the authors' scorer cannot read leaves the denominators. acc@IoU counts the questions that
    both runs have a result for (run/stat_with_key.py of CG-Bench/CG-Bench). CRR, the clue recovery rate, is
    the smaller of both accuracies over the clue's (vlmeval/dataset/utils/cgbench.py of VLMEvalKit).
    """
    parts: dict[str, Callable[[Trace], bool]] = {"all": lambda trace: True}
    for kind in _KINDS:
        for name in sorted({trace.groups[kind] for trace in long if kind in trace.groups}):
            parts[f"{kind}: {name}"] = lambda trace, kind=kind, name=name: trace.groups.get(kind) == name  # type: ignore[misc]
    return {
        label: _numbers(
            *([trace for trace in run if has(trace)] if run is not None else () for run in (long, clue, miou))
        )
        for label, has in parts.items()
    }


def _numbers(long: Sequence[Trace], clue: Sequence[Trace], miou: Sequence[Trace]) -> _Row:
    right_long, right_clue = _verdicts(long), _verdicts(clue)
    ious = {trace.question_id: iou for trace in miou if (iou := written_iou(trace)) is not None}
    long_acc, clue_acc = _mean(list(right_long.values())), _mean(list(right_clue.values()))
    both = [(ious[key], right) for key, right in right_long.items() if key in ious]
    # Undefined where no clue was understood.
    recovered = min(long_acc, clue_acc) / clue_acc if long_acc is not None and clue_acc else None
    return {
        "long_acc": long_acc,
        "clue_acc": clue_acc,
        "mIoU": _mean(list(ious.values())),
        "rec@IoU": share_at_iou([(iou, True) for iou in ious.values()]),
        "acc@IoU": share_at_iou(both),
        "CRR": recovered,
    }


def _verdicts(traces: Sequence[Trace]) -> dict[str, bool]:
    """Whether each reply is officially right; without those that the scorer cannot read."""
    scores = {trace.question_id: score_trace(trace).official_correct for trace in traces if trace.gold}
    return {key: right for key, right in scores.items() if right is not None}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _check_same_model(path: Path, other: Path) -> None:
    """Raise RunError for runs with different models or splits, whose metrics cannot be combined."""
    ours, theirs = (RunFolder(each).recorded_identity() or {} for each in (path, other))
    for part, name in (("protocol", "split"), ("model", "model"), ("model", "weights"), ("model", "adapter")):
        values = [identity.get(part, {}).get(name) for identity in (ours, theirs)]
        if values[0] != values[1]:
            raise RunError(
                f"{other}: its {name} is {values[1]!r}, but {path} has {values[0]!r}; combine runs with "
                "the same model and split"
            )


def _check_same_questions(
    path: Path, traces: Sequence[Trace], other: Path, other_traces: Sequence[Trace]
) -> None:
    """Raise RunError for runs with different questions: CRR divides one accuracy by the other."""
    differ = {trace.question_id for trace in traces} ^ {trace.question_id for trace in other_traces}
    if differ:
        raise RunError(
            f"{other}: {len(differ)} questions are only in this run or only in {path}, such as "
            f"{min(differ)!r}; answer the same questions in both (--limit, --ids)"
        )


def _traces(path: Path, flag: str, protocols: Sequence[str]) -> list[Trace]:
    folder = RunFolder(path)
    protocol = recorded_protocol(folder)
    recorded: Mapping[str, Any] = (folder.recorded_identity() or {})["protocol"]
    if recorded.get("benchmark") != "cg_bench" or protocol.name not in protocols:
        raise RunError(
            f"{path}: is a run of {recorded.get('benchmark')!r} with protocol {protocol.name!r}; {flag} "
            f"needs a run of 'cg_bench' with protocol {' or '.join(protocols)}"
        )
    return folder.read()
