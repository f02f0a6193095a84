"""The offline teacher of the pocket world: programs by kind of question, with faults, as a stand-in for the
large language model that taught the paper's planner (GPT-5, section 4).

As a planner it sees only the question, its choices and the API reference; as a refiner only the text of the
refinement prompt: it does not know what it wrote before or which fault it injected, and injects faults again,
though fewer. It sees no video, no script and no answer.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from videopro.cli import did_you_mean
from videopro.errors import ConfigError, QuestionError
from videopro.executor import parse_program
from videopro.methods.planners import Planner, PlannerReply, PlanRequest
from videopro.pocket.teacher.faults import SHARES, inject_fault
from videopro.pocket.teacher.logic import logic_variant
from videopro.pocket.teacher.programs import WAYS
from videopro.pocket.teacher.reading import ParsedQuestion, parse_question
from videopro.pocket.teacher.variants import ProgramVariant
from videopro.pocket.teacher.without import ways_without
from videopro.question import NATIVE_PROGRAM, Question
from videopro.traces import PLAN_KINDS

REFINED_SHARE = 0.3
"""The factor on `SHARES` for refinements: 12 % of refinements have a fault instead of 40 %."""
NATIVE = ProgramVariant("This needs one glance at the whole video.", NATIVE_PROGRAM)

GLANCE = ("weather", "main_place")
"""Kinds that any part of the video, or all of it at once, answers."""


class PocketTeacher(Planner):
    """An offline stand-in for the teacher that the paper asks, in the pocket world.

    `faults` scales the shares of its faults: 0 for none, 1 for those in `faults.SHARES`. `reads`: whether it
    parses a question's kind from its words, with a parser that knows how this world asks (`reading`); without
    it, every question has no kind, and is answered from the clips that its own words find. The difference is
    what that parser is worth. `reasons`: whether half of its first programs reason their letter (`logic`)."""

    name = "pocket-teacher"
    asks_model = False
    variants = {
        "unread": "the same without its reader of questions",
        "logic": "half of its first programs reason their letter",
        "faultless": "the same without its faults",
    }
    plans_open_questions = False
    reads_any_prompt = False

    @classmethod
    def named(cls, variant: str) -> Self:
        if variant and variant not in cls.variants:
            raise ConfigError(
                f"unknown planner '{cls.name}:{variant}'; "
                f"{did_you_mean(f'{cls.name}:{variant}', [f'{cls.name}:{each}' for each in cls.variants])}"
            )
        faults = float(variant != "faultless")
        return cls(faults=faults, reads=variant != "unread", reasons=variant == "logic")

    def __init__(self, *, faults: float = 1.0, reads: bool = True, reasons: bool = False) -> None:
        if not 0 <= faults <= 1:
            raise ValueError(f"faults is {faults}; it must lie in 0..1")
        self._faults = faults
        self._reads = reads
        self._reasons = reasons

    def identity(self) -> dict[str, object]:
        return {
            "planner": self.name,
            "version": 4,
            "faults": self._faults,
            "reads": self._reads,
            "reasons": self._reasons,
        }

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
        """A program for a question. `adaptive`: a single look if that is enough."""
        reading = self._read(question.text)
        glance = PlannerReply(_with_question(question.text, NATIVE).reply, notes={"fault": "none"})
        if adaptive and reading.kind in GLANCE:
            return glance
        variants = program_variants(reading, set(functions_of(reference)))
        if not variants:
            return glance
        rng = _rng("plan", question.text, *question.choices, reference, str(adaptive), str(seed))
        variant = variants[0]
        if self._reasons and rng.random() < 0.5:
            variant = logic_variant(reading) or variant
        return self._reply(_with_question(question.text, variant), question.text, rng, 1.0)

    def refine(self, prompt: str, *, seed: int = 0) -> PlannerReply:
        """A better program, from the text of a refinement prompt. Raises QuestionError for any other text."""
        read = read_refinement(prompt)
        variants = program_variants(self._read(read.question.text), set(functions_of(prompt)))
        if not variants:
            return PlannerReply(_with_question(read.question.text, NATIVE).reply, notes={"fault": "none"})
        rng = _rng("refine", prompt, str(seed))
        # A program that is known to have failed or been unsure is not tried again.
        tried = _canonical(read.program)
        untried = [variant for variant in variants if _canonical(variant.code) != tried]
        variant = (untried or variants)[0]
        diagnosed = ProgramVariant(f"{_diagnosis(read.log)} {variant.planning}", variant.code)
        question = read.question.text
        return self._reply(_with_question(question, diagnosed), question, rng, REFINED_SHARE)

    def _read(self, text: str) -> ParsedQuestion:
        return parse_question(text) if self._reads else ParsedQuestion("other", text)

    def _reply(
        self, variant: ProgramVariant, question: str, rng: random.Random, share: float
    ) -> PlannerReply:
        shares: Mapping[str, float] = {kind: part * share * self._faults for kind, part in SHARES.items()}
        fault = inject_fault(variant.code, question, rng, shares)
        if fault is None:
            return PlannerReply(variant.reply, notes={"fault": "none"})
        return PlannerReply(
            ProgramVariant(variant.planning, fault.code).reply,
            notes={"fault": fault.kind, "form": fault.form},
        )


def program_variants(reading: ParsedQuestion, modules: Collection[str]) -> list[ProgramVariant]:
    """The programs of several steps for a question, best first; `modules` are the available names."""
    ways = [
        *WAYS.get(reading.kind, ()),
        *ways_without(reading.kind, modules),
        *WAYS["other"],
        *ways_without("other", modules),
    ]
    variants = [way.write(reading) for way in ways]
    return [variant for variant in variants if variant.modules <= set(modules)]


def functions_of(reference: str) -> Iterator[str]:
    """Names of the functions in an API reference, or in a prompt that holds one: its lines "-
    `name(...)`".
    """
    for line in reference.split("\n"):
        head, bracket, _ = line.partition("(")
        if bracket and head.startswith("- `") and head[3:].isidentifier():
            yield head[3:]


def _with_question(question: str, variant: ProgramVariant) -> ProgramVariant:
    """The variant with a plan that repeats the question: a small model that learns from it learns to copy the
    question's words, which calls need."""
    return ProgramVariant(f"{question} {variant.planning}", variant.code)


@dataclass(frozen=True)
class ParsedRefinement:
    """The content of a refinement prompt."""

    question: Question
    program: str
    log: str


_REFINEMENT = re.compile(
    r"^Question: (?P<text>.*?)\nChoices:\n(?P<choices>.*?)\n\n(?:Buggy|Existing) program:\n<code>\n"
    r"(?P<program>.*?)\n</code>(?P<rest>.*)\Z",
    re.MULTILINE | re.DOTALL,
)


def read_refinement(prompt: str) -> ParsedRefinement:
    """The question, the program and the log in a prompt of `videopro.question.prompts`. Raises QuestionError
    for any other text."""
    # Only the part from the last question on: an API reference before it may contain anything.
    start = prompt.rfind("\nQuestion: ", 0, _program_start(prompt))
    match = _REFINEMENT.search(prompt, start + 1) if start >= 0 else None
    if match is None:
        raise QuestionError(f"This is not a refinement prompt: {prompt[:200]!r}")
    choices = re.split(r"^[A-J]\. ", match["choices"], flags=re.MULTILINE)[1:]
    _, _, log = match["rest"].partition("\nLog:\n")
    return ParsedRefinement(
        Question(match["text"], tuple(choice.rstrip("\n") for choice in choices)), match["program"], log
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
    """The failure named in a log's first line, in words for the plan."""
    first = log.strip().split("\n")[0]
    error, colon, _ = first.partition(":")
    if colon and error.isidentifier() and error[0].isupper():
        if error == "NotFoundError":
            return "The query found nothing: use other words."
        return f"The log says {error}: write it again without the error."
    return "The answer is unsure: look again."


# The reference's section on imports was added after runs were recorded, so it does not affect random draws.
_IMPORTS = re.compile(r"\n\n## What a program may import\n\n[^\n]*")


def _rng(*parts: str) -> random.Random:
    """A random generator that depends on these texts only, the same on every machine."""
    parts = tuple(_IMPORTS.sub("", part) for part in parts)
    return random.Random(hashlib.sha256(json.dumps(parts).encode()).digest())
