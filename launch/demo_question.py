"""One question of the demo with its program, from the traces of its run, and what to do next.

python launch/demo_question.py runs/demo/videopro
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from videopro import benchmarks
from videopro.benchmarks import Item
from videopro.cli import exit_status, read_yaml
from videopro.commands.ask.console import ConsoleObserver, print_line, show_answer
from videopro.runs import RunFolder
from videopro.traces import Result, Trace


def choose(traces: Sequence[Trace]) -> Trace | None:
    """The question to show: one that a refinement got right, with the shortest program of several steps;
    else any that a program got right."""
    solved = [
        trace
        for trace in traces
        if trace.final is not None
        and trace.is_right(trace.final.letter)
        and trace.selected is not None
        and trace.rounds[trace.selected].mode == "program"
    ]
    refined = [trace for trace in solved if trace.selected]
    return min(refined or solved, key=lambda trace: len(_program(trace)), default=None)


def _program(trace: Trace) -> str:
    return trace.rounds[trace.selected or 0].program or ""


def show(trace: Trace, item: Item) -> None:
    """The question, the program that answered it, and the answer."""
    selected, final = trace.selected, trace.final
    assert selected is not None
    print_line(f"\nOne of the questions ({trace.question_id})", "bold")
    print_line(item.question.text)
    first = trace.rounds[0].execution
    if selected and first is not None:
        reason = (
            f"failed: {first.error.type}"
            if first.error is not None
            else f"answered {first.answer.letter}, confidence {first.answer.confidence:.3f}"
        )
        print_line(f"the first program {reason}, so it was refined", "dim")
    ConsoleObserver().on_reply(trace.rounds[selected])
    show_answer(Result((trace.rounds[selected],), final, final, 0), item.question)


def next_steps(folder: Path, item: Item | None) -> list[str]:
    """The commands to try next."""
    steps = [f"videopro view {shlex.quote(str(folder))}"]
    if item is not None:
        arguments = [
            f"pocket:test/{item.video.stem}",
            item.question.text,
            "--choices",
            *item.question.choices,
        ]
        flags = "--model pocket --method videopro --planner pocket-teacher"
        steps.append(f"videopro ask {shlex.join(arguments)} {flags}")
    steps.append('videopro ask video.mp4 "What happens?" --model Qwen/Qwen3-VL-8B-Instruct')
    return steps


def main(argv: Sequence[str]) -> int:
    with exit_status() as status:
        folder = RunFolder(Path(argv[0]))
        settings = read_yaml(folder.config)
        split = settings["split"] or "test"
        items = {item.id: item for item in benchmarks.load("pocket", split=split).items}
        trace = choose(folder.read())
        item = None
        if trace is not None:
            item = items[trace.question_id]
            show(trace, item)
        print_line("\nNext, after source .venv/bin/activate:", "bold")
        for step in next_steps(folder.path, item if split == "test" else None):
            print_line(f"  {step}")
    return status.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
