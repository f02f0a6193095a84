"""The offline teacher of the pocket world: programs by kind of question, with mistakes, as a stand-in for the
large language model that taught the paper's (GPT-5, section 4).

As a planner it sees the question, its choices and the API reference, and nothing else; as a refiner the text
of the refinement prompt, and nothing else: it does not know what it wrote before or which fault it put there,
and errs again, though less. It reads no video, no script and no answer.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from videopro.errors import QuestionError
from videopro.planners import PLAN_KINDS, Planner, PlannerReply, PlanRequest
from videopro.pocket.teacher.faults import SHARES, inject_fault
from videopro.pocket.teacher.programs import GLANCE, NATIVE, ProgramVariant, functions_of, program_variants
from videopro.pocket.teacher.reading import ParsedQuestion, parse_question
from videopro.program import parse_program
from videopro.question import Question

REFINED_SHARE = 0.3
"""How much of `SHARES` a refinement's own faults come with: 12 % of refinements instead of 40 %."""


class PocketTeacher(Planner):
    """Writes what the paper's teacher would.

    `faults` scales the shares of its faults: 0 makes none, 1 those of `pocket_faults.SHARES`. `reads`:
    whether it reads a question's kind off its words, by a reader that knows how this world asks
    (`pocket_reading`); without, every question is of no kind, and is answered from the clips that its own
    words find. The difference is what that reader is worth."""

    name = "pocket-teacher"
    asks_model = False

    def __init__(self, *, faults: float = 1.0, reads: bool = True) -> None:
        if not 0 <= faults <= 1:
            raise ValueError(f"faults is {faults}; it must lie in 0..1")
        self._faults = faults
        self._reads = reads

    def identity(self) -> dict[str, object]:
        # Left out where it reads, so that older runs keep their keys.
        reads = {} if self._reads else {"reads": False}
        return {"planner": self.name, "version": 4, "faults": self._faults, **reads}

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        return [
            self.plan(
                request.question, request.api_reference, adaptive=request.kind == "plan", seed=request.seed
            )
            if request.kind in PLAN_KINDS
            else self.refine(request.prompt, seed=request.seed)
            for request in requests
        ]

    def plan(self, question: Question, reference: str, *, adaptive: bool, seed: int = 0) -> PlannerReply:
        """A program for a question. `adaptive`: a single look where that is enough."""
        reading = self._read(question.text)
        glance = PlannerReply(_for(question.text, NATIVE).reply, notes={"fault": "none"})
        if adaptive and reading.kind in GLANCE:
            return glance
        found = program_variants(reading, set(functions_of(reference)))
        if not found:
            return glance
        rng = _rng("plan", question.text, *question.choices, reference, str(adaptive), str(seed))
        return self._reply(_for(question.text, found[0]), question.text, rng, 1.0)

    def refine(self, prompt: str, *, seed: int = 0) -> PlannerReply:
        """A better program, from the text of a refinement prompt. QuestionError for a text that is none."""
        read = read_refinement(prompt)
        found = program_variants(self._read(read.question.text), set(functions_of(prompt)))
        if not found:
            return PlannerReply(_for(read.question.text, NATIVE).reply, notes={"fault": "none"})
        rng = _rng("refine", prompt, str(seed))
        # What was tried in the same words and failed or was unsure is not tried again.
        tried = _canonical(read.program)
        untried = [way for way in found if _canonical(way.code) != tried]
        way = (untried or found)[0]
        diagnosed = ProgramVariant(f"{_diagnosis(read.log)} {way.planning}", way.code)
        return self._reply(_for(read.question.text, diagnosed), read.question.text, rng, REFINED_SHARE)

    def _read(self, text: str) -> ParsedQuestion:
        return parse_question(text) if self._reads else ParsedQuestion("other", text)

    def _reply(self, way: ProgramVariant, question: str, rng: random.Random, share: float) -> PlannerReply:
        shares: Mapping[str, float] = {kind: part * share * self._faults for kind, part in SHARES.items()}
        fault = inject_fault(way.code, question, rng, shares)
        if fault is None:
            return PlannerReply(way.reply, notes={"fault": "none"})
        return PlannerReply(
            ProgramVariant(way.planning, fault.code).reply, notes={"fault": fault.kind, "form": fault.form}
        )


def _for(question: str, way: ProgramVariant) -> ProgramVariant:
    """The way with a plan that says the question again: a small model that learns from it learns to copy the
    question's words, and calls need them."""
    return ProgramVariant(f"{question} {way.planning}", way.code)


@dataclass(frozen=True)
class ParsedRefinement:
    """What a refinement prompt says."""

    question: Question
    program: str
    log: str


_SHOWN = re.compile(
    r"^Question: (?P<text>.*?)\nChoices:\n(?P<choices>.*?)\n\n(?:Buggy|Existing) program:\n<code>\n"
    r"(?P<program>.*?)\n</code>(?P<rest>.*)\Z",
    re.MULTILINE | re.DOTALL,
)


def read_refinement(prompt: str) -> ParsedRefinement:
    """The question, the program and the log in a prompt of `videopro.prompts`. QuestionError for a text that
    holds none."""
    # Only the part from the last question on: an API reference before it may say anything.
    start = prompt.rfind("\nQuestion: ", 0, _program_start(prompt))
    found = _SHOWN.search(prompt, start + 1) if start >= 0 else None
    if found is None:
        raise QuestionError(f"This is no prompt for a refinement: {prompt[:200]!r}")
    choices = re.split(r"^[A-J]\. ", found["choices"], flags=re.MULTILINE)[1:]
    _, _, log = found["rest"].partition("\nLog:\n")
    return ParsedRefinement(
        Question(found["text"], tuple(choice.rstrip("\n") for choice in choices)), found["program"], log
    )


def _program_start(prompt: str) -> int:
    starts = [
        at for name in ("Buggy", "Existing") if (at := prompt.find(f"\n{name} program:\n<code>\n")) >= 0
    ]
    return min(starts, default=0)


@lru_cache(maxsize=4096)
def _canonical(code: str) -> str:
    return parse_program(f"<code>\n{code}\n</code>").canonical


def _diagnosis(log: str) -> str:
    """What a log's first line says went wrong, in words for the plan."""
    first = log.strip().split("\n")[0]
    error, colon, _ = first.partition(":")
    if colon and error.isidentifier() and error[0].isupper():
        if error == "NotFoundError":
            return "The query found nothing: use other words."
        return f"The log says {error}: write it again without the error."
    return "The answer is unsure: look again."


# A reference's words on imports, which came after runs were recorded: they decide nothing of chance.
_IMPORTS = re.compile(r"\n\n## What a program may import\n\n[^\n]*")


def _rng(*parts: str) -> random.Random:
    """A source of chance that depends on these texts alone, the same on every machine."""
    parts = tuple(_IMPORTS.sub("", part) for part in parts)
    return random.Random(hashlib.sha256(json.dumps(parts).encode()).digest())
