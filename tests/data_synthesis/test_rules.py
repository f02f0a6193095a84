"""R1 to R4 on hand-made records: every rule, every tie, every edge. Expected rows are written out by hand."""

from typing import Any

import pytest

from tests.support.synthesis import CHOICES, answered, code, crashed, native, program, record, written
from videopro.data_synthesis.rules import (
    NATIVE_REPLY,
    GRPOTask,
    Trajectory,
    grpo_tasks,
    select_trajectories,
    trace_oracle_mode,
)
from videopro.executor import parse_program
from videopro.question import Question, prompts
from videopro.traces import Execution, Failure, Round, Trace

QUESTION = Question("Which colour is shown?", CHOICES)
PLAN = prompts.plan(QUESTION, adaptive=True)
TAU = 0.75


def rows(trace: Trace) -> list[Trajectory]:
    return select_trajectories(trace, TAU)[0]


def kinds(trace: Trace) -> list[str]:
    return [row.kind for row in rows(trace)]


def rejected(trace: Trace) -> dict[str, int]:
    return dict(select_trajectories(trace, TAU)[1])


def single(kind: str, confidence: float, refines: int | None = None) -> Round:
    """A look at the whole where a program was asked for."""
    look = answered("A", confidence)
    return program(look, kind=kind, refines=refines, text=prompts.NATIVE_PROGRAM, mode="native")


@pytest.mark.parametrize("confidence", [0.75, 0.7500001, 1.0])
def test_r1_right_and_confident_teaches_the_native_program(confidence: float) -> None:
    """At tau itself too; a right program beside it changes nothing."""
    trace = record(native("A", confidence), program(answered("A", 0.99)))
    (row,) = rows(trace)
    assert (row.kind, row.mode, row.prompt, row.reply) == ("native", "native", PLAN, NATIVE_REPLY)
    assert trace_oracle_mode(trace, TAU) == "native"
    program_ = parse_program(row.reply)
    assert (program_.mode, program_.well_formed) == ("native", True)


@pytest.mark.parametrize(
    ("letter", "confidence"), [("A", 0.7499999), ("A", 0.0), ("B", 0.75), ("B", 1.0), (None, 0.0)]
)
def test_an_unsure_or_wrong_answer_is_no_r1_example(letter: str | None, confidence: float) -> None:
    """A wrong native answer is never a target, however confident."""
    trace = record(native(letter, confidence))
    assert rows(trace) == []
    assert trace_oracle_mode(trace, TAU) == "program"
    assert rejected(trace) == {"question: neither a confident native answer nor a right program": 1}


def test_an_option_with_the_right_ones_words_is_right() -> None:
    """D has the words of A: as a confident native answer, one look was enough; in a program, it is right."""
    twins = ("red", "green", "blue", "red")
    assert kinds(record(native("D", 0.9), choices=twins)) == ["native"]
    assert kinds(record(native("B", 0.9), program(answered("D", 0.6)), choices=twins)) == ["program"]
    assert kinds(record(native("B", 0.9), program(answered("C", 0.6)), choices=twins)) == []


def test_r2_takes_the_most_confident_right_program() -> None:
    trace = record(
        native("B", 0.9),
        program(answered("A", 0.3), 2),
        program(answered("A", 0.6), 3),
        program(answered("B", 0.95), 4),
        program(crashed(), 5),
    )
    (row,) = rows(trace)
    assert (row.kind, row.mode, row.prompt) == ("program", "program", PLAN)
    assert (row.reply, row.position) == (written(code(3)), 2)
    assert rejected(trace) == {
        "R2: right, and another was more confident": 1,
        "R2: wrong answer": 1,
        "R2: failed (NameError)": 1,
    }
    # Among equals the earliest; and an unsure one counts if it was right.
    (row,) = rows(record(native("A", 0.5), program(answered("A", 0.01), 2), program(answered("A", 0.01), 3)))
    assert (row.kind, row.reply) == ("program", written(code(2)))


@pytest.mark.parametrize(
    ("unfit", "why"),
    [
        (program(answered("B", 0.9)), "wrong answer"),
        (program(answered(None, 0.0)), "gave no answer"),
        (program(crashed("TimeLimit", "TimeLimitError")), "failed (TimeLimitError)"),
        # It states a letter that no look at the video gave.
        (program(answered("A", 0.0)), "right, but no answering call said so"),
        (single("plan_program", 0.9), "a single look where several steps were asked for"),
        (
            program(answered("A", 0.9), raw=f"<code>\n{code()}\n</code>"),
            "not well-formed: There is no planning between <planning> and </planning>.",
        ),
        (program(answered("A", 0.9), text="import os\n" + code()), "not well-formed: It imports os."),
        (program(None, raw="", notes={"refused": "too long"}), "the teacher gave no text"),
        (program(crashed(), raw="No idea."), "no program in the reply"),
        (program(answered("A", 0.9), notes={"same as": "1"}), "the same program again"),
    ],
)
def test_r2_rejected_targets_are_counted(unfit: Round, why: str) -> None:
    trace = record(native("B", 0.5), unfit)
    assert rows(trace) == []
    assert rejected(trace) == {
        f"R2: {why}": 1,
        "question: neither a confident native answer nor a right program": 1,
    }


def test_r2_missing_tags_around_the_code_are_added() -> None:
    """The planning and the program are the teacher's; the tags are added."""
    fenced = f"<planning>\nLook.\n</planning>\n```python\n{code()}\n```"
    (row,) = rows(record(native("B", 0.5), program(answered("A", 0.9), raw=fenced)))
    assert row.reply == written(code(), "Look.")


def test_always_program_adds_the_best_program_of_a_question_that_one_look_answers() -> None:
    """Under the prompt that asks for a program; where the adaptive prompt has a program already, nothing."""
    easy = record(native("A", 0.9), program(answered("A", 0.3), 2), program(answered("A", 0.6), 3))
    adaptive, always = select_trajectories(easy, TAU, always_program=True)[0]
    assert (adaptive.kind, adaptive.mode, adaptive.prompt) == ("native", "native", PLAN)
    assert (always.kind, always.mode, always.prompt, always.reply, always.position) == (
        *("plan_program", "program", prompts.plan(QUESTION, adaptive=False)),
        *(written(code(3)), 2),
    )
    hard = record(native("B", 0.9), program(answered("A", 0.6), 2))
    assert select_trajectories(hard, TAU, always_program=True) == select_trajectories(hard, TAU)
    # Without a right program the native row stands alone, and no question is lost.
    only_native = record(native("A", 0.9), program(answered("B", 0.6)))
    alone, why = select_trajectories(only_native, TAU, always_program=True)
    assert ([row.kind for row in alone], dict(why)) == (["native"], {"R2: wrong answer": 1})


def fixed(after: Execution, number: int = 7, **more: Any) -> Round:
    return program(after, number, kind="bug_fix", refines=1, **more)


def test_r3_pairs_a_failure_and_its_log_with_the_fix() -> None:
    failed, repaired = program(crashed("NameError: no frames")), fixed(answered("A", 0.2))
    (row,) = rows(record(native("B", 0.9), failed, repaired))
    assert (row.kind, row.mode, row.reply, row.position) == ("bug_fix", "program", written(code(7)), 2)
    assert row.prompt == prompts.bug_fix(QUESTION, code(2), "NameError: no frames")
    assert kinds(record(native("A", 0.9), failed, repaired)) == ["native", "bug_fix"], "beside R1"


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (crashed(), crashed(type="IndexError"), "failed (IndexError)"),
        (crashed(), answered("B", 0.9), "wrong answer"),
        (crashed(), answered(None, 0.0), "gave no answer"),
        (crashed(), answered("A", 0.0), "right, but no answering call said so"),
        (crashed(log=""), answered("A", 0.9), "the failure left no log"),
        (crashed(log=" \n"), answered("A", 0.9), "the failure left no log"),
    ],
)
def test_r3_rejected_repairs_are_counted(before: Execution, after: Execution, why: str) -> None:
    trace = record(native("B", 0.9), program(before), fixed(after))
    assert rows(trace) == []
    assert rejected(trace)[f"R3: {why}"] == 1


def test_r3_and_r4_may_give_up_for_one_look_only_where_one_look_is_enough() -> None:
    fix, look = single("bug_fix", 0.9, refines=1), single("native_refinement", 0.6, refines=0)
    assert kinds(record(native("A", 0.9), program(crashed()), fix)) == ["native", "bug_fix"]
    for trace, rule in (
        (record(native("A", 0.5), program(crashed()), fix), "R3"),
        (record(native("A", 0.5), look), "R4"),
    ):
        assert rows(trace) == []
        assert rejected(trace)[f"{rule}: a single look, which is unsure or wrong for this question"] == 1


def test_r3_takes_each_repair_of_a_program_once() -> None:
    """Comments, blank lines and quotes do not make another program."""
    again = fixed(answered("A", 0.9), notes={"same as": "2"})
    trace = record(native("B", 0.9), program(crashed()), fixed(answered("A", 0.9)), again)
    assert [(row.kind, row.position) for row in rows(trace)] == [("bug_fix", 2)]
    assert rejected(trace)["bug_fix: the same program again"] == 1
    other = fixed(answered("A", 0.9), text=code(7).replace("    return", "    # and now\n\n    return"))
    once = record(native("B", 0.9), program(crashed()), fixed(answered("A", 0.9)), other)
    assert kinds(once) == ["bug_fix"]


@pytest.mark.parametrize(
    ("before", "after", "taken"),
    [
        (("B", 0.9), ("A", 0.1), True),  # wrong though confident
        (("B", 0.3), ("A", 0.1), True),
        ((None, 0.0), ("A", 0.1), True),
        (("A", 0.5), ("A", 0.6), True),  # right and unsure, then more confident
        (("A", 0.5), ("A", 0.5), False),
        (("A", 0.5), ("A", 0.4), False),
        (("A", 0.5), ("B", 0.9), False),
        (("A", 0.75), ("A", 0.9), False),  # not needed: at tau is confident
    ],
)
@pytest.mark.parametrize("kind", ["native_refinement", "program_refinement"])
def test_r4_takes_what_corrected_an_answer(
    kind: str, before: tuple[str | None, float], after: tuple[str, float], taken: bool
) -> None:
    refined = program(answered(*after), 7, kind=kind, refines=0 if kind[0] == "n" else 1)
    if kind == "native_refinement":
        trace = record(native(*before), refined)
        shown = prompts.native_refinement(QUESTION, prompts.NATIVE_PROGRAM)
    else:
        # The native answer is fine, so that only the program's own story counts.
        trace = record(native("A", 0.9), program(answered(*before)), refined)
        shown = prompts.program_refinement(QUESTION, code(2))
    found = [row for row in rows(trace) if row.kind == kind]
    expected = [(shown, written(code(7)), "program")] if taken else []
    assert [(row.prompt, row.reply, row.mode) for row in found] == expected


def test_no_example_without_a_known_answer_or_with_an_error() -> None:
    broken = record(error=Failure("VideoError", "gone"))
    unlabelled = record(native("A", 0.9), program(answered("A", 0.9)), gold=None)
    for trace, why in ((broken, "question: VideoError"), (unlabelled, "question: no known answer")):
        assert rows(trace) == []
        assert grpo_tasks(trace, TAU) == []
        assert rejected(trace) == {why: 1}
    with pytest.raises(ValueError, match="the native answer or the right letter is missing"):
        trace_oracle_mode(unlabelled, TAU)


def test_tasks_are_every_prompt_that_inference_would_meet() -> None:
    trace = record(
        native("B", 0.9),
        program(crashed("Log."), 2),
        program(answered("A", 0.9), 3),
        program(answered("A", 0.74), 4),
        program(answered("B", 0.9), 5),
        program(crashed("Log."), 2, notes={"same as": "1"}),
        program(crashed(), raw="No idea.", text=""),
        program(answered("B", 0.1), text=prompts.NATIVE_PROGRAM, mode="native"),
        # Of a refinement nothing more is asked: inference refines once.
        program(crashed("Other log."), 8, kind="bug_fix", refines=1),
    )
    assert grpo_tasks(trace, TAU) == [
        GRPOTask("plan", PLAN),
        GRPOTask(
            "native_refinement",
            prompts.native_refinement(QUESTION, prompts.NATIVE_PROGRAM),
            prompts.NATIVE_PROGRAM,
        ),
        GRPOTask("bug_fix", prompts.bug_fix(QUESTION, code(2), "Log."), code(2), "Log.", 1),
        GRPOTask("program_refinement", prompts.program_refinement(QUESTION, code(4)), code(4), "", 3),
        GRPOTask("program_refinement", prompts.program_refinement(QUESTION, code(5)), code(5), "", 4),
    ]
    # A confident native answer leaves the plan alone.
    assert [task.kind for task in grpo_tasks(record(native("A", 0.75)), TAU)] == ["plan"]
