"""A small trace, to be varied: `make` one with other fields, or one that is `asking` with a long prompt."""

from dataclasses import replace

from videopro.question import Answer, Question
from videopro.traces import SCHEMA, Call, Cost, Execution, Failure, Round, Trace, VideoRef, recorded_prompt

QUESTION = Question("Which?", ("a", "b"))
BLOCK = "Question: Which?\nChoices:\nA. a\nB. b"
"""The question as a planner is asked it."""
# Of 206 characters, the least of which one is stored by itself being 200.
HEAD = "Write. " * 29 + "\n\n\n"


def make(question_id: str = "q1", **changes: object) -> Trace:
    frames = ((1.5, 48.0, 64.0), (2.0, 48.0, 64.0, 0.0, 0.0, 0.5, 1.0))
    calls = (Call("query", {"k": [1, 2]}, "B", frames),)
    failed = Execution(
        "failed", error=Failure("NameError", "x", 1, "log"), calls=calls, cost=Cost(seconds=0.5)
    )
    trace = Trace(
        schema=SCHEMA,
        run_key="abc",
        question_id=question_id,
        video=VideoRef("v.mp4", "v", "hash", 12.5),
        question="Which?\u2028 «größer»",
        choices=("a", "b"),
        gold="A",
        groups={"family": "count"},
        rounds=(Round("refine", "<code>\nx\n</code>", "x", failed),),
        first=Answer("B", 0.25, {"A": 0.1, "B": 0.25}, "B"),
        final=Answer(None, 0.0, {"A": 0.1, "B": 0.2}, "Hmm"),
        cost=Cost(1.5, {"decode": 1.0}, 4, 2, 100, 3),
        versions={"videopro": "0"},
    )
    return replace(trace, **changes)


def asking(question_id: str, head: str = HEAD) -> Trace:
    """A trace with a prompt that begins with `head`."""
    return make(question_id, rounds=(Round("plan", "", prompt=recorded_prompt(head + BLOCK, QUESTION)),))
