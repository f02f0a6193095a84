"""Which refinement a program gets, and its prompt (section 3.5), for inference, synthesis and GRPO."""

from __future__ import annotations

from typing import Literal

from videopro.executor import Program
from videopro.methods.planners import PromptFile
from videopro.question import Answer, Question, prompts
from videopro.traces import Execution

Refinement = Literal["bug_fix", "native_refinement", "program_refinement"]
"""A prompt kind of `videopro.methods.planners` that asks for a better program."""

RefinementShows = Literal["program", "result", "log"]
"""What the prompt shows of an unsure answer: only the program, also its result, or its result and log."""


def refinement_kind(execution: Execution, mode: Literal["native", "program"]) -> Refinement:
    """The refinement for a program of this mode: a failure gets a bug fix; an empty or unsure answer gets a
    native or program refinement, by the program's mode."""
    if execution.status == "failed":
        return "bug_fix"
    return "native_refinement" if mode == "native" else "program_refinement"


def refinement_prompt(
    kind: Refinement,
    question: Question,
    program: str,
    *,
    log: str = "",
    result: str = "",
    reference: str = "",
) -> str:
    """Our prompt that shows this program. `log`: the log of its run, always shown for a bug fix; `result`:
    its unsure answer in words; `reference`: the API reference, for planners that were not fine-tuned."""
    if kind == "bug_fix":
        return prompts.bug_fix(question, program, log, reference=reference)
    if kind == "native_refinement":
        return prompts.native_refinement(question, program, result=result, log=log, reference=reference)
    return prompts.program_refinement(question, program, result=result, log=log, reference=reference)


def shown_answer(question: Question, answer: Answer) -> str | None:
    """An answer as a refinement prompt shows it: a letter, or words in quotes; None if there is none."""
    if not question.is_open:
        return answer.letter
    text = " ".join(answer.raw.split())
    return f'"{text}"' if text else None


def build_refinement(
    question: Question,
    program: Program,
    execution: Execution,
    log: str,
    *,
    shows: RefinementShows = "program",
    reference: str = "",
    file: PromptFile | None = None,
) -> tuple[Refinement, str]:
    """The kind of refinement for this execution of the program, and its prompt. `log`: the execution's
    log; `file`: the user's prompts, whose slots replace `shows`."""
    kind = refinement_kind(execution, program.mode)
    answer = execution.answer
    if file is not None:
        prompt = file.fill(
            kind,
            question,
            reference=reference,
            program=program.code,
            log=log,
            answer=answer.letter,
            confidence=answer.confidence,
        )
        return kind, prompt
    result = (
        "" if shows == "program" else prompts.result_line(shown_answer(question, answer), answer.confidence)
    )
    if kind != "bug_fix" and shows != "log":
        log = ""
    return kind, refinement_prompt(kind, question, program.code, log=log, result=result, reference=reference)
