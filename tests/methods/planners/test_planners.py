"""Planners: the teacher, its faults and fixes; the API teacher over real HTTP; the backbone itself."""

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support import scenes as world
from tests.support.scenes import SceneBackbone
from tests.support.server_cases import without_waiting
from tests.support.stub_server import StubFault, StubServer, completion
from videopro.backbones.base import Sampling
from videopro.errors import BackboneError, QuestionError, RunError
from videopro.executor import parse_program, run
from videopro.methods import create
from videopro.methods.planners import PlanRequest, own_planner
from videopro.methods.planners.planner import BackbonePlanner
from videopro.methods.planners.server import ApiPlanner
from videopro.modules.calls import MODULES, CallCache
from videopro.modules.library import ModuleLibrary, available_modules
from videopro.modules.reference import api_reference
from videopro.pocket.teacher.faults import SHARES, possible_forms
from videopro.pocket.teacher.logic import logic_variant
from videopro.pocket.teacher.reading import ParsedQuestion, parse_question
from videopro.pocket.teacher.teacher import (
    REFINED_SHARE,
    PocketTeacher,
    functions_of,
    program_variants,
    read_refinement,
)
from videopro.pocket.vocabulary import PHRASINGS
from videopro.question import Question, prompts

CHOICES = ("red", "blue", "green", "grey")
QUESTIONS = {
    "weather": "How is the weather in this video?",
    "main_place": "Where does most of the video take place?",
    "color": "What color is the ring at the red?",
    "shape": "Which shape is at the red?",
    "move": "How does the ring at the red move?",
    "after": "Which place comes right after the red?",
    "before": "Where is the video right before the red?",
    "count": "How many scenes take place at the red?",
    "sign": "What does the sign at the red say?",
    "spoken": 'Where is the video when the narrator says "The old king laughs."?',
    "narration": "According to the narrator, Anna hid what?",
    "story": "What is the whole story about?",
    "other": "Why does nobody go to the red place?",
}
"""One question of each kind; the place is a colour of the test's video."""


def request(text: str = QUESTIONS["color"], **changes: object) -> PlanRequest:
    question = Question(text, CHOICES)
    return replace(
        PlanRequest("plan", prompts.plan(question), question, REFERENCE, seed=5),
        **changes,  # type: ignore[arg-type]
    )


REFERENCE = api_reference(available_modules(world.video_context()))


@pytest.mark.parametrize("kind", PHRASINGS)
def test_the_worlds_questions_are_understood_in_every_wording(kind: str) -> None:
    """Also in unforeseen wordings: the reader has no list of them."""
    words = {"shape": "ring", "place": "beach", "line": "The old king laughs.", "name": "Anna", "deed": "hid"}
    for form in (*PHRASINGS[kind]["usual"], *PHRASINGS[kind]["heldout"]):
        reading = parse_question(form.format(**words))
        assert reading.kind == kind, form
        assert reading.place == ("beach" if "{place}" in form else ""), form
        assert reading.line == (
            words["line"] if "{line}" in form else "Anna hid" if "{name}" in form else ""
        ), form
        if kind in ("color", "move"):
            assert reading.thing == "ring", form
    for other in ("Why does she run away from the dog?", "What is the shape of things to come?"):
        assert parse_question(other).kind == "other"


def test_native_only_where_the_mode_is_free_and_any_part_answers() -> None:
    teacher = PocketTeacher(faults=0)
    modes = {
        (kind, adaptive): parse_program(
            teacher.plan(Question(text, CHOICES), REFERENCE, adaptive=adaptive).text
        ).mode
        for kind, text in QUESTIONS.items()
        for adaptive in (True, False)
    }
    native = {kind for (kind, adaptive), mode in modes.items() if adaptive and mode == "native"}
    assert native == {"weather", "main_place"}
    assert all(mode == "program" for (_, adaptive), mode in modes.items() if not adaptive)


def outcome_of(code: str, text: str, without: tuple[str, ...] = ()) -> tuple[str, str]:
    boxes = SceneBackbone(lambda request: '{"bbox_2d": [100, 100, 900, 900]}')
    context = world.video_context(boxes, without=without)
    library = ModuleLibrary(context, cache=CallCache())
    inputs = {"video": library.video, "question": text, "choices": list(CHOICES), "duration": 60.0}
    outcome = run(code, library.functions(), inputs, prelude=library.prelude)
    return outcome.status, outcome.log


@pytest.mark.parametrize("kind", QUESTIONS)
def test_right_programs_run_and_faults_that_should_fail_do(kind: str) -> None:
    """Each solution of a kind with the real executor and modules; then each misused call and bug in it."""
    text = QUESTIONS[kind]
    found = program_variants(parse_question(text), set(functions_of(REFERENCE)))
    assert len(found) >= 2
    for way in found[:2]:
        assert outcome_of(way.code, text)[0] == "ok", way.code
        assert parse_program(way.reply).well_formed
        assert parse_program(way.reply).mode == "program"
    for fault in ("misused call", "plain bug"):
        made = possible_forms(found[0].code, text, fault)
        assert made, fault
        for form, code in made.items():
            status, log = outcome_of(code, text)
            if (kind, form) == ("sign", "an index beyond the list"):
                assert status == "ok", "it sits in a branch that is taken only where nothing is read"
                continue
            assert status in ("failed", "empty"), (form, code)
            assert log or status == "empty"
    for fault in ("clumsy query", "wrong window"):
        for form, code in possible_forms(found[0].code, text, fault).items():
            made_of_it = parse_program(f"<code>\n{code}\n</code>")
            assert made_of_it.canonical != parse_program(found[0].reply).canonical, form
            log = outcome_of(code, text)[1].split(":")[0]
            assert not re.search("(?<!Argument)(?<!NotFound)Error", log), (form, code)


def check_shares(counts: Counter[str], shares: dict[str, float]) -> None:
    """Each count within four standard deviations of a binomial."""
    n = counts.total()
    for name, share in shares.items():
        spread = 4 * math.sqrt(n * share * (1 - share))
        assert abs(counts[name] - n * share) <= spread, (name, counts[name], n * share)


def test_faults_come_as_documented() -> None:
    """Of a kind of question that has a place for every class, every class has its own share; of any kind, the
    sum of the shares is faulty."""
    assert sum(SHARES.values()) == pytest.approx(0.40)
    teacher = PocketTeacher()
    for kind in ("color", "story", "count"):
        question = Question(QUESTIONS[kind], CHOICES)
        drawn = Counter(
            teacher.plan(question, REFERENCE, adaptive=True, seed=seed).notes["fault"] for seed in range(600)
        )
        check_shares(drawn, {"none": 0.60})
        if kind == "color":
            check_shares(drawn, dict(SHARES))


def test_refinements_have_fewer_faults() -> None:
    prompt = prompts.program_refinement(
        Question(QUESTIONS["color"], CHOICES), prompts.NATIVE_PROGRAM, reference=REFERENCE
    )
    teacher = PocketTeacher()
    drawn = Counter(teacher.refine(prompt, seed=seed).notes["fault"] for seed in range(600))
    check_shares(drawn, {"none": 1 - 0.40 * REFINED_SHARE})
    off = PocketTeacher(faults=0)
    assert {off.refine(prompt, seed=seed).notes["fault"] for seed in range(100)} == {"none"}
    with pytest.raises(ValueError, match="faults"):
        PocketTeacher(faults=1.5)


@pytest.mark.parametrize(
    "prompt",
    [prompts.bug_fix, prompts.native_refinement, prompts.program_refinement],
)
def test_refinement_prompts_are_read_back(prompt: Callable[..., str]) -> None:
    question = Question('Who says "Question: what?"\nand when?', ("A. one", "two\nlines", "three: 3"))
    program = 'x = "Log:\\n"\n\ndef execute_command(video, question):\n    return None'
    log = "NameError: no\n  line 1\nQuestion: none\nChoices:\nExisting program:\n<code>\n1\n</code>"
    for known in ("", REFERENCE):
        given = {"log": log, "reference": known}
        read = read_refinement(prompt(question, program, **given))
        assert (read.question, read.program, read.log) == (question, program, log)
    with pytest.raises(QuestionError, match="not a refinement prompt"):
        PocketTeacher().refine(prompts.plan(Question("Which?", CHOICES)))


@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_broken_program_is_fixed_and_a_right_one_changed(kind: str) -> None:
    teacher = PocketTeacher(faults=0)
    question = Question(QUESTIONS[kind], CHOICES)
    first = program_variants(parse_question(question.text), set(functions_of(REFERENCE)))[0]
    broken = possible_forms(first.code, question.text, "plain bug")["no return"]
    fixed = teacher.refine(prompts.bug_fix(question, broken, "no answer", reference=REFERENCE))
    assert parse_program(fixed.text).canonical == parse_program(first.reply).canonical
    assert outcome_of(parse_program(fixed.text).code, question.text)[0] == "ok"
    other = teacher.refine(prompts.program_refinement(question, first.code, reference=REFERENCE))
    assert parse_program(other.text).well_formed
    assert parse_program(other.text).canonical != parse_program(first.reply).canonical
    assert outcome_of(parse_program(other.text).code, question.text)[0] == "ok"


def planner_at(stub: StubServer, **settings: object) -> ApiPlanner:
    return ApiPlanner(f"api:served@{stub.url}", **settings)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    without_waiting(monkeypatch)


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (completion(None, None, finish="length"), BackboneError, "no text"),
        # What refuses everyone stops the run.
        *((StubFault(status, {"error": {"message": "no"}}), RunError, "resume") for status in (401, 500)),
        (None, RunError, "cannot be reached"),
    ],
)
def test_an_api_teacher_that_cannot_answer_says_why(
    reply: object, kind: type[Exception], message: str
) -> None:
    with StubServer(lambda body: reply) as stub:
        planner = planner_at(stub)
        if reply is None:
            stub.__exit__(None, None, None)
        with pytest.raises(kind, match=message):
            planner.write([request()])
        planner.close()


def test_the_key_goes_to_openai_or_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("TEACHER_KEY", "sk-teacher")
    with StubServer(lambda body: completion("x", None)) as stub:
        for settings, sent in (({}, "Bearer none"), ({"api_key_env": "TEACHER_KEY"}, "Bearer sk-teacher")):
            planner = planner_at(stub, **settings)
            planner.write([request(prompt="Write.", visual=world.video().frames([1.0]))])
            planner.close()
            assert stub.seen[-1].headers["authorization"] == sent
            # The prompt is all that it gets.
            assert stub.chats[-1]["messages"] == [{"role": "user", "content": "Write."}]


def test_the_backbone_plans_with_its_adapter_on_and_each_requests_seed() -> None:
    backbone = SceneBackbone(lambda r: "one two three")
    planner = BackbonePlanner(backbone, is_fine_tuned=True, sampling=Sampling(2))
    seen = world.video().frames([1.0, 15.0, 25.0])
    written = planner.write([request(seed=11, visual=seen), request(seed=12, prompt="P", visual=seen)])
    assert [(request.text, request.seed, count, adapted) for request, count, adapted in backbone.written] == [
        (prompts.plan(Question(QUESTIONS["color"], CHOICES)), 11, 3, True),
        ("P", 12, 3, True),
    ]
    assert (written[0].text, written[0].tokens_in, written[0].tokens_out) == ("one two three", 200, 3)
    assert written[0].notes == {"cut off": "after 2 tokens"}


def test_a_teacher_whose_reader_is_off_knows_no_kinds() -> None:
    """Every question is of no kind: never one look, always the clips that its own words find, then the whole;
    and it is another teacher to a run's key."""
    unread: Any = own_planner("pocket-teacher:unread")
    for text in ("Which weather does the whole video show?", "How many scenes are at the school?"):
        (plan,) = unread.write([request(text, prompt="", visual=None)])
        program = parse_program(plan.text)
        assert program.mode == "program"
        assert "get_informative_clips" in program.calls or plan.notes["fault"] != "none"
    usual: Any = own_planner("pocket-teacher")
    assert unread.identity() != usual.identity() == PocketTeacher().identity()
    assert create("videopro", {"planner": "pocket-teacher:unread"}).identity()["teacher"]["reads"] is False


def test_a_faultless_teacher_puts_no_fault_in() -> None:
    """Of forty first programs of the usual teacher some have a fault, and none of this one's."""
    requests = [request("How many scenes are at the school?", seed=seed) for seed in range(40)]
    faults = {
        name: {plan.notes["fault"] for plan in own_planner(name).write(requests)}
        for name in ("pocket-teacher", "pocket-teacher:faultless")
    }
    assert {"none"} == faults["pocket-teacher:faultless"] < faults["pocket-teacher"]
    assert create("videopro", {"planner": "pocket-teacher:faultless"}).identity()["teacher"]["faults"] == 0


@pytest.mark.parametrize("kind", ["weather", "color", "count", "sign", "story", "before", "main_place"])
def test_the_teacher_that_reasons_writes_programs_whose_letter_is_no_calls_answer(kind: str) -> None:
    """Its programs return a letter; the model is asked with the options only where none fits."""
    variant: Any = logic_variant(ParsedQuestion(kind, "Which?", place="cave", thing="ring", article="the"))
    program = parse_program(variant.reply)
    assert program.well_formed
    assert program.mode == "program"
    assert "return letter" in program.code or '"ABCDEFGH"[' in program.code


FAMILIES = ("retrieval", "localization", "extraction", "context")


def reference(without: str) -> str:
    return api_reference([module for module in MODULES.values() if module.family != without])


def test_programs_for_a_missing_group_run() -> None:
    """With the real executor and modules, on the scenes of the tests, whose places are colours."""
    for group in FAMILIES:
        for kind, text in QUESTIONS.items():
            reply = PocketTeacher(faults=0).plan(Question(text, CHOICES), reference(group), adaptive=False)
            status, log = outcome_of(parse_program(reply.text).code, text, without=(group,))
            assert status == "ok", (group, kind, log)
