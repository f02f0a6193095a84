"""R1 to R4: which replies to a question become supervision (sections 3.6 and A.2).

    R1  the native answer is right and confident            -> the native program
    R2  otherwise                                           -> a program of several steps that was right
    R3  a program that failed, with its log                 -> its refinement that ran and was right
    R4  an answer, native or of a program, wrong or unsure  -> its refinement that corrected it

The adaptive prompt alone never shows a planner what to write when a program is required for every question
(`--method program`): with `always_program` the questions of R1 give a row with that prompt too.

Pure functions of a trace and tau: nothing here runs a program or queries a teacher. A correct answer counts
only if an answering call gave it (confidence above 0): a program that states a letter itself did not look at
the video, and was correct by chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from videopro.executor import Program, parse_program
from videopro.methods.planners import PromptFile
from videopro.methods.program import Refinement, refinement_kind, refinement_prompt
from videopro.question import Question, prompts
from videopro.traces import Execution, PromptKind, Round, Trace, is_confident, scoring
from videopro.traces.scoring import Mode

TrajectoryKind = Literal[
    "native", "program", "plan_program", "bug_fix", "native_refinement", "program_refinement"
]

RULES: Mapping[str, tuple[TrajectoryKind, ...]] = {
    "R1": ("native",),
    "R2": ("program", "plan_program"),
    "R3": ("bug_fix",),
    "R4": ("native_refinement", "program_refinement"),
}
"""The kinds of rows that each rule gives."""

NATIVE = 0
"""The index of the native answer in a trace's rounds; programs come after it, then refinements."""
PLAN: PromptKind = "plan_program"
"""The first prompt for the teacher: several steps. R1 decides whether a single look is enough."""
NATIVE_REPLY = (
    "<planning>\nThis needs one glance at the whole video.\n</planning>\n"
    f"<code>\n{prompts.NATIVE_PROGRAM}\n</code>"
)
"""The reply that R1 teaches."""
REFUSED = "refused"
"""The note on a round for which the teacher returned no text; its value is the reason."""
SAME_AS = "same as"
"""The note on a round with the same program as an earlier round of its question; its value is that index."""


@dataclass(frozen=True)
class Trajectory:
    """One example: a prompt as in inference, and the reply to learn."""

    kind: TrajectoryKind
    mode: Mode
    """Of the program in the reply."""
    prompt: str
    reply: str
    target: str
    """Canonical form of the program in the reply."""
    prompt_program: str = ""
    """Canonical form of the program in the prompt, for refinements."""
    position: int = NATIVE
    """Of the reply in the trace's rounds."""


@dataclass(frozen=True)
class GRPOTask:
    """A prompt for GRPO, as in inference, and what its reward needs to know about it."""

    kind: Literal["plan"] | Refinement
    prompt: str
    program: str = ""
    log: str = ""
    position: int = NATIVE
    """Of what is refined, in the trace's rounds."""


def question_of(trace: Trace) -> Question:
    """The question as asked."""
    return Question(trace.question, trace.choices)


def trace_oracle_mode(trace: Trace, tau: float) -> Mode:
    """m* of A.3: native if the native answer is correct and confident. Raises ValueError for a trace without
    a correct letter or a native answer."""
    return scoring.oracle_mode(_native(trace), trace.right, tau)


def refinement_needed(round: Round, right: Collection[str], tau: float) -> Refinement | None:
    """The refinement that this round calls for, given the correct letters: of a failure, or of a wrong or
    unsure answer. None for a round that needs none, was not run, or repeats an earlier program."""
    execution = round.execution
    if execution is None or SAME_AS in round.notes:
        return None
    if execution.status == "failed":
        # A reply without a program leaves nothing to fix.
        # What a program without a mode asked for is unknown; several steps are the teacher's task.
        return refinement_kind(execution, round.mode or "program") if round.program else None
    if is_confident(execution, tau) and execution.answer.letter in right:
        return None
    if round.prompt_kind != "native" and round.mode != "program":
        # A program with a single look repeats the native answer.
        return None
    return refinement_kind(execution, "native" if round.prompt_kind == "native" else "program")


def refined_program(round: Round) -> str:
    """The program that a refinement of this round shows."""
    return prompts.NATIVE_PROGRAM if round.prompt_kind == "native" else round.program or ""


def execution_log(round: Round) -> str:
    """The log in a failed program's refinement prompt; blank for a program that did not fail."""
    failed = round.execution is not None and round.execution.status == "failed"
    error = round.execution.error if failed and round.execution is not None else None
    return error.log if error is not None else ""


def shown_prompt(
    kind: Refinement, question: Question, round: Round, *, reference: str = "", file: PromptFile | None = None
) -> str:
    """The prompt for a refinement of this round. `file`: custom prompts."""
    program, log = refined_program(round), execution_log(round)
    if file is None:
        return refinement_prompt(kind, question, program, log=log, reference=reference)
    assert round.execution is not None
    answer = round.execution.answer
    return file.fill(
        kind,
        question,
        reference=reference,
        program=program,
        log=log,
        answer=answer.letter,
        confidence=answer.confidence,
    )


def _plan(question: Question, kind: PromptKind, file: PromptFile | None, reference: str) -> str:
    if file is not None:
        return file.fill(kind, question, reference=reference)
    return prompts.plan(question, adaptive=kind == "plan", reference=reference)


def select_trajectories(
    trace: Trace,
    tau: float,
    *,
    always_program: bool = False,
    file: PromptFile | None = None,
    reference: str = "",
) -> tuple[list[Trajectory], Counter[str]]:
    """The examples of a trace, and what was rejected, by reason. `always_program`: for a question of R1 also
    the best correct program of several steps, with the prompt that asks for one. `file`: the user's prompts
    in place of ours. `reference`: what prompts say of the modules."""
    rejected: Counter[str] = Counter()
    if trace.error is not None:
        rejected[f"question: {trace.error.type}"] += 1
        return [], rejected
    if trace.gold is None:
        rejected["question: no known answer"] += 1
        return [], rejected
    rows = [
        *_first(trace, tau, always_program, rejected, file, reference),
        *_refinements(trace, tau, rejected, file, reference),
    ]
    return _without_repeats(rows, rejected), rejected


def grpo_tasks(
    trace: Trace, tau: float, *, file: PromptFile | None = None, reference: str = ""
) -> list[GRPOTask]:
    """The prompts for GRPO about a trace: a plan, and every refinement that its executions call for, each
    shown program once. `file`: the user's prompts in place of ours. `reference`: what prompts say of the
    modules."""
    if trace.error is not None or trace.gold is None:
        return []
    question = question_of(trace)
    tasks = [GRPOTask("plan", _plan(question, "plan", file, reference))]
    seen: set[tuple[str, str]] = set()
    for position, round in enumerate(trace.rounds):
        kind = refinement_needed(round, trace.right, tau) if round.refines is None else None
        if kind is None:
            continue
        program, log = refined_program(round), execution_log(round)
        # Without a log there is nothing to fix the program by.
        if kind == "bug_fix" and not log.strip():
            continue
        key = (kind, _canonical(program))
        if key not in seen:
            seen.add(key)
            prompt = shown_prompt(kind, question, round, reference=reference, file=file)
            tasks.append(GRPOTask(kind, prompt, program, log if kind == "bug_fix" else "", position))
    return tasks


# ---- R1 and R2 ---------------------------------------------------------------------------------------------


def _first(
    trace: Trace,
    tau: float,
    always_program: bool,
    rejected: Counter[str],
    file: PromptFile | None,
    reference: str,
) -> Iterator[Trajectory]:
    question = question_of(trace)
    prompt = _plan(question, "plan", file, reference)
    kind: TrajectoryKind = "program"
    if trace_oracle_mode(trace, tau) == "native":
        yield Trajectory("native", "native", prompt, NATIVE_REPLY, _canonical(prompts.NATIVE_PROGRAM))
        if not always_program:
            return
        prompt, kind = _plan(question, "plan_program", file, reference), "plan_program"
    best = _best_program(trace, rejected)
    if best is not None:
        position, program = best
        yield Trajectory(kind, "program", prompt, _reply(program), program.canonical, position=position)
    elif kind == "program":
        rejected["question: neither a confident native answer nor a right program"] += 1


def _best_program(trace: Trace, rejected: Counter[str]) -> tuple[int, Program] | None:
    """The most confident of the correct programs of several steps, the earliest of equals, and its index."""
    best: tuple[int, Program] | None = None
    confidence = 0.0
    for position, round in enumerate(trace.rounds):
        if round.prompt_kind != PLAN:
            continue
        program = parse_program(round.raw)
        reason = _unfit(round, program, trace.right)
        if reason is None and program.mode == "native":
            reason = "a single look where several steps were asked for"
        if reason is not None:
            rejected[f"R2: {reason}"] += 1
            continue
        assert round.execution is not None
        # Only the best becomes a row, so each other right program is counted as rejected.
        if best is not None:
            rejected["R2: right, and another was more confident"] += 1
        if best is None or round.execution.answer.confidence > confidence:
            best, confidence = (position, program), round.execution.answer.confidence
    return best


# ---- R3 and R4 ---------------------------------------------------------------------------------------------


def _refinements(
    trace: Trace, tau: float, rejected: Counter[str], file: PromptFile | None, reference: str
) -> Iterator[Trajectory]:
    question = question_of(trace)
    native_is_fine = trace_oracle_mode(trace, tau) == "native"
    for position, round in enumerate(trace.rounds):
        if round.refines is None:
            continue
        before = trace.rounds[round.refines]
        kind = refinement_needed(before, trace.right, tau)
        if kind is None:
            continue
        rule = "R3" if kind == "bug_fix" else "R4"
        program = parse_program(round.raw)
        reason = _unfit(round, program, trace.right)
        if reason is None and program.mode == "native" and not (kind == "bug_fix" and native_is_fine):
            reason = "a single look, which is unsure or wrong for this question"
        if reason is None and kind == "bug_fix" and not execution_log(before).strip():
            reason = "the failure left no log"
        if reason is None and rule == "R4" and not _corrects(before.execution, round.execution, trace.right):
            reason = "right before, and no more confident now"
        if reason is not None:
            rejected[f"{rule}: {reason}"] += 1
            continue
        program_before = refined_program(before)
        prompt = shown_prompt(kind, question, before, reference=reference, file=file)
        yield Trajectory(
            kind,
            program.mode,
            prompt,
            _reply(program),
            program.canonical,
            _canonical(program_before),
            position,
        )


def _corrects(before: Execution | None, after: Execution | None, right: Collection[str]) -> bool:
    """Whether an answer, known to be correct, is better than the one before: that was wrong or less
    confident."""
    assert before is not None
    assert after is not None
    return before.answer.letter not in right or after.answer.confidence > before.answer.confidence


# ---- shared ---------------------------------------------------------------------------------------


def _unfit(round: Round, program: Program, right: Collection[str]) -> str | None:
    """Why a reply is not a target; None for one that ran, looked at the video, and was correct."""
    execution = round.execution
    if REFUSED in round.notes:
        return "the teacher gave no text"
    if SAME_AS in round.notes and round.refines is None:
        return "the same program again"
    if execution is None or not program.code.strip():
        return "no program in the reply"
    if execution.status == "failed":
        return f"failed ({execution.error.type if execution.error else 'unknown'})"
    if execution.answer.letter is None:
        return "gave no answer"
    if execution.answer.letter not in right:
        return "wrong answer"
    # A letter that the program states itself has no confidence: it did not look.
    if execution.answer.confidence <= 0:
        return "right, but no answering call said so"
    # Missing tags are added; any other fault of form remains.
    faults = parse_program(_reply(program)).faults
    return f"not well-formed: {faults[0]}" if faults else None


def _reply(program: Program) -> str:
    """A program in the form in which the planner should write it."""
    return f"<planning>\n{program.planning}\n</planning>\n<code>\n{program.code}\n</code>"


def _canonical(code: str) -> str:
    return parse_program(f"<code>\n{code}\n</code>").canonical


def _without_repeats(rows: list[Trajectory], rejected: Counter[str]) -> list[Trajectory]:
    """The first of the rows with the same kind of prompt, shown program and written program."""
    seen: set[tuple[str, str, str]] = set()
    distinct = []
    for row in rows:
        key = (row.kind, row.prompt_program, row.target)
        if key in seen:
            rejected[f"{row.kind}: the same program again"] += 1
        else:
            seen.add(key)
            distinct.append(row)
    return distinct


def _native(trace: Trace) -> Execution:
    execution = trace.rounds[NATIVE].execution if trace.rounds else None
    if trace.gold is None or execution is None or trace.rounds[NATIVE].prompt_kind != "native":
        raise ValueError(f"question {trace.question_id!r}: the native answer or the right letter is missing")
    return execution
