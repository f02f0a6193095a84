"""A round of reasoning, for inference, synthesis and GRPO: its seed, record and cost, and which refinement a
program gets, with its prompt (section 3.5)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Literal

from videopro.executor import Program, parse_program
from videopro.methods.planners import PlannerReply, PlanRequest, PromptFile
from videopro.question import Answer, Question, prompts
from videopro.storage import stored_text
from videopro.traces import Cost, Execution, PromptKind, Round, recorded_prompt

# Characters of a planner's reply that count; more are cut, and the reply says so.
_REPLY_CHARS = 1 << 20


def derive_seed(*parts: object) -> int:
    """A seed in 0..2**31 - 1 from JSON-serializable parts. Recorded runs depend on these numbers."""
    digest = hashlib.sha256(json.dumps(list(parts)).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def prompt_seed(seed: int, kind: PromptKind, number: int, question: Question) -> int:
    """The seed of one planner request: from the run's seed, the kind of prompt, the request's number among
    those of its kind or round, and the text of the question.

    The same question gets the same seed in any order and on any machine. It depends only on what the
    prompt shows, so a seed cannot leak the answer.
    """
    return derive_seed(seed, kind, number, question.text, question.choices)


def round_from_reply(
    request: PlanRequest, reply: PlannerReply, *, seconds: float | None = None, refines: int | None = None
) -> tuple[Round, Program]:
    """The round of a reply to a request, before it is run, and the reply's program.

    `seconds`: wall time of generating the reply, recorded as stage "plan"; None if it was not measured.
    `refines`: index of the round that it refines (synthesis).
    """
    # No planner's tokens come to as much, but a server may send any text.
    text = reply.text if len(reply.text) <= _REPLY_CHARS else stored_text(reply.text, _REPLY_CHARS)
    program = parse_program(text)
    round = Round(
        request.kind,
        text,
        program.code or None,
        mode=program.mode if program.code.strip() else None,
        faults=program.faults,
        notes=dict(reply.notes),
        planning=Cost(
            0.0 if seconds is None else seconds,
            {} if seconds is None else {"plan": seconds},
            calls=reply.calls,
            tokens_in=reply.tokens_in,
            tokens_out=reply.tokens_out,
        ),
        refines=refines,
        prompt=recorded_prompt(request.prompt, request.question),
    )
    return round, program


def native_round(kind: str, question: Question, execution: Execution) -> Round:
    """The round of a direct answer (`answer_natively`)."""
    prompt = recorded_prompt(prompts.direct(question), question)
    return Round(kind, execution.answer.raw, execution=execution, mode="native", prompt=prompt)


def cost_of_rounds(rounds: Iterable[Round]) -> Cost:
    """The cost of planning and running all rounds."""
    cost = Cost()
    for round in rounds:
        cost += round.planning
        if round.execution is not None:
            cost += round.execution.cost
    return cost


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


def _shown_answer(question: Question, answer: Answer) -> str | None:
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
    result = ""
    if shows != "program":
        result = prompts.result_line(_shown_answer(question, answer), answer.confidence)
    if kind != "bug_fix" and shows != "log":
        log = ""
    return kind, refinement_prompt(kind, question, program.code, log=log, result=result, reference=reference)
