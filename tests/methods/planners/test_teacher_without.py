"""The pocket teacher where a whole group of modules is missing: it plans with what is there."""

from __future__ import annotations

import re

import pytest
from transformers import AutoTokenizer

from tests.support import reason_world as world
from tests.support.pocket_questions import CHOICES, QUESTIONS
from videopro.executor import parse_program, run
from videopro.modules import ModuleLibrary
from videopro.modules.calls import MODULES, CallCache
from videopro.modules.reference import api_reference, reference_text
from videopro.pocket import model_dir
from videopro.pocket.teacher import PocketTeacher
from videopro.pocket.teacher.teacher import functions_of
from videopro.question import Question, prompts

FAMILIES = ("retrieval", "localization", "extraction", "context")


def reference(without: str) -> str:
    return api_reference([module for module in MODULES.values() if module.family != without])


@pytest.mark.parametrize("group", FAMILIES)
def test_every_question_gets_a_program_of_what_is_there(group: str) -> None:
    there = set(functions_of(reference(group)))
    teacher = PocketTeacher(faults=0)
    for kind, text in QUESTIONS.items():
        question = Question(text, CHOICES)
        written = teacher.plan(question, reference(group), adaptive=False).text
        better = teacher.refine(
            prompts.program_refinement(question, parse_program(written).code, reference=reference(group))
        ).text
        for reply in (written, better):
            program = parse_program(reply)
            assert program.well_formed, (kind, program.faults)
            assert program.mode == "program", kind
            assert set(program.calls) <= there, kind


def test_programs_for_a_missing_group_run() -> None:
    """With the real executor and modules, on the scenes of the tests, whose places are colours."""
    for group in FAMILIES:
        library = ModuleLibrary(world.context(without=(group,)), cache=CallCache())
        for kind, text in QUESTIONS.items():
            reply = PocketTeacher(faults=0).plan(Question(text, CHOICES), reference(group), adaptive=False)
            inputs = {"video": library.video, "question": text, "choices": list(CHOICES), "duration": 60.0}
            code = parse_program(reply.text).code
            outcome = run(code, library.functions(), inputs, prelude=library.prelude)
            assert outcome.status == "ok", (group, kind, outcome.log)


def test_a_small_model_has_its_words() -> None:
    """A word that the pocket model spells letter by letter is copied badly."""
    tokenizer = AutoTokenizer.from_pretrained(model_dir())
    for group in FAMILIES:
        text = reference_text("signatures", [m for m in MODULES.values() if m.family != group])
        for name in functions_of(text):
            assert len(tokenizer.tokenize(name)) == 1, name
        for question in QUESTIONS.values():
            plan = PocketTeacher(faults=0).plan(Question(question, CHOICES), text, adaptive=False).text
            planning = parse_program(plan).planning.replace(question, "")
            spelled = [token for token in tokenizer.tokenize(planning) if re.fullmatch("\u0120?[b-z]", token)]
            assert not spelled, (group, question, planning)
