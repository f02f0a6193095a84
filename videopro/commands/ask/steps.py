"""What `videopro.ask` prints of an agent: each step as it happens, and in the end what the steps cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from videopro.storage import without_commands
from videopro.traces import Cost, Result, Segment, Step

_LINES, _CHARACTERS = 6, 600
_SEGMENTS = 12
_INDENT = 3


def show_step(step: Step, number: int) -> None:
    """A step: its kind and arguments, what it looked at, the reply or why it could not be read, and its
    cost."""
    head = Text(f"{number:>2} ", "dim")
    head.append(step.kind, "bold cyan")
    arguments = _arguments(step.args)
    head.append(f"({arguments})" if arguments or not step.model else "", "cyan")
    about = [step.model, f"round {step.round + 1}" if step.round >= 0 else "", _looked(step)]
    head.append(f"  {' · '.join(part for part in about if part)}", "dim")
    Console().print(head, soft_wrap=True, highlight=False)
    for index, fault in enumerate(step.faults):
        was = "asked again, as the reply" if index < len(step.rejected) else "the reply"
        print_line(f"{was} could not be parsed: {fault}", "yellow", _INDENT)
    for line, style in _reply(step):
        print_line(line, style, _INDENT)
    if step.segments:
        _print(_segments(step.segments))
    # A long result that lists the segments says them again.
    has_table = len(step.segments) > 0 and step.result.count("\n") + 1 >= len(step.segments) > 1
    if step.result and step.result != step.raw and not has_table:
        is_error = step.kind.startswith(("error", "mistake"))
        print_line(cropped(step.result), "red" if is_error else "dim", _INDENT)
    reused = "reused, it cost " if step.is_reused else ""
    print_line(f"{reused}{_spent(step.cost)}", "dim", _INDENT)


def show_costs(result: Result) -> None:
    """The steps by kind, what was prepared, and the question's own cost."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for name in ("steps", "time", "frames", "tokens in", "tokens out"):
        table.add_column(name, justify="right")
    paid = [step for step in result.steps if not step.is_reused]
    for kind in dict.fromkeys(step.kind for step in paid):
        some = [step.cost for step in paid if step.kind == kind]
        table.add_row(*_row(Text(kind), len(some), sum(some, Cost())))
    reused = [step.cost for step in result.steps if step.is_reused]
    table.add_row(*_row(Text("in all", "bold"), len(paid), result.cost))
    if reused:
        table.add_row(*_row(Text("reused", "dim"), len(reused), sum(reused, Cost())), style="dim")
    for preparation in result.prepared:
        title = Text(f"prepared: {preparation.kind}")
        table.add_row(
            *(_row(title, "", preparation.cost) if preparation.is_known else [title, "", "unknown"]),
            style="dim",
        )
    Console().print()
    Console().print(table)
    print_line(f"{result.frames_seen} frames of the video were looked at", "dim")


def cropped(text: str) -> str:
    """The beginning of a long text, and how much is left out."""
    start, left = crop(text, _LINES, _CHARACTERS)
    return f"{start} … ({left:,} more characters)" if left else start


def crop(text: str, lines: int, characters: int) -> tuple[str, int]:
    """The first lines of a text, and how many characters are left out."""
    start = "\n".join(text.split("\n")[:lines])[:characters].rstrip()
    return start, len(text.rstrip()) - len(start)


def print_line(text: str, style: str = "", indent: int = 0) -> None:
    """Print text verbatim: brackets are not markup here, and the terminal obeys nothing in it."""
    lines = "\n".join(" " * indent + line for line in without_commands(text).split("\n"))
    Console().print(lines, style=style, markup=False, highlight=False, soft_wrap=True)


def _reply(step: Step) -> list[tuple[str, str]]:
    """(text, style) of each line of the reply."""
    if step.is_unparsed:
        return [(cropped(step.raw), "red")] if step.raw else []
    if step.parsed is None:
        return [(cropped(step.raw), "")] if step.raw else []
    calls = step.parsed.get("calls")
    if isinstance(calls, list) and all(isinstance(call, Mapping) for call in calls):
        thought = step.raw.split("{")[0].strip()
        called = [(f"→ {call.get('name')}({call.get('arguments')})", "") for call in calls]
        return [*([(cropped(thought), "")] if thought else []), *called]
    if len(step.segments) > 1:
        return []  # The segments say the same in full.
    return [(cropped(f"{name}: {_value(value)}"), "") for name, value in step.parsed.items()]


def _segments(segments: Sequence[Segment]) -> RenderableType:
    """A table of segments: name, time, score and what is known, a line each."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True, overflow="ellipsis")
    for segment in segments[:_SEGMENTS]:
        score = "" if segment.score is None else f"{segment.score:g}"
        time = f"{_clock(segment.start)} – {_clock(segment.end)}"
        text = " ".join(segment.text.split())
        table.add_row(Text(segment.name, "bold"), Text(time, "dim"), Text(score, "cyan"), Text(text))
    if len(segments) > _SEGMENTS:
        table.add_row("", Text(f"and {len(segments) - _SEGMENTS} more", "dim"), "", "")
    return table


def _row(name: Text, steps: int | str, cost: Cost) -> list[RenderableType]:
    counts = (cost.frames, cost.tokens_in, cost.tokens_out)
    return [name, str(steps), f"{cost.seconds:.2f} s", *(f"{round(n):,}" if n else "–" for n in counts)]


def _looked(step: Step) -> str:
    times = [frame[0] for frame in step.frames]
    if not times:
        return ""
    if len(times) == 1:
        return f"1 frame, {_clock(times[0])}"
    return f"{len(times)} frames, {_clock(min(times))} – {_clock(max(times))}"


def _spent(cost: Cost) -> str:
    tokens = f", {round(cost.tokens_in):,} → {round(cost.tokens_out):,} tokens" if cost.calls else ""
    return f"{cost.seconds:.2f} s{tokens}"


def _arguments(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in arguments.items() if value not in ([], ""))


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _clock(seconds: float) -> str:
    """Seconds of a video as 1:02:03.5 or 2:03.5."""
    minutes, remainder = divmod(round(seconds, 1), 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02d}:{remainder:04.1f}" if hours else f"{minutes}:{remainder:04.1f}"


def _print(content: RenderableType) -> None:
    Console().print(Padding(content, (0, 0, 0, _INDENT)))
