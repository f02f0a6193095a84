"""Prompts for GRPO from what a model and a planner answered, without a teacher: a pure step over traces.

A question's native answer and the planner's first program make one record, of which rows are made by the
rules of a synthesis: a plan with the oracle mode, and the refinements that the executions call for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from videopro.data_synthesis.card import (
    inline_counts,
    listed_counts,
    made_with,
    native_counts,
    program_counts,
    prompt_parts,
    public,
    row_counts,
    tally,
)
from videopro.data_synthesis.datasets import GRPO, Datasets, letters_of
from videopro.data_synthesis.questions import MODULES, VideoSplit
from videopro.traces import Trace

ALL_FOR_GRPO = VideoSplit(0.0, 0)
"""No video gives rows for SFT: the planner was fine-tuned already."""


def joined(
    native: Sequence[Trace], planned: Sequence[Trace], modules: Mapping[str, Sequence[str]] | None = None
) -> tuple[list[Trace], Counter[str]]:
    """A record of each question that has a native answer: that answer, then the planner's program. And what
    is missing, by reason: a question without a native answer has no oracle mode, and gives no row.

    `modules`: those that the planner was shown, by the question's id; None: it is shown none. A question
    whose planner never wrote does not tell which modules a prompt about it would show, and gives no row."""
    programs = {trace.question_id: trace for trace in planned}
    missing: Counter[str] = Counter()
    records = []
    for trace in native:
        if trace.error is not None:
            missing[f"question: {trace.error.type}"] += 1
            continue
        plan = programs.get(trace.question_id)
        if modules is not None:
            if trace.question_id not in modules:
                missing["question: its modules are not known, because the planner was not asked"] += 1
                continue
            notes = {MODULES: " ".join(modules[trace.question_id])}
            trace = replace(trace, rounds=(replace(trace.rounds[0], notes=notes), *trace.rounds[1:]))
        if plan is None:
            records.append(trace)
            continue
        rounds = trace.rounds
        if plan.error is None:
            rounds += plan.rounds
        else:
            missing[f"planner's program: {plan.error.type}"] += 1
        # The planner's record says which subtitles its program could search.
        records.append(replace(trace, rounds=rounds, video=plan.video))
    return records, missing


def prompts_card(
    records: Sequence[Trace],
    datasets: Datasets,
    *,
    tau: float,
    about: Mapping[str, Any],
    left_out: Mapping[str, int],
) -> dict[str, Any]:
    """The card's numbers. `about`: source, planner, settings; `left_out`: questions that were never asked, by
    reason."""
    return {
        "about": public(about),
        "questions": {
            "answered": len(records),
            "videos": len({trace.video.key for trace in records}),
            "not asked": dict(sorted(left_out.items())),
        },
        "native": native_counts(records, tau),
        "planner": {
            "chose": tally(round.mode or "unread" for trace in records for round in trace.rounds[1:]),
            **program_counts(records, tau, lambda round: round.prompt_kind == "plan"),
        },
        "grpo": {
            **row_counts(datasets.grpo),
            "oracle mode of plans": tally(
                row["oracle_mode"] for row in datasets.grpo if row["kind"] == "plan"
            ),
            "right letters": letters_of(datasets.grpo),
        },
        "left out": dict(sorted(datasets.rejected.items())),
        "sha256": {GRPO: datasets.digests()[GRPO]},
    }


def prompts_card_text(card: Mapping[str, Any]) -> str:
    """The card in Markdown."""
    questions, grpo = card["questions"], card["grpo"]
    planner = {
        name: inline_counts(count) if isinstance(count, Mapping) else count
        for name, count in card["planner"].items()
    }
    parts = [
        f"# Data card: {card['about']['source']}",
        f"{grpo['rows']} prompts for GRPO (`grpo.jsonl`), from {questions['answered']} questions about "
        f"{questions['videos']} videos: the questions, and what a planner's first program got wrong or was "
        "unsure of. No teacher wrote anything. Made by `videopro prompts`.",
        *prompt_parts(card),
        "The planner:",
        listed_counts(planner),
        "## Left out",
        listed_counts(card["left out"]),
        f"Not asked: {inline_counts(questions['not asked'])}.",
        *made_with(card),
    ]
    return "\n\n".join(parts) + "\n"
