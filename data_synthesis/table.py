"""The table at the end of a synthesis, from its card."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def show_table(card: Mapping[str, Any], folder: Path, open_questions: int) -> None:
    """Print the table."""
    grid = Table(title=f"synthesis from {card['about']['source']}", caption_justify="left")
    for name in ("", "sft", "grpo"):
        grid.add_column(name, justify="left" if not name else "right")
    sft, grpo = card["sft"], card["grpo"]
    for kind in sorted({*sft["by kind"], *grpo["by kind"]}):
        grid.add_row(kind, str(sft["by kind"].get(kind, "-")), str(grpo["by kind"].get(kind, "-")))
    grid.add_section()
    for family in sorted({*sft["by family and kind"], *grpo["by family and kind"]}):
        counts = [sum(part["by family and kind"].get(family, {}).values()) for part in (sft, grpo)]
        grid.add_row(f"family {family}", *map(str, counts))
    grid.add_section()
    grid.add_row("all", str(sft["rows"]), str(grpo["rows"]), style="bold")
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
    grid.caption = "\n".join(caption)
    Console().print(grid)
    Console().print(f"folder: {folder}", soft_wrap=True)
    if open_questions:
        print(
            f"{open_questions} questions are still open: a cap was reached, or --assemble-only was given; "
            "raise the cap and re-run the same command to resume",
            file=sys.stderr,
        )
