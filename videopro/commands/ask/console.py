"""What `videopro ask` prints: programs with their calls and agent steps as they happen, then the answer
and the cost of the steps.
"""

from __future__ import annotations

import json
import shlex
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.status import Status
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from videopro.commands.ask.output import Stored
from videopro.executor import parse_program
from videopro.question import Answer, Question
from videopro.storage import without_commands
from videopro.traces import (
    FALLBACK,
    WITHHELD,
    Call,
    Cost,
    Execution,
    Result,
    Round,
    Segment,
    Step,
    evidence,
    is_withheld,
)
from videopro.video import Video

_TITLES = {
    "plan": "program",
    "plan_program": "multi-step program",
    "bug_fix": "refined because {before} failed",
    "native_refinement": "refined because the direct answer was not confident",
    "program_refinement": "refined because {before} gave no confident answer",
}
# How much is shown of a program that is not well-formed.
_PROGRAM_LINES, _PROGRAM_CHARACTERS = 24, 1500
_LINES, _CHARACTERS = 6, 600
_SEGMENTS = 12
_PLACES = 6
_INDENT = 3


class ConsoleObserver:
    """Prints each event as it happens. Used as a context manager, it shows what is in progress on stderr: a
    spinner on a terminal, otherwise a line."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps = self._replies = 0
        self._waiting: Status | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.end_wait()

    def on_wait(self, doing: str) -> None:
        """Show that a long step starts."""
        with self._lock:
            self.end_wait()
            console = Console(stderr=True)
            if console.is_terminal:
                self._waiting = console.status(f"{doing} ...", spinner="line")
                self._waiting.start()
            else:
                console.print(f"{doing} ...", markup=False, highlight=False)

    def end_wait(self) -> None:
        """Remove the spinner before anything is printed."""
        if self._waiting is not None:
            self._waiting.stop()
            self._waiting = None

    def show(self, result: Result, question: Question, video: Video, stored: Stored | None) -> None:
        """Print the answer, and how to view what is stored."""
        with self._lock:
            self.end_wait()
        show_answer(result, question)
        if stored is not None:
            look = f"videopro view {shlex.quote(str(stored.folder))} --open"
            print(f"stored as question {stored.question_id} in {stored.folder}: {look}", file=sys.stderr)

    def on_reply(self, round: Round) -> None:
        """Print the plan and the program."""
        with self._lock:
            self.end_wait()
            self._replies += 1
            before = "the first" if self._replies <= 2 else "the last"
            title = _TITLES[round.prompt_kind].format(before=before)
            print_line(f"\n{title} ({round.planning.seconds:.1f} s)", "bold")
            parsed = parse_program(round.raw)
            if not parsed.code.strip():
                print_line(cropped(round.raw))
            elif parsed.well_formed:
                if parsed.planning:
                    print_line(parsed.planning, "italic")
                print_code(parsed.code)
            else:
                # It may be a thousand words of anything.
                if parsed.planning:
                    print_line(cropped(parsed.planning), "italic")
                code, left = crop(parsed.code, _PROGRAM_LINES, _PROGRAM_CHARACTERS)
                print_code(code)
                if left:
                    print_line(f"… ({left:,} more characters)", "dim")
            for fault in round.faults:
                print_line(f"not well-formed: {fault}", "yellow")

    def on_call(self, call: Call) -> None:
        """Print one call."""
        with self._lock:
            self.end_wait()
            arguments = ", ".join(f"{name}={value}" for name, value in call.args.items())
            cached = ", cached" if call.cached else ""
            print_line(f"{call.fn}({arguments})", "cyan")
            print_line(f"  {call.result}  ({call.seconds:.2f} s{cached})", "dim")

    def on_execution(self, execution: Execution) -> None:
        """Print the program's outcome."""
        with self._lock:
            self.end_wait()
            if execution.error is not None:
                line = f", line {execution.error.line}" if execution.error.line is not None else ""
                print_line(f"failed: {execution.error.type}{line}: {execution.error.message}", "red")
            elif execution.status != "ok":
                print_line("the program gave no answer", "red")
            else:
                answer = execution.answer
                text = answer.letter or repr(cropped(" ".join(answer.raw.split())))
                print_line(f"the program answered {text}, confidence {answer.confidence:.3f}", "green")

    def on_step(self, step: Step) -> None:
        """Print one step of an agent: its purpose, the frames it looked at, and the reply."""
        with self._lock:
            self.end_wait()
            self._steps += 1
            show_step(step, self._steps)


def show_answer(result: Result, question: Question) -> None:
    """Print the final answer, the probability of each option, what it cost, and an agent's steps by kind."""
    reply = result.final
    assert reply is not None
    if len(result.rounds) > 1 or result.rounds[0].prompt_kind != "native":
        print_line("")
    if result.selected is not None and result.rounds[result.selected].prompt_kind == FALLBACK:
        print_line("the method gave no answer; this is the model's direct answer", "yellow")
    if is_withheld(result):
        print_line(WITHHELD, "bold")
    elif question.is_open:
        print_line(reply.raw.strip() or "no answer", "bold")
    elif reply.letter is None:
        print_line(f"no option in the reply: {cropped(reply.raw)!r}" if reply.raw else "no answer", "bold")
    else:
        print_line(f"{reply.letter}. {question.choice(reply.letter)}", "bold")
    if reply.cut_at is not None:
        is_direct = result.rounds[0].prompt_kind == "native"
        fix = "; raise --max-new-tokens, or turn off the model's thinking" if is_direct else ""
        print_line(f"the reply was cut off at {reply.cut_at} tokens{fix}", "yellow")
    if reply.letters or not result.steps:
        print_line(f"confidence {reply.confidence:.3f}", "dim")
        if not question.is_open:
            _show_shares(reply, question)
    _show_citations(result)
    claims = [round.execution.claim for round in result.rounds if round.execution is not None]
    for claim in claims:
        if claim is not None and result.steps:
            print_line(f"the agent claims a confidence of {claim:.2f}", "dim")
    withheld = [note for note in result.notes if note.startswith(WITHHELD)]
    for note in (*(result.notes if result.steps else withheld), *map(str, result.stand_ins)):
        print_line(note, "dim")
    cost = result.cost
    calls = f"{round(cost.calls)} model call{'' if cost.calls == 1 else 's'}"
    print_line(f"{calls}, {_spent(cost)}", "dim")
    if result.steps:
        show_costs(result)


def _show_citations(result: Result) -> None:
    """Where in the video to look."""
    cited = [piece for piece in evidence(result) if piece["cited"] and piece["start"] is not None]
    places = dict.fromkeys(tuple(_clock(piece[end]) for end in ("start", "end")) for piece in cited)
    texts = [start if start == end else f"{start} to {end}" for start, end in places]
    if texts:
        more = f" and {len(texts) - _PLACES} more" if len(texts) > _PLACES else ""
        print_line(f"see {', '.join(texts[:_PLACES])}{more}", "dim")


def _show_shares(reply: Answer, question: Question) -> None:
    """How likely each option is."""
    grid = Table(box=None, show_header=False, pad_edge=False)
    for letter, choice in zip(question.letters, question.choices, strict=True):
        share = reply.letters.get(letter, 0.0)
        grid.add_row(letter, Text(choice), "█" * round(30 * share), f"{share:.3f}")
    Console().print(grid)


def print_code(code: str) -> None:
    """Print Python code with line numbers; long lines wrap without a number."""
    Console().print(Syntax(code, "python", line_numbers=True, word_wrap=True, background_color="default"))


# ---- an agent's steps --------------------------------------------------------------------------------------


def show_step(step: Step, number: int) -> None:
    """Print a step: its kind and arguments, the frames it looked at, the reply or why it could not be parsed,
    and its cost."""
    head = Text(f"{number:>2} ", "dim")
    head.append(step.kind, "bold cyan")
    arguments = _arguments(step.args)
    head.append(f"({arguments})" if arguments or not step.model else "", "cyan")
    about = [step.model, f"round {step.round + 1}" if step.round >= 0 else "", _looked(step)]
    head.append(f"  {' · '.join(part for part in about if part)}", "dim")
    Console().print(head, soft_wrap=True, highlight=False)
    for index, fault in enumerate(step.faults):
        was = "asked again: the reply" if index < len(step.rejected) else "the reply"
        print_line(f"{was} could not be parsed: {fault}", "yellow", _INDENT)
    for line, style in _reply(step):
        print_line(line, style, _INDENT)
    if step.segments:
        Console().print(Padding(_segments(step.segments), (0, 0, 0, _INDENT)))
    # A long result that lists the segments says them again.
    has_table = len(step.segments) > 0 and step.result.count("\n") + 1 >= len(step.segments) > 1
    if step.result and step.result != step.raw and not has_table:
        is_error = step.kind.startswith(("error", "mistake"))
        print_line(cropped(step.result), "red" if is_error else "dim", _INDENT)
    reused = "reused; cost " if step.is_reused else ""
    print_line(f"{reused}{_spent(step.cost)}", "dim", _INDENT)


def show_costs(result: Result) -> None:
    """Print the steps by kind, the preparation, and the question's own cost."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    for name in ("steps", "time", "frames", "tokens in", "tokens out"):
        table.add_column(name, justify="right")
    paid = [step for step in result.steps if not step.is_reused]
    for kind in dict.fromkeys(step.kind for step in paid):
        some = [step.cost for step in paid if step.kind == kind]
        table.add_row(*_row(Text(kind), len(some), sum(some, Cost())))
    reused = [step.cost for step in result.steps if step.is_reused]
    table.add_row(*_row(Text("total", "bold"), len(paid), result.cost))
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
    print_line(f"{result.frames_seen} frames of the video were seen", "dim")


def cropped(text: str) -> str:
    """The beginning of a long text, and the number of characters left out."""
    start, left = crop(text, _LINES, _CHARACTERS)
    return f"{start} … ({left:,} more characters)" if left else start


def crop(text: str, lines: int, characters: int) -> tuple[str, int]:
    """The first lines of a text, and the number of characters left out."""
    start = "\n".join(text.split("\n")[:lines])[:characters].rstrip()
    return start, len(text.rstrip()) - len(start)


def print_line(text: str, style: str = "", indent: int = 0) -> None:
    """Print text verbatim: brackets are not markup, and control characters have no effect."""
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
    """A table of segments, one line each: name, time, score and notes."""
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
