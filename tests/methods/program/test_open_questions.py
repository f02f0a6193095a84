"""Open questions by programs: prompts, answers in words, refinement, and which answer counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from tests.support import reason_world as world
from tests.support.fake_backbone import visual_frames
from tests.support.reason_world import SceneBackbone, ScriptedPlanner, colour_of, reply
from videopro.backbones import GenerateRequest
from videopro.backbones.wrappers import BatchingBackbone, MeteredBackbone, ThreadMeter
from videopro.executor import parse_program
from videopro.methods.planners import PlanRequest
from videopro.methods.program import Reasoner, ReasoningSettings
from videopro.modules import library as module_library
from videopro.modules.calls import CallCache
from videopro.question import Answer, Question, prompts
from videopro.traces import AnswerRule, Execution, FinalRule, Result, is_confident, select_answer

QUESTION = Question.open("What colour is the red place?")
NATIVE = reply("return query_native(video, question)")
LOCAL = reply(
    """intervals, clips = get_informative_clips(video, "red", top_k=1)
return query_frames(extract_frames(clips[0]), question)"""
)
BROKEN = reply("return query_frames(clips, question)")
NOTHING = reply("extract_frames(video)\nreturn None")
COMPOSED = reply("return 'red and blue'")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_library, "_cache", CallCache())


def seen(request: GenerateRequest) -> str:
    """The colours of the frames, most first."""
    colours = [colour_of(frame) for frame in visual_frames(request.visual)]
    return " and ".join(sorted(set(colours), key=colours.count, reverse=True)[:1])


def reason(
    writes: dict[str, str] | Callable[[PlanRequest], str],
    *,
    logprob: float = -0.5,
    question: Question = QUESTION,
    is_fine_tuned: bool = True,
    **settings: object,
) -> tuple[Result, ScriptedPlanner]:
    backbone = SceneBackbone(seen)
    backbone.logprob = logprob
    meter = ThreadMeter()
    answerer = MeteredBackbone(BatchingBackbone(backbone, adapter=False), meter)
    planner = ScriptedPlanner(
        writes if callable(writes) else lambda request: writes[request.kind], is_fine_tuned=is_fine_tuned
    )
    given = ReasoningSettings(**settings)  # type: ignore[arg-type]
    reasoner = Reasoner(planner, given, world.context(answerer), thread_meter=meter)
    (result,) = reasoner.reason([question])
    return result, planner


def test_a_confident_answer_in_words_is_not_refined() -> None:
    result, planner = reason({"plan": LOCAL}, logprob=-0.1)
    assert result.final is not None
    assert (result.final.letter, result.final.raw) == (None, "red")
    assert result.final.confidence == pytest.approx(math.exp(-0.1))
    assert [request.kind for request in planner.requests] == ["plan"]
    assert result.rounds[0].execution is not None
    assert result.rounds[0].execution.status == "ok"


def test_an_unsure_answer_is_refined_and_the_prompt_shows_its_words() -> None:
    result, planner = reason(
        {"plan": NATIVE, "native_refinement": LOCAL}, refine_below=None, shows="result", logprob=-0.5
    )
    assert [request.kind for request in planner.requests] == ["plan", "native_refinement"]
    assert result.rounds[0].mode == "native"
    assert f'Its answer was "grey". Its confidence was {math.exp(-0.5):.2f}.' in planner.requests[1].prompt
    assert result.final is not None
    assert result.final.raw == "red"


@pytest.mark.parametrize(
    ("first", "kind", "status"),
    [
        (BROKEN, "bug_fix", "failed"),
        (NOTHING, "program_refinement", "empty"),
        (COMPOSED, "program_refinement", "ok"),
    ],
)
def test_what_fails_gives_nothing_or_comes_from_no_call_is_refined(
    first: str, kind: str, status: str
) -> None:
    result, planner = reason({"plan": first, kind: LOCAL}, logprob=-0.1)
    assert [request.kind for request in planner.requests] == ["plan", kind]
    execution = result.rounds[0].execution
    assert execution is not None
    assert execution.status == status
    assert execution.answer.confidence == 0.0
    assert result.final is not None
    assert result.final.raw == "red"


def test_a_planner_that_was_trained_on_options_may_pass_its_empty_choices() -> None:
    result, _ = reason({"plan": world.NATIVE}, logprob=-0.1)
    assert result.final is not None
    assert result.final.raw == "grey"


@pytest.mark.parametrize(("fallback", "words"), [("none", ""), ("native", "grey")])
def test_a_question_without_an_answer_falls_back_on_the_model(fallback: str, words: str) -> None:
    rule = AnswerRule(fallback=fallback)  # type: ignore[arg-type]
    result, _ = reason({"plan": NOTHING, "program_refinement": BROKEN}, rule=rule)
    assert result.final is not None
    assert result.final.raw == words


def execution(words: str, confidence: float) -> Execution:
    return Execution("ok" if words else "empty", Answer(raw=words, confidence=confidence))


@pytest.mark.parametrize(("final", "selected"), [("last", 2), ("last-answered", 1), ("best", 0)])
def test_which_answer_in_words_counts(final: FinalRule, selected: int) -> None:
    given = [execution("a cup", 0.6), execution("a red cup", 0.5), execution("", 0.0)]
    assert select_answer(given, 0.75, final).selected == selected


def test_confidence_is_inclusive_for_words_too() -> None:
    assert is_confident(execution("a cup", 0.75), 0.75)
    assert not is_confident(execution("a cup", 0.7499), 0.75)
    assert not is_confident(execution("", 0.0), 0.0)


# ---- prompts ----------------------------------------------------------------------------------------------


def all_prompts(question: Question) -> Sequence[str]:
    program = parse_program(LOCAL).code
    return (
        prompts.plan(question),
        prompts.plan(question, adaptive=False, reference="- `query_frames(`", examples=True),
        prompts.bug_fix(question, program, "NameError", reference="x"),
        prompts.native_refinement(question, program, reference="x"),
        prompts.program_refinement(question, program),
        prompts.summarize(question, "A line.", 100),
    )


@pytest.mark.parametrize("prompt", all_prompts(QUESTION))
def test_no_prompt_speaks_of_options(prompt: str) -> None:
    assert "hoices" not in prompt
    assert "multiple choice" not in prompt
    assert QUESTION.text in prompt
    assert "\n\n\n" not in prompt


def test_an_untrained_planner_reads_the_open_forms_and_examples() -> None:
    _, planner = reason({"plan": LOCAL}, is_fine_tuned=False, logprob=-0.1)
    prompt = planner.requests[0].prompt
    assert "query_native(video, question)`" in prompt
    assert "query_native(video, question, choices)" not in prompt
    assert prompt.count("Example\n") == 3


def test_the_native_program_and_the_examples_are_well_formed() -> None:
    for _, _, text in prompts.OPEN_EXAMPLES:
        assert parse_program(text).well_formed, parse_program(text).faults
    assert parse_program(prompts.OPEN_EXAMPLES[0][2]).mode == "native"
