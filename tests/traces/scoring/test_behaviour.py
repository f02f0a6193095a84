"""The five classes of behaviour of Deep Video Discovery's Fig. 3, on hand-made sequences of tool calls."""

import pytest

from tests.support import traces
from videopro.errors import BackboneError
from videopro.question import Answer
from videopro.traces import AGENT, Execution, Failure, Round, Step, Trace
from videopro.traces.scoring import Behaviour, behaviour, behaviour_rows

TOOLS = {"g": "global_browse", "c": "clip_search", "f": "frame_inspect", "a": "answer"}


def steps(calls: str) -> tuple[Step, ...]:
    """g, c, f, a: tools; each follows a request to the language model."""
    return tuple(step for call in calls for step in (Step("act", "llm"), Step(TOOLS[call])))


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        # As the paper defines them in section 4.5.
        ("ga", "global_browse_only"),
        ("gcfa", "simple_action"),
        ("gccffa", "simple_action"),
        ("gcfcfcfa", "iterative_search"),
        ("gcffffa", "frame_inspect_trap"),
        ("gcccccccc", "clip_search_trap"),
        # Bounds: three in a row are no trap, and too many for a simple action.
        ("gcccfa", "iterative_search"),
        ("gcfffa", "iterative_search"),
        ("gccccfa", "clip_search_trap"),
        # Without Global Browse, or with one between: it is left out, but it ends a run.
        ("ca", "simple_action"),
        ("cgcfa", "simple_action"),
        ("ccgccfa", "iterative_search"),
        ("gga", "simple_action"),
        # A return from inspection to search.
        ("gfca", "iterative_search"),
        # Both traps: the longer one, then the first.
        ("ccccfffffa", "frame_inspect_trap"),
        ("ffffcccca", "frame_inspect_trap"),
        ("ccccffffa", "clip_search_trap"),
        ("a", None),
        ("", None),
    ],
)
def test_a_sequence_of_calls_has_a_class(calls: str, expected: Behaviour | None) -> None:
    assert behaviour(steps(calls)) == expected


def trace(calls: str, letter: str | None, **changes: object) -> Trace:
    execution = Execution("ok", Answer(letter), steps=steps(calls))
    return traces.make(
        calls, rounds=(Round(AGENT, "", execution=execution),), final=Answer(letter), selected=0, **changes
    )


def test_rows_give_ratio_steps_and_accuracy() -> None:
    """Gold is A. The steps count the requests for an action, which is one for each letter here."""
    run = [
        trace("ga", "A"),
        trace("gcfa", "A"),
        trace("gccffa", "B"),
        trace("ccccccccc", None),
        # Neither is in the figure: no steps, or an error in the middle.
        traces.make("none"),
        trace("gc", None, error=Failure(BackboneError.__name__, "gone")),
    ]
    rows = behaviour_rows(run)
    found = [(row.behaviour, row.questions, row.ratio, row.steps, row.accuracy) for row in rows]
    assert found == [
        ("global_browse_only", 1, 0.25, 2.0, 1.0),
        ("simple_action", 2, 0.5, 5.0, 0.5),
        ("clip_search_trap", 1, 0.25, 9.0, 0.0),
    ]
    # Without a known answer there is no accuracy, and without a run no row.
    (row,) = behaviour_rows([trace("a", "A", gold=None)])
    assert (row.behaviour, row.questions, row.accuracy) == (None, 1, None)
    assert behaviour_rows(()) == []
