"""What `videopro.ask` prints: programs with their calls and agents' steps as they happen, then the answer."""

from __future__ import annotations

import shlex
import sys
import threading
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from videopro.commands.ask.code import print_code
from videopro.commands.ask.keeping import Stored
from videopro.commands.ask.steps import crop, cropped, print_line, show_costs, show_step
from videopro.executor import parse_program
from videopro.question import Answer, Question
from videopro.traces import FALLBACK, Call, Execution, Result, Round, Step
from videopro.video import Video

_TITLES = {
    "plan": "program",
    "plan_program": "program of several steps",
    "bug_fix": "refined because {before} failed",
    "native_refinement": "refined because the direct answer was not confident",
    "program_refinement": "refined because {before} gave no confident answer",
}
# How much is shown of a program that is not well-formed.
_PROGRAM_LINES, _PROGRAM_CHARACTERS = 24, 1500


class ConsoleObserver:
    """Prints each event as it happens. While nothing happens, a context of it shows on stderr what is being
    done: a spinner that goes away on a terminal, otherwise a line."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps = self._replies = 0
        self._waiting: Status | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_wait()

    def on_wait(self, doing: str) -> None:
        """A long step begins."""
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
        """The answer, and how to look at what is stored."""
        with self._lock:
            self.end_wait()
        show_answer(result, question)
        if stored is not None:
            look = f"videopro view {shlex.quote(str(stored.folder))} --open"
            print(f"kept as question {stored.question_id} of {stored.folder}: {look}", file=sys.stderr)

    def on_reply(self, round: Round) -> None:
        """The plan and the program."""
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
                print_code(parsed.code, Console())
            else:
                # It may be a thousand words of anything.
                if parsed.planning:
                    print_line(cropped(parsed.planning), "italic")
                code, left = crop(parsed.code, _PROGRAM_LINES, _PROGRAM_CHARACTERS)
                print_code(code, Console())
                if left:
                    print_line(f"… ({left:,} more characters)", "dim")
            for fault in round.faults:
                print_line(f"not well-formed: {fault}", "yellow")

    def on_call(self, call: Call) -> None:
        """One call."""
        with self._lock:
            self.end_wait()
            arguments = ", ".join(f"{name}={value}" for name, value in call.args.items())
            cached = ", cached" if call.cached else ""
            print_line(f"{call.fn}({arguments})", "cyan")
            print_line(f"  {call.result}  ({call.seconds:.2f} s{cached})", "dim")

    def on_execution(self, execution: Execution) -> None:
        """The program's outcome."""
        with self._lock:
            self.end_wait()
            if execution.error is not None:
                line = f", line {execution.error.line}" if execution.error.line is not None else ""
                print_line(f"failed: {execution.error.type}{line}: {execution.error.message}", "red")
            elif execution.status != "ok":
                print_line("it gave no answer", "red")
            else:
                answer = execution.answer
                text = answer.letter or repr(cropped(" ".join(answer.raw.split())))
                print_line(f"it answered {text}, confidence {answer.confidence:.3f}", "green")

    def on_step(self, step: Step) -> None:
        """One step of an agent: what it was for, what it looked at, and what came back."""
        with self._lock:
            self.end_wait()
            self._steps += 1
            show_step(step, self._steps)


def show_answer(result: Result, question: Question) -> None:
    """The answer that counts, how likely each option is, and what an agent's steps cost."""
    reply = result.final
    assert reply is not None
    if len(result.rounds) > 1 or result.rounds[0].prompt_kind != "native":
        print_line("")
    if result.selected is not None and result.rounds[result.selected].prompt_kind == FALLBACK:
        print_line("the method gave no answer: this is the model's direct one", "yellow")
    if question.is_open:
        print_line(reply.raw.strip() or "no answer", "bold")
    elif reply.letter is None:
        print_line(f"no option: the model says {cropped(reply.raw)!r}" if reply.raw else "no answer", "bold")
    else:
        print_line(f"{reply.letter}. {question.choice(reply.letter)}", "bold")
    if reply.cut_at is not None:
        is_direct = result.rounds[0].prompt_kind == "native"
        fix = "; raise --max-new-tokens, or turn the model's thinking off" if is_direct else ""
        print_line(f"the reply was cut off at {reply.cut_at} tokens{fix}", "yellow")
    if reply.letters or not result.steps:
        print_line(f"confidence {reply.confidence:.3f}", "dim")
        if not question.is_open:
            _show_shares(reply, question)
    claims = [round.execution.claim for round in result.rounds if round.execution is not None]
    for claim in claims:
        if claim is not None and result.steps:
            print_line(f"the agent claims a confidence of {claim:.2f}", "dim")
    for note in (*(result.notes if result.steps else ()), *map(str, result.stand_ins)):
        print_line(note, "dim")
    if result.steps:
        show_costs(result)


def _show_shares(reply: Answer, question: Question) -> None:
    """How likely each option is."""
    grid = Table(box=None, show_header=False, pad_edge=False)
    for letter, choice in zip(question.letters, question.choices, strict=True):
        share = reply.letters.get(letter, 0.0)
        grid.add_row(letter, Text(choice), "█" * round(30 * share), f"{share:.3f}")
    Console().print(grid)
