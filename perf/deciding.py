"""How well a confidence fits that was carried through a program (`videopro.methods.program.deciding`): by the
product of the deciding calls' confidences, and by the least of them.

    python -m perf.deciding [--split val] [--limit N] [--output perf/deciding.json]

Runs the programs of `pocket-teacher:logic`, without faults, on pocket's questions, and counts those whose
letter came straight from no call: accuracy, mean confidence, expected calibration error (ten bins) and AUROC
by each rule, with and without calls that decided only together, and by what decided. The rows are kept; the
same command asks only the questions that the file does not have, up to --limit.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perf import ROOT
from perf.command import run_command
from perf.recording import write_record
from videopro import benchmarks
from videopro.backbones import load_backbone
from videopro.backbones.wrappers import Meter, MeteredBackbone, ThreadMeter, share_backbone
from videopro.benchmarks import Item
from videopro.cli import CommandLine, setting
from videopro.executor import DEFAULT_LIMITS, parse_program
from videopro.methods.planners.pocket_teacher.logic import logic_variant
from videopro.methods.planners.pocket_teacher.reading import parse_question
from videopro.methods.program import confidence_of, execute
from videopro.modules import ModuleModels, ModuleSettings, VideoContext
from videopro.question import right_letters
from videopro.traces import CombiningRule, DecidingCalls, Execution, ReasonedRule
from videopro.traces.scoring import QuestionScore, accuracy, auroc, expected_calibration_error
from videopro.video import Video, load_subtitles

RULES: tuple[CombiningRule, ...] = ("product", "least")


@dataclass(frozen=True)
class DecidingSettings:
    """Which questions are asked, and where the results go."""

    split: str = field(default="val", metadata=setting("pocket's split"))
    limit: int = field(default=220, metadata=setting("questions, of whole videos in a drawn order"))
    output: Path = field(
        default=ROOT / "perf" / "deciding.json", metadata=setting("file for the rows and the tables")
    )


COMMAND = CommandLine(
    "perf.deciding",
    DecidingSettings,
    summary="Measure the calibration of confidences that were carried through programs.",
)


def measure(settings: DecidingSettings) -> None:
    """Ask the questions that the file does not have, and write tables of all."""
    rows: dict[str, Any] = {}
    if settings.output.exists():
        recorded = json.loads(settings.output.read_text(encoding="utf-8"))
        rows = recorded["questions"] if recorded["split"] == settings.split else {}
    benchmark = benchmarks.load("pocket", split=settings.split)
    items = benchmark.select(limit=settings.limit)
    for row in _asked([item for item in items if item.id not in rows], benchmark):
        rows[row.pop("id")] = row
        if len(rows) % 11 == 0:
            _write(settings, rows)
    _write(settings, rows)
    print(json.dumps(tables(rows), indent=1))


def _write(settings: DecidingSettings, rows: Mapping[str, Any]) -> None:
    write_record(
        settings.output,
        {"split": settings.split, "tables": tables(rows), "questions": dict(sorted(rows.items()))},
    )


def _asked(items: Sequence[Item], benchmark: Any) -> Iterator[dict[str, Any]]:
    if not items:
        return
    if benchmark.fetch is not None:
        benchmark.fetch(items)
    backbone = load_backbone("pocket")
    meter = ThreadMeter()
    models = ModuleModels(ModuleSettings(), pocket=True)
    contexts: dict[Path, VideoContext] = {}
    for item in items:
        context = contexts.get(item.video)
        if context is None:
            video = Video.open(item.video)
            subtitles = load_subtitles(item.subtitles, duration=video.duration) if item.subtitles else None
            metered = MeteredBackbone(share_backbone(backbone, adapter=False), meter)
            with meter.into(Meter()):
                contexts = {item.video: models.context(video, metered, subtitles)}
            context = contexts[item.video]
        yield _row(item, context, meter)
    backbone.close()


def _row(item: Item, context: VideoContext, meter: ThreadMeter) -> dict[str, Any]:
    reading = parse_question(item.question.text)
    row: dict[str, Any] = {
        "id": item.id,
        "video": str(item.video.name),
        "kind": reading.kind,
        "how": "no program",
    }
    variant = logic_variant(reading)
    if variant is None:
        return row
    program = parse_program(variant.reply)

    def run(rule: ReasonedRule) -> Execution:
        return execute(
            program, item.question, context, limits=DEFAULT_LIMITS, thread_meter=meter, reasoned=rule
        )[0]

    execution = run("product")
    runs: dict[CombiningRule, Execution] = dict.fromkeys(RULES, execution)
    if execution.reasoned is not None and any(len(calls.calls) > 1 for calls in execution.reasoned.deciding):
        # By the other rule calls that decided together have another confidence. Its calls are all kept.
        runs["least"] = run("least")
    right = right_letters(item.answer, item.question.choices)
    row |= {
        "how": execution.status if execution.reasoned is None else "reasoned",
        "right": execution.answer.letter in right,
        "confidence": round(execution.answer.confidence, 6),
    }
    if execution.status == "ok" and execution.reasoned is None:
        row["how"] = "straight"
    if execution.reasoned is not None:
        row |= {
            "replays": execution.reasoned.replays,
            "why_guess": execution.reasoned.why_guess,
            "options": len(item.question.choices),
            "deciding": [
                {
                    "calls": [execution.calls[call].fn for call in calls.calls],
                    **{
                        rule: None
                        if (sure := _sets(runs[rule])[number].confidence) is None
                        else round(sure, 6)
                        for rule in RULES
                    },
                }
                for number, calls in enumerate(_sets(execution))
            ],
        }
    return row


def _sets(execution: Execution) -> tuple[DecidingCalls, ...]:
    assert execution.reasoned is not None
    return execution.reasoned.deciding


# ---- tables ----------------------------------------------------------------------------------------------


def tables(rows: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of all rows."""
    reasoned = {name: row for name, row in rows.items() if row["how"] == "reasoned"}
    by_source: dict[str, dict[str, Any]] = defaultdict(dict)
    by_kind: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, row in reasoned.items():
        calls = {fn for calls in row["deciding"] for fn in calls["calls"]}
        by_source[" + ".join(sorted(calls)) or "nothing"][name] = row
        by_kind[row["kind"]][name] = row
    return {
        "programs": dict(Counter(row["how"] for row in rows.values()).most_common()),
        "straight": _numbers(
            {name: row for name, row in rows.items() if row["how"] == "straight"},
            lambda row: row["confidence"],
        ),
        "rules": {
            f"{rule}{'' if together else ', each call by itself'}": _numbers(
                reasoned, lambda row, rule=rule, together=together: _sure(row, rule, together)
            )
            for rule in RULES
            for together in (True, False)
        },
        "earlier rule (0)": _numbers(reasoned, lambda row: 0.0),
        "by what decided": {
            source: {rule: _numbers(part, lambda row, rule=rule: _sure(row, rule, True)) for rule in RULES}
            for source, part in sorted(by_source.items())
        },
        "by kind": {
            kind: {rule: _numbers(part, lambda row, rule=rule: _sure(row, rule, True)) for rule in RULES}
            for kind, part in sorted(by_kind.items())
        },
        "replays of a program": {
            "mean": round(sum(row["replays"] for row in reasoned.values()) / max(1, len(reasoned)), 1),
            "most": max((row["replays"] for row in reasoned.values()), default=0),
        },
    }


def _sure(row: Mapping[str, Any], rule: CombiningRule, together: bool) -> float:
    sets = [
        DecidingCalls(tuple(range(len(calls["calls"]))), calls[rule])
        for calls in row["deciding"]
        if together or len(calls["calls"]) == 1
    ]
    return confidence_of(sets, rule, row["options"])


def _numbers(rows: Mapping[str, Any], sure: Any) -> dict[str, Any]:
    scores = [
        QuestionScore(name, row["video"], row["right"], None, False, sure(row)) for name, row in rows.items()
    ]
    share = accuracy(scores)
    mean = sum(score.confidence for score in scores) / len(scores) if scores else None
    return {
        "n": share.n,
        "accuracy": _short(share.accuracy),
        "mean confidence": _short(mean),
        "ece": _short(expected_calibration_error(scores)),
        "auroc": _short(auroc(scores)),
    }


def _short(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


if __name__ == "__main__":
    run_command(COMMAND, measure)
