"""What agents did in a run: replies by kind, and how often LVAgent's agents disagree.

python -m videopro.train.pocket.agents.measure runs/lvagent [--output FILE.json]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from videopro.cli import exit_status
from videopro.command_line import CommandLine
from videopro.scoring import agent_metrics
from videopro.settings import setting
from videopro.traces import Trace, read_traces


@dataclass(frozen=True)
class MeasureSettings:
    """The run, and where the figures go."""

    run: Path = field(metadata=setting("folder of the run", positional=True))
    output: Path | None = field(default=None, metadata=setting("JSON file for the figures"))


COMMAND = CommandLine(
    "videopro.train.pocket.agents.measure",
    MeasureSettings,
    summary="Say what agents did in a run: replies by kind, and how often LVAgent's agents disagree.",
)


def is_right(trace: Trace) -> bool:
    """Whether the final answer is right; none is not."""
    return trace.final is not None and trace.is_right(trace.final.letter)


def first_answers(trace: Trace) -> dict[str, str | None]:
    """The letter of each of LVAgent's agents before any discussion."""
    return {
        step.model: (step.parsed or {}).get("letter")
        for step in trace.steps
        if step.kind == "answer" and step.round == 0
    }


def discussion(traces: Sequence[Trace]) -> dict[str, object]:
    """Of questions that all agents answered in the first round: the accuracy of each agent, how often any two
    disagree, how often any do, and the accuracy of the end where they did."""
    firsts = [(trace, first_answers(trace)) for trace in traces]
    names = sorted({name for _, letters in firsts for name in letters})
    whole = [(trace, letters) for trace, letters in firsts if set(letters) == set(names)]
    if not whole or len(names) < 2:
        return {}
    split = [(trace, letters) for trace, letters in whole if len({*letters.values()}) > 1]
    return {
        "questions": len(whole),
        "first_answers_right": {
            name: sum(trace.is_right(letters[name]) for trace, letters in whole) for name in names
        },
        "pairs_that_differ": {
            f"{a} / {b}": sum(letters[a] != letters[b] for _, letters in whole)
            for a, b in combinations(names, 2)
        },
        "questions_with_disagreement": len(split),
        "of_these_right_at_the_end": sum(is_right(trace) for trace, _ in split),
        "of_these_any_agent_right_at_first": sum(
            any(trace.is_right(letter) for letter in letters.values()) for trace, letters in split
        ),
    }


def print_figures(given: MeasureSettings) -> None:
    """Count, print the figures as JSON, and write them."""
    traces = read_traces(given.run / "traces.jsonl")
    figures = {
        "questions": len(traces),
        "right": sum(map(is_right, traces)),
        "replies": agent_metrics(traces).get("by_kind", {}),
        "discussion": discussion(traces),
    }
    text = json.dumps(figures, indent=1) + "\n"
    print(text, end="")
    if given.output is not None:
        given.output.write_text(text)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    with exit_status("stopped; nothing was written") as status:
        print_figures(COMMAND.parse(argv))
    return status.code


if __name__ == "__main__":
    sys.exit(main())
