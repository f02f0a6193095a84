"""Which steps of an agent stand side by side: several models that do the same in a round, such as agents that
discuss, are columns; what they did in common is a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from videopro.traces import Step


def layout(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The steps in order, round by round: {"round": number, "blocks": [...]}. A block has `columns` (models;
    none: steps below each other) and `rows` of the steps' places, None where a model took no such step."""
    rounds = groupby(enumerate(steps), key=lambda entry: entry[1].round)
    return [{"round": number, "blocks": _blocks(list(entries))} for number, entries in rounds]


def _blocks(entries: Sequence[tuple[int, Step]]) -> list[dict[str, Any]]:
    columns = _columns([step for _, step in entries])
    keyed = [(column, index, step.kind) for column, (index, step) in zip(columns, entries, strict=True)]
    blocks = []
    for is_shared, some in groupby(keyed, key=lambda entry: entry[0] is not None):
        if is_shared:
            blocks.append(_aligned([(str(column), index, kind) for column, index, kind in some]))
        else:
            blocks.append({"columns": [], "rows": [[index] for _, index, _ in some]})
    return blocks


def _columns(steps: Sequence[Step]) -> list[str | None]:
    """The column of each step of a round: the model of those that stand side by side. A tool has the column
    of the model that its arguments name, or else of the model that acted before, unless it was called only
    once in the round: that serves them all."""
    by_kind: dict[str, set[str]] = {}
    for step in steps:
        if step.model:
            by_kind.setdefault(step.kind, set()).add(step.model)
    shared = {model for models in by_kind.values() if len(models) > 1 for model in models}
    tools = [step.kind for step in steps if not step.model]
    columns: list[str | None] = []
    before: str | None = None
    for step in steps:
        named = [value for value in step.args.values() if isinstance(value, str) and value in shared]
        if step.model:
            before = step.model if step.model in shared else None
            columns.append(before)
        elif named:
            columns.append(named[0])
        else:
            columns.append(before if tools.count(step.kind) > 1 else None)
    return columns


def _aligned(entries: Sequence[tuple[str, int, str]]) -> dict[str, Any]:
    """The block of these (column, place, kind): steps of the same kind share a row, and each column keeps
    its order."""
    columns = list(dict.fromkeys(column for column, _, _ in entries))
    rows: list[tuple[str, dict[str, int]]] = []
    for column, index, kind in entries:
        above = max((row for row, (_, cells) in enumerate(rows) if column in cells), default=-1)
        row = next((row for row in range(above + 1, len(rows)) if rows[row][0] == kind), None)
        if row is None:
            row = above + 1
            rows.insert(row, (kind, {}))
        rows[row][1][column] = index
    # A model alone in its block is named by its steps.
    titles = columns if len(columns) > 1 else []
    return {"columns": titles, "rows": [[cells.get(column) for column in columns] for _, cells in rows]}
