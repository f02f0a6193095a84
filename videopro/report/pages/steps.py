"""The steps of an agent as plain JSON: the frames and reply of each, and the tree of segments. Everything is
read from the records, so that the steps of any agent can be shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from videopro.report.pages.thumbnails import Picture, shown_frames, times_of
from videopro.traces import Step

# Keys under which a reply gives its answer.
_ANSWERS = ("letter", "answer", "final_answer")


class TextTable:
    """Texts as line numbers of a shared table, because an agent's prompts repeat earlier content."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def lines(self) -> list[str]:
        """The lines, by number."""
        return list(self._numbers)

    def add(self, text: str) -> list[int]:
        """The numbers of the text's lines; none for an empty text."""
        lines = text.split("\n") if text else []
        return [self._numbers.setdefault(line, len(self._numbers)) for line in lines]


def steps_of(
    steps: Sequence[Step],
    letters: Sequence[str],
    max_frames: int,
    texts: TextTable,
    pictures: list[Picture],
) -> list[dict[str, Any]]:
    """The steps; `letters`: of the question's options. Adds to `texts` and `pictures`."""
    return [
        {
            "kind": step.kind,
            "model": step.model,
            "round": step.round,
            "args": [[name, as_text(value)] for name, value in step.args.items()],
            "prompt": texts.add(step.prompt),
            "raw": texts.add(step.raw),
            "thoughts": texts.add(step.thoughts),
            "cut_at": step.cut_at,
            "parsed": None if step.parsed is None else _without_calls(step.parsed),
            "called": _calls(step.parsed),
            "answer": answer_of(step, letters),
            "rejected": [texts.add(reply) for reply in step.rejected],
            "faults": list(step.faults),
            "is_unparsed": step.is_unparsed,
            "is_constrained": step.is_constrained,
            "is_reused": step.is_reused,
            "result": texts.add(step.result),
            "segments": step.segments,
            "frames": shown_frames(step.frames, max_frames, pictures),
            "looked": len(step.frames),
            "times": times_of(step.frames),
            "cost": step.cost,
        }
        for step in steps
    ]


def answer_of(step: Step, letters: Sequence[str]) -> str | None:
    """The letter of the option in a reply; None if there is none."""
    values = [(step.parsed or {}).get(key) for key in _ANSWERS]
    return next((value for value in values if isinstance(value, str) and value in tuple(letters)), None)


def as_text(value: Any) -> str:
    """An argument as text: strings unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _calls(parsed: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The tool calls in a reply: native ones, or in the text protocol."""
    reply = parsed or {}
    if _is_action(reply):
        return [_call({"name": reply["tool"], "arguments": reply["arguments"]})]
    calls = reply.get("calls")
    return [_call(call) for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []


def _is_action(reply: Mapping[str, Any]) -> bool:
    return isinstance(reply.get("tool"), str) and isinstance(reply.get("arguments"), Mapping)


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = call.get("arguments")
    try:
        read = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        read = None  # As the model wrote it.
    pairs = read.items() if isinstance(read, Mapping) else [("", arguments)]
    return {"fn": str(call.get("name")), "args": [[str(name), as_text(value)] for name, value in pairs]}


def _without_calls(parsed: Mapping[str, Any]) -> dict[str, Any] | None:
    """The rest of a reply that calls tools; None if there is none."""
    calling = ("tool", "arguments") if _is_action(parsed) else ("calls",)
    fields = {name: value for name, value in parsed.items() if name not in calling or not _calls(parsed)}
    return fields or (None if parsed else {})


# ---- the tree of segments --------------------------------------------------------------------------------


def tree_of(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The segments as a tree, parents first; empty if no segment has a parent. `at`: the step and segment
    with the most information (the last with a score); `depth`: from 0; `explored`: the order of its split,
    from 1; None if it was not split."""
    if not any(segment.parent for step in steps for segment in step.segments):
        return []
    parents: dict[str, str] = {}
    at: dict[str, list[int]] = {}
    explored: dict[str, int] = {}
    for number, step in enumerate(steps):
        for index, segment in enumerate(step.segments):
            if not segment.name:
                continue
            parents.setdefault(segment.name, segment.parent)
            if segment.parent:
                explored.setdefault(segment.parent, len(explored) + 1)
            if segment.name not in at or segment.score is not None:
                at[segment.name] = [number, index]
    depths = {name: _depth(name, parents) for name in parents}
    return [
        {"at": at[name], "depth": depths[name], "explored": explored.get(name), "parent": parents[name]}
        for name in sorted(parents, key=lambda name: depths[name])
    ]


def _depth(name: str, parents: Mapping[str, str]) -> int:
    depth = 0
    seen = {name}
    while (name := parents.get(name, "")) in parents and name not in seen:
        seen.add(name)
        depth += 1
    return depth


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
    """The column of each step of a round: the model, if models are shown side by side. A tool has the column
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
