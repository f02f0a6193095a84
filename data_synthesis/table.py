"""The table at the end of a synthesis, from its card."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from videopro.cli import TextTable


def show_table(card: Mapping[str, Any], folder: Path, open_questions: int) -> None:
    """Print the table."""
    sft, grpo = card["sft"], card["grpo"]
    kinds = sorted({*sft["by kind"], *grpo["by kind"]})
    rows = [(kind, *(str(part["by kind"].get(kind, "-")) for part in (sft, grpo))) for kind in kinds]
    rules = [len(rows) - 1]
    for family in sorted({*sft["by family and kind"], *grpo["by family and kind"]}):
        counts = [sum(part["by family and kind"].get(family, {}).values()) for part in (sft, grpo)]
        rows.append((f"family {family}", *map(str, counts)))
    rules.append(len(rows) - 1)
    rows.append(("all", str(sft["rows"]), str(grpo["rows"])))
    first, teacher, questions = card["programs"]["first"], card["teacher"], card["questions"]
    native = card["native"]
    caption = [
        f"{questions['recorded']} questions, {sum(questions['without a result'].values())} without a result; "
        f"native right {native['right and confident'] + native['right and unsure']}, and confident "
        f"{native['right and confident']}",
        f"{first['replies']} programs: right {first['right']}, failed {first['failed']}, not well-formed "
        f"{first['not well-formed']}",
    ]
    if teacher["requests"]:
        cost = f", cost {teacher['cost']}" if teacher["cost"] is not None else ""
        caption.append(
            f"teacher: {teacher['requests']} requests ({teacher['refused']} gave no text), "
            f"{teacher['tokens_in']} + {teacher['tokens_out']} tokens{cost}"
        )
    title = f"synthesis from {card['about']['source']}"
    heads = ("", "sft", "grpo")
    Console().print(TextTable(title, heads, tuple(rows), tuple(caption), rules=frozenset(rules)))
    Console().print(f"folder: {folder}", soft_wrap=True)
    if open_questions:
        print(
            f"{open_questions} questions are still open: a cap was reached, or --assemble-only was given; "
            "raise the cap and re-run the same command to resume",
            file=sys.stderr,
        )
