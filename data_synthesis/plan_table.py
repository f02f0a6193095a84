"""The tables of a plan, for the terminal and for the data card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from videopro.cli import TextTable

FILTER_HEADS = ("filter", "removed", "questions", "videos")
PLAN_HEADS = ("", "expected", "rests on")


def filter_rows(steps: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str, str]]:
    """A row for each filter, and one for each closer reason."""
    rows = []
    for position, step in enumerate(steps):
        removed = "" if position == 0 else f"{step['removed']:,}"
        rows.append((step["name"], removed, f"{step['questions']:,}", f"{step['videos']:,}"))
        rows += [(f"- {reason}", f"{count:,}", "", "") for reason, count in step["because"].items()]
    return rows


def plan_rows(plan: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What to expect, and what each figure rests on."""
    return [(name, value, basis) for name, value, basis in _rows(plan) if value]


def _rows(plan: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    basis, teacher, hours = plan["rests on"], plan["teacher"], plan["hours"]
    rates = " and ".join(dict.fromkeys(basis[side] for side in ("sft", "grpo") if side in basis))
    recorded = f", {plan['recorded']:,} of them recorded" if plan["recorded"] else ""
    yield "questions to ask", f"{plan['questions']:,} about {plan['videos']:,} videos{recorded}", "counted"
    if plan["missing videos"]:
        yield "videos that are not there", f"{plan['missing videos']:,}", "their questions end as errors"
    if len({str(side) for side in plan["sides"].values()}) > 1:
        for name, side in plan["sides"].items():
            yield f"for {name}.jsonl", f"{side['questions']:,} about {side['videos']:,} videos", "counted"
    for name, rows in plan["rows"].items():
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in rows["kept"].items())
        yield f"rows of {name}.jsonl", f"{rows['rows']:,} ({kinds})" if kinds else "0", rates
        if rows["target"] and rows["rows"] < rows["target"]:
            yield "", f"below {name}_rows, {rows['target']:,}", ""
    if basis["tokens"] != "free":
        yield "requests to the teacher", f"{teacher['requests']:,}", rates
        tokens = f"{_about(teacher['tokens in'])} + {_about(teacher['tokens out'])}"
        yield "tokens, prompts + replies", tokens, basis["tokens"]
    if teacher["cost"] is not None and basis["tokens"] != "free":
        yield "cost (estimate)", _about(teacher["cost"]), "tokens, price_in and price_out"
        yield "cost if every reply is of max_new_tokens", _about(teacher["most"]), "requests"
    if teacher["max_cost"] is not None and basis["tokens"] != "free":
        yield "max_cost", f"{teacher['max_cost']:,.6g}", "set"
    if teacher["ends at"] is not None:
        open_questions = plan["questions"] - plan["recorded"]
        yield "a cap ends it", f"after about question {teacher['ends at']:,} of {open_questions:,}", "cost"
    if basis["tokens"] != "free":
        yield "hours of the teacher (estimate)", f"{hours['teacher']:,}", basis["time"]
    yield "hours of the model on one GPU (estimate)", f"{hours['model']:,}", basis["time"]


def _about(number: float) -> str:
    """An estimate, to three digits."""
    if number >= 1e6:
        return f"{number / 1e6:.3g} million"
    return f"{float(f'{number:.3g}'):,.6g}"


def show_plan(plan: Mapping[str, Any], source: str) -> None:
    """Print the tables, and what an assumption is worth."""
    console = Console()
    for title, heads, rows in (
        (f"what is left of {source}", FILTER_HEADS, filter_rows(plan["filters"])),
        ("what to expect", PLAN_HEADS, plan_rows(plan)),
    ):
        lefts = frozenset(() if heads is FILTER_HEADS else heads)
        console.print(TextTable(title, heads, tuple(rows), lefts=lefts))
    if "assumed" in plan["rests on"].values():
        print(
            "assumed: rates that were not measured on your model, teacher and source. Ask a hundred "
            "questions first (--limit 100); the plan then rests on what they gave."
        )
    print("Nothing was loaded, asked or written.")


def shortage(plan: Mapping[str, Any]) -> str | None:
    """What a cap leaves unasked, in a line; None if none does."""
    if plan["teacher"]["ends at"] is None:
        return None
    open_questions = plan["questions"] - plan["recorded"]
    return (
        f"a cap is expected to end this after about question {plan['teacher']['ends at']:,} of "
        f"{open_questions:,} (estimate; videopro synthesize --plan shows what it rests on)"
    )
