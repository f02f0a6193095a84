"""The data card: what the datasets contain, what was left out and why, what they cost, how they were made.

`card.json` for programs, `CARD.md` for people, from the same numbers. It contains no paths of this machine,
no keys and no times, so that it can be published.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path, PurePath
from typing import Any

from videopro.data_synthesis.datasets import Datasets, letters_of, rule_of
from videopro.data_synthesis.plan import FILTER_HEADS, filter_rows
from videopro.data_synthesis.rules import NATIVE, PLAN, REFUSED, SAME_AS, refinement_needed
from videopro.data_synthesis.teacher import Prices, TeacherUsage
from videopro.storage import write_file
from videopro.traces import CUT_OFF, Round, Trace, is_confident

CARD_JSON, CARD_MD = "card.json", "CARD.md"


def make_card(
    traces: Sequence[Trace],
    datasets: Datasets,
    *,
    tau: float,
    about: Mapping[str, Any],
    left_out: Mapping[str, int],
    spent: TeacherUsage,
    prices: Prices | None,
    filters: Sequence[Mapping[str, Any]] = (),
    plan: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The card's numbers, JSON-able. `about`: source, settings, fingerprints; `left_out`: questions that were
    never asked, by reason; `spent`: requests to the teacher, including those of unfinished questions;
    `filters`: what each left of the source; `plan`: the one that was made before."""
    labelled = [trace for trace in traces if trace.error is None and trace.gold is not None]
    return {
        "about": public(about),
        "questions": {
            "recorded": len(traces),
            "videos": len({trace.video.key for trace in traces}),
            "without a result": tally(trace.error.type for trace in traces if trace.error is not None),
            "not asked": dict(sorted(left_out.items())),
            "right letters": tally(trace.gold or "" for trace in labelled),
        },
        "native": native_counts(labelled, tau),
        "programs": {
            "first": program_counts(labelled, tau, lambda round: round.prompt_kind == PLAN),
            "refinements": {
                kind: program_counts(labelled, tau, lambda round, kind=kind: round.prompt_kind == kind)  # type: ignore[misc]
                for kind in ("bug_fix", "native_refinement", "program_refinement")
            },
        },
        "teacher": {
            **asdict(spent),
            "cost": round(prices.of(spent.tokens_in, spent.tokens_out), 4) if prices is not None else None,
            "prices per million tokens": asdict(prices) if prices is not None else None,
        },
        "sft": {**row_counts(datasets.sft), "by rule": tally(rule_of(row) for row in datasets.sft)},
        "grpo": {
            **row_counts(datasets.grpo),
            "oracle mode of plans": tally(
                row["oracle_mode"] for row in datasets.grpo if row["kind"] == "plan"
            ),
            "right letters": letters_of(datasets.grpo),
        },
        "rejected": dict(sorted(datasets.rejected.items())),
        "filters": list(filters),
        "plan": None if plan is None else dict(plan),
        "sha256": datasets.digests(),
    }


def native_counts(labelled: Sequence[Trace], tau: float) -> dict[str, int]:
    """The native answers: right or wrong, and confident or not."""
    counts: Counter[str] = Counter()
    for trace in labelled:
        execution = trace.rounds[NATIVE].execution
        if execution is None:
            continue
        if execution.answer.letter is None:
            counts["no letter"] += 1
            continue
        answer = "right" if execution.answer.letter in trace.right else "wrong"
        counts[f"{answer} and {'confident' if is_confident(execution, tau) else 'unsure'}"] += 1
    kinds = ("right and confident", "right and unsure", "wrong and confident", "wrong and unsure")
    return {name: counts[name] for name in (*kinds, "no letter")}


def program_counts(
    labelled: Sequence[Trace], tau: float, is_counted: Callable[[Round], bool]
) -> dict[str, Any]:
    """The outcomes of the replies of one kind."""
    rounds = [(round, trace.right) for trace in labelled for round in trace.rounds if is_counted(round)]
    executions = [
        (round.execution, right)
        for round, right in rounds
        if round.execution is not None and round.program is not None
    ]
    answered = [(execution, right) for execution, right in executions if execution.status == "ok"]
    return {
        "replies": len(rounds),
        "no text": sum(REFUSED in round.notes for round, _ in rounds),
        "no program": sum(round.program is None and REFUSED not in round.notes for round, _ in rounds),
        "cut off": sum(CUT_OFF in round.notes for round, _ in rounds),
        "not well-formed": sum(bool(round.faults) for round, _ in rounds),
        "malformed how": tally(fault for round, _ in rounds for fault in round.faults),
        "repeated": sum(SAME_AS in round.notes for round, _ in rounds),
        "ran": sum(execution.status != "failed" for execution, _ in executions),
        "failed": sum(execution.status == "failed" for execution, _ in executions),
        "failure classes": tally(
            execution.error.type
            for execution, _ in executions
            if execution.status == "failed" and execution.error is not None
        ),
        "gave no answer": sum(execution.status == "empty" for execution, _ in executions),
        "right": sum(execution.answer.letter in right for execution, right in answered),
        "right and confident": sum(
            execution.answer.letter in right and is_confident(execution, tau) for execution, right in answered
        ),
        "asked to be refined": sum(
            refinement_needed(round, right, tau) is not None for round, right in rounds
        ),
        # Faults that a teacher injected on purpose.
        "teacher's faults": tally(round.notes["fault"] for round, _ in rounds if "fault" in round.notes),
    }


def row_counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The rows of a dataset by kind, mode, length and family."""
    # Rows to fine-tune on have the mode of their reply, prompts for GRPO the one that is rewarded.
    mode = "mode" if rows and "mode" in rows[0] else "oracle_mode"
    families = sorted({row["family"] or "-" for row in rows})
    return {
        "rows": len(rows),
        "questions": len({row["question_id"] for row in rows}),
        "by kind": tally(row["kind"] for row in rows),
        "by mode": tally(row[mode] for row in rows),
        "by length": tally(row["length"] or "-" for row in rows),
        "by family and kind": {
            family: tally(row["kind"] for row in rows if (row["family"] or "-") == family)
            for family in families
        },
    }


def tally(values: Iterable[str]) -> dict[str, int]:
    """How often each value occurs, in the order of their names."""
    return dict(sorted(Counter(values).items()))


def public(value: Any) -> Any:
    """Settings without the folders of this machine: an absolute path is reduced to its last part."""
    if isinstance(value, Mapping):
        return {str(key): public(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [public(part) for part in value]
    if isinstance(value, PurePath) or (isinstance(value, str) and value.startswith(("/", "~"))):
        return PurePath(value).name
    return value


# ---- for people --------------------------------------------------------------------------------------------


def card_text(card: Mapping[str, Any]) -> str:
    """The card in Markdown."""
    about, sft, grpo = card["about"], card["sft"], card["grpo"]
    parts = [
        f"# Data card: {about['source']}",
        f"{sft['rows']} examples for supervised fine-tuning (`sft.jsonl`) and {grpo['rows']} prompts for "
        f"GRPO (`grpo.jsonl`), from {card['questions']['recorded']} questions about "
        f"{card['questions']['videos']} videos: programs written by a teacher and run, with native answers. "
        "Made by `videopro synthesize`.",
        "## Supervision by family and kind",
        cross_table(sft["by family and kind"], sorted(sft["by kind"])),
        f"By mode: {inline_counts(sft['by mode'])}. By length: {inline_counts(sft['by length'])}.",
        *prompt_parts(card),
        _table(
            {"first": card["programs"]["first"], **card["programs"]["refinements"]},
            ("replies", "no program", "not well-formed", "repeated", "failed", "gave no answer", "right"),
        ),
        "Failures of first programs: " + inline_counts(card["programs"]["first"]["failure classes"]) + ".",
        *_planned(card),
        "## Rejected",
        listed_counts(card["rejected"]),
        "Questions without a result: "
        + inline_counts(card["questions"]["without a result"])
        + ". Not asked: "
        + inline_counts(card["questions"]["not asked"])
        + ".",
        "## Teacher",
        listed_counts(card["teacher"]),
        *made_with(card),
    ]
    return "\n\n".join(parts) + "\n"


def made_with(card: Mapping[str, Any]) -> list[str]:
    """The end of a card: the settings, and the files' digests."""
    digests = "; ".join(f"{name} `{digest}`" for name, digest in card["sha256"].items())
    return ["## Made with", f"```json\n{json.dumps(card['about'], indent=1)}\n```", f"SHA-256: {digests}."]


def write_card(folder: Path, card: Mapping[str, Any], text: str) -> None:
    """Write a dataset's card into its folder, for programs and for people. Raises RunError."""
    content = json.dumps(card, indent=1, ensure_ascii=False) + "\n"
    for path, written in ((folder / CARD_JSON, content), (folder / CARD_MD, text)):
        write_file(path, written)


def _planned(card: Mapping[str, Any]) -> list[str]:
    """What each filter left, and what was planned next to what happened."""
    parts = []
    if card["filters"]:
        parts += ["## Questions left after each filter", _lines(FILTER_HEADS, filter_rows(card["filters"]))]
    plan = card["plan"]
    if plan is None:
        return parts
    teacher, spent = plan["teacher"], card["teacher"]
    rows = [("questions", plan["questions"], card["questions"]["recorded"])]
    if spent["requests"]:
        rows += [
            ("requests to the teacher", teacher["requests"], spent["requests"]),
            ("tokens of prompts", teacher["tokens in"], spent["tokens_in"]),
            ("tokens of replies", teacher["tokens out"], spent["tokens_out"]),
            ("cost", teacher["cost"], spent["cost"]),
        ]
    happened = {"sft": card["sft"]["by rule"], "grpo": card["grpo"]["by kind"]}
    for name, counts in happened.items():
        planned = plan["rows"][name]["kept"]
        rows.append((f"rows of {name}.jsonl", plan["rows"][name]["rows"], card[name]["rows"]))
        rows += [
            (f"- {group}", planned.get(group, 0), counts.get(group, 0))
            for group in sorted({*planned, *counts})
        ]
    basis = "; ".join(f"{figure}: {source}" for figure, source in plan["rests on"].items())
    return [
        *parts,
        "## Planned and actual",
        _lines(
            ("", "planned", "happened"),
            [(name, *("-" if value is None else f"{value:,}" for value in values)) for name, *values in rows],
        ),
        f"The plan is an estimate from before the questions were asked, based on: {basis}.",
    ]


def inline_counts(counts: Mapping[str, Any]) -> str:
    """Counts in a sentence."""
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def listed_counts(counts: Mapping[str, Any]) -> str:
    """Counts as a list."""
    return "\n".join(f"- {name}: {count}" for name, count in counts.items()) or "- nothing"


def prompt_parts(card: Mapping[str, Any]) -> list[str]:
    """What a card says of its prompts for GRPO and of the native answers."""
    grpo = card["grpo"]
    return [
        "## GRPO prompts by family and kind",
        cross_table(grpo["by family and kind"], sorted(grpo["by kind"])),
        f"Oracle mode (A.3) of plans: {inline_counts(grpo['oracle mode of plans'])}. Right letters: "
        f"{inline_counts(grpo['right letters'])}.",
        "## Results",
        f"Native answers: {inline_counts(card['native'])}.",
    ]


def cross_table(table: Mapping[str, Mapping[str, int]], columns: Sequence[str]) -> str:
    """Counts by two groupings, as a table."""
    return _table(
        {name: {column: row.get(column, 0) for column in columns} for name, row in table.items()}, columns
    )


def _table(rows: Mapping[str, Mapping[str, Any]], columns: Sequence[str]) -> str:
    return _lines(
        ("", *columns), [(name, *(str(row[column]) for column in columns)) for name, row in rows.items()]
    )


def _lines(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
