"""What the accuracy leaves out, and why: only what shows without a program."""

from tests.support.traces import make
from videopro.question import NO_OPTION, Answer
from videopro.traces import Execution, Failure, Round, Trace
from videopro.traces.scoring import accuracy, exclusions, exclusions_text, records_of


def ended(question_id: str, kind: str) -> Trace:
    return make(question_id, error=Failure(kind, "why"), final=None)


def test_each_question_left_out_has_its_reason() -> None:
    failed = Execution("failed", error=Failure("CallError", "crop() could not be served"))
    traces = [
        make("right", final=Answer("A", 0.9)),
        # A program's own request, a refused one, a dead worker, an exception that an agent may have caused.
        make("call", rounds=(Round("plan", "", "x", failed),), final=Answer(None)),
        *(ended(kind, kind) for kind in ("BackboneError", "WorkerDied", "UnexpectedError")),
        *(ended(kind, kind) for kind in ("VideoError", "SubtitleError", "NativeError")),
        make("secret", gold=None),
        make("none of them", gold=NO_OPTION),
        make("in words", gold=None, choices=(), reference="a lamp"),
    ]
    found = accuracy(records_of(traces))
    assert (found.n, found.accuracy) == (5, 1 / 5)
    left_out = exclusions(traces)
    each = ("VideoError", "SubtitleError", "NativeError", "no known answer", "no right option")
    assert left_out == dict.fromkeys(each, 1)
    assert exclusions_text(left_out).startswith("1 VideoError, 1 SubtitleError, ")
    # Every question is scored, left out, or open.
    assert found.n + sum(left_out.values()) + 1 == len(traces)
    assert exclusions([make("q")]) == {}
