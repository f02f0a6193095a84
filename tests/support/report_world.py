"""Small hand-written runs of programs and agents for tests of summaries and reports: scores and counts can be
worked out on paper."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import yaml

from videopro.question import Answer
from videopro.runs import RunFolder, run_key
from videopro.traces import (
    AGENT,
    SCHEMA,
    Cost,
    Execution,
    Failure,
    Preparation,
    Round,
    Step,
    Trace,
    TraceLog,
    VideoRef,
)
from videopro.traces import FALLBACK as FALLBACK

PLANNED = {"planner": "self", "tau": 0.75, "max_rounds": 1, "refine_below": None, "final_answer": "last"}


def program_execution(answer: str | None, confidence: float) -> Execution:
    """An execution of a second and two calls; None: it failed."""
    cost = Cost(seconds=1.0, frames=4.0, calls=2.0)
    if answer is None:
        return Execution("failed", error=Failure("NameError", "no such name"), cost=cost)
    return Execution("ok", Answer(answer, confidence, raw=answer), cost=cost)


def program(
    answer: str | None,
    confidence: float = 0.0,
    *,
    kind: str = "plan",
    mode: Literal["native", "program"] = "program",
    tokens: float = 100.0,
) -> Round:
    """A round whose program took half a second to write and a second to run."""
    planning = Cost(seconds=0.5, calls=1.0, tokens_out=tokens)
    return Round(kind, "x" * 10, "code", program_execution(answer, confidence), mode, planning=planning)


def direct_round(answer: str | None, confidence: float, kind: str = "native") -> Round:
    """A direct answer, without a program."""
    return Round(kind, answer or "", execution=program_execution(answer, confidence), mode="native")


def trace(
    number: int,
    rounds: Sequence[Round],
    *,
    selected: int | None = None,
    refined: int | None = None,
    minutes: float = 1.0,
    gold: str | None = "A",
    groups: dict[str, str] | None = None,
    **changes: Any,
) -> Trace:
    """Question `number` of video number // 2, whose right answer is A."""
    place = len(rounds) - 1 if selected is None else selected
    cost = Cost(seconds=0.25)  # what all questions of the video share
    for attempt in rounds:
        cost = cost + attempt.planning + (attempt.execution.cost if attempt.execution else Cost())
    first, final = (execution.answer for at in (0, place) if (execution := rounds[at].execution))
    made = Trace(
        schema=SCHEMA,
        run_key="0123456789abcdef",
        question_id=f"q{number}",
        video=VideoRef(f"v{number // 2}.mp4", f"v{number // 2}", "hash", 60 * minutes),
        question=f"What is {number}?",
        choices=("one", "two"),
        gold=gold,
        groups=groups or {},
        rounds=tuple(rounds),
        first=first,
        final=final,
        selected=place,
        refined=place if refined is None else refined,
        official=final.letter,
        cost=cost,
    )
    return replace(made, **changes)


def unreadable(number: int) -> Trace:
    """A question whose video cannot be read."""
    error = Failure("VideoError", "there is no such file")
    nothing: dict[str, Any] = {"rounds": (), "first": None, "final": None, "selected": None, "official": None}
    return replace(trace(number, [direct_round("A", 0.5)]), error=error, cost=Cost(), **nothing)


def write_run(
    folder: Path,
    traces: Sequence[Trace],
    *,
    method: str = "native",
    benchmark: str = "pocket",
    split: str = "test",
    protocol: dict[str, Any] | None = None,
    model: str = "org/tiny",
    adapter: str | None = None,
    frames: int = 16,
    **settings: Any,
) -> Path:
    """A run folder as videopro.infer leaves it. `settings`: of the method."""
    plans = method in ("program", "adaptive", "videopro")
    own = {**({**PLANNED, "fallback": "none"} if plans else {}), **settings}
    identity = {
        "method": {"name": method, **own},
        "protocol": {
            "benchmark": benchmark,
            "split": split,
            "version": "1",
            "parser": "robust",
            "prompt": "multiple_choice",
            "official_unparsed": "wrong",
            **(protocol or {}),
        },
        "generation": {"seed": 0},
        "model": {"model": model, "frames": frames, "adapter": adapter and "0" * 16},
    }
    content = {
        "model": model,
        "backbone": {"adapter": adapter} if adapter else {},
        "run_key": run_key(identity),
        "identity": identity,
    }
    folder.mkdir(parents=True)
    where = RunFolder(folder)
    where.config.write_text(yaml.safe_dump(content, sort_keys=False))
    log = TraceLog(where.traces)
    log.refresh()
    for trace in traces:
        log.append(replace(trace, run_key=content["run_key"]))
    log.close()
    return folder


def answers(letters: str, *, minutes: Sequence[float] = (), **changes: Any) -> list[Trace]:
    """Direct answers with confidence 0.8, two questions a video; A is right."""
    return [
        trace(i, [direct_round(letter, 0.8)], minutes=minutes[i] if minutes else 1.0, **changes)
        for i, letter in enumerate(letters)
    ]


def planned_run(folder: Path, **settings: Any) -> Path:
    """Four questions: a confident native program; an unsure one refined from B to A; a failure refined to A;
    a confident wrong one. 100 tokens and 1.5 s a round, 0.25 s a question."""
    return write_run(
        folder,
        [
            trace(0, [program("A", 0.9, mode="native")], minutes=1.0),
            trace(1, [program("B", 0.5), program("A", 0.8, kind="program_refinement")], minutes=5.0),
            trace(2, [program(None), program("A", 0.95, kind="bug_fix")], minutes=5.0),
            trace(3, [program("B", 0.85)], minutes=20.0),
        ],
        method="videopro",
        **settings,
    )


# ---- agents ------------------------------------------------------------------------------------------------

INDEX = Preparation("index", "v0/clips", Cost(seconds=8.0, frames=40.0))
DATABASE = Preparation("database", "v0/captions", Cost(3.0, {}, 20.0, 10.0, 1000.0, 100.0))


def reply(kind: str = "predict", *, times: Sequence[float] = (), **changes: Any) -> Step:
    """A structured reply that could be read. One call, 10 tokens in and 2 out, half a second."""
    facts: dict[str, Any] = {
        "raw": "{}",
        "parsed": {"final_answer": "A"},
        "prompt": f"{kind}?",
        "frames": tuple((time, 8.0, 8.0) for time in times),
        "cost": Cost(0.5, {}, float(len(times)), 1.0, 10.0, 2.0),
        **changes,
    }
    return Step(kind, "llm", **facts)


def repaired(**changes: Any) -> Step:
    """A reply that could be read after one repair."""
    return reply(rejected=("no",), faults=("there is no JSON object",), **changes)


def unparsed(**changes: Any) -> Step:
    """A reply that could not be read, even after a repair."""
    return reply(parsed=None, rejected=("no",), faults=("no JSON", "no JSON either"), **changes)


def agent_trace(number: int, letter: str | None, steps: Sequence[Step], **changes: Any) -> Trace:
    """Question `number` (of video number // 2), whose right answer is A, as an agent answered it. A quarter
    of a second besides its steps; reused steps cost it nothing."""
    cost = sum((step.cost for step in steps if not step.is_reused), Cost())
    answer = Answer(letter, 0.0, {}, letter or "no idea")
    execution = Execution("ok" if letter else "empty", answer, steps=tuple(steps), cost=cost)
    return trace(number, [Round(AGENT, answer.raw, execution=execution)], **changes)


def agent_run(letters: str, **changes: Any) -> list[Trace]:
    """One readable reply a question, over four frames."""
    return [
        agent_trace(i, letter, [reply(times=(1, 2, 3, 4))], **changes) for i, letter in enumerate(letters)
    ]


def reused(step: Step) -> Step:
    """The step as a later question gets it."""
    return replace(step, is_reused=True)
