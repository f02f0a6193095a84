"""Plan, run, refine: which refinement, which answer is selected, what is recorded, what errors do."""

import math
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import scenes as world
from tests.support.fake_backbone import visual_frames
from tests.support.scenes import (
    BROKEN,
    LOCAL,
    NATIVE,
    NOTHING,
    QUESTION,
    SceneBackbone,
    ScriptedPlanner,
    colour_of,
    reply,
)
from videopro import executor
from videopro.backbones.base import ChoiceRequest, GenerateRequest
from videopro.backbones.wrappers import BatchingBackbone, MeteredBackbone, ThreadMeter
from videopro.errors import UnexpectedError
from videopro.methods.planners import PlanRequest
from videopro.methods.planners import planner as backbone_planner
from videopro.methods.planners.planner import BackbonePlanner
from videopro.methods.program import Reasoner, ReasoningSettings
from videopro.question import Answer, Question
from videopro.traces import AnswerRule, Cost, Execution, Result, is_confident, select_answer

WIDER = reply(
    """intervals, clips = get_informative_clips(video, "red", top_k=2)
frames = [frame for clip in clips for frame in extract_frames(clip)]
return query_mc(frames, question, choices)"""
)
"""Red and one grey scene: half red, half grey, so the answer has 0.4."""
CLAIMED = reply('return make_result("C", 0.99)')


def reason(
    writes: dict[str, str] | Callable[[PlanRequest], str],
    questions: Sequence[Question] = (QUESTION,),
    *,
    backbone: SceneBackbone | None = None,
    is_fine_tuned: bool = True,
    visual: Any = None,
    observer: Any = None,
    **settings: Any,
) -> tuple[list[Any], ScriptedPlanner]:
    """Reason with a planner that writes by kind of request."""
    answers = backbone if backbone is not None else SceneBackbone()
    thread_meter = ThreadMeter()
    modules = world.video_context(MeteredBackbone(BatchingBackbone(answers), thread_meter))
    by_kind = writes if callable(writes) else lambda request: writes[request.kind]
    planner = ScriptedPlanner(by_kind, is_fine_tuned=is_fine_tuned)
    reasoner = Reasoner(
        planner,
        ReasoningSettings(**settings),
        modules,
        thread_meter=thread_meter,
        visual=visual,
        seed=7,
        observer=observer,
    )
    return reasoner.reason(questions), planner


def test_each_call_has_the_line_that_made_it() -> None:
    """Also calls that failed, that a helper made, and that share a line with another."""
    body = """def look(clip):
    return query_yn(extract_frames(clip), "Is it red?")
clips = get_informative_clips(video, "red",
                              top_k=2)[1]
seen = [look(clip) for clip in clips]
try:
    crop(video, 1)
except Exception:
    pass
return query_mc(extract_frames(clips[0]), question, choices)"""
    (result,), _ = reason({"plan": reply(body)}, max_rounds=0)
    execution = result.rounds[0].execution
    assert execution.status == "ok"
    # Line 1 is the function's head; a call over several lines is at its first.
    assert [(call.fn, call.line) for call in execution.calls] == [
        ("get_informative_clips", 4),
        ("extract_frames", 3), ("query_yn", 3), ("extract_frames", 3), ("query_yn", 3),
        ("crop", 8),
        ("extract_frames", 11), ("query_mc", 11),
    ]  # fmt: skip


def kinds(reasoned: Result) -> list[str]:
    return [turn.prompt_kind for turn in reasoned.rounds]


def final(reasoned: Any) -> tuple[str | None, float]:
    return reasoned.final.letter, round(reasoned.final.confidence, 6)


def made(letter: str | None, confidence: float = 0.0, status: Any = None) -> Execution:
    return Execution(status or ("ok" if letter else "empty"), Answer(letter, confidence))


FAILED = made(None, status="failed")
SURE, UNSURE, SURER, SAME = made("A", 0.75), made("B", 0.5), made("C", 0.6), made("D", 0.5)


@pytest.mark.parametrize(
    ("executions", "how", "selected", "refined"),
    [
        ([UNSURE, SURE], "last", 1, 1),
        ([SURE, UNSURE], "last", 0, 0),  # stored for another tau
        ([UNSURE, SAME], "best", 0, 1),
        ([UNSURE, FAILED], "last", 1, 1),  # the paper's: the last program counts, failed or not
        ([UNSURE, FAILED], "last-answered", 0, 1),  # a refinement without an answer loses nothing
        ([SURER, UNSURE], "last-answered", 1, 1),
        ([FAILED, FAILED], "last-answered", 1, 1),
        ([FAILED, UNSURE], "best", 1, 1),
        ([UNSURE, SURER, SAME], "best", 1, 2),
    ],
)
def test_which_answer_is_selected(executions: list[Execution], how: Any, selected: int, refined: int) -> None:
    decision = select_answer(executions, 0.75, how)
    assert (decision.selected, decision.refined) == (selected, refined)


def test_a_sweep_with_fewer_rounds_is_the_run_with_fewer_rounds_and_tau_is_inclusive() -> None:
    executions = [UNSURE, SURER, SAME]
    assert [select_answer(executions, 0.75, "last", most).selected for most in (0, 1, 2, 5)] == [0, 1, 2, 2]
    assert [select_answer(executions, tau, "last").selected for tau in (0.5, 0.55)] == [0, 1]
    assert is_confident(made("A", 0.75), 0.75)
    assert not is_confident(made("A", math.nextafter(0.75, 0)), 0.75)
    words = Execution("ok", Answer(raw="a cup", confidence=0.6))
    assert is_confident(words, 0.6)
    assert select_answer([words, UNSURE], 0.75, "best").selected == 0
    assert not is_confident(made(None), 0.0)
    assert not is_confident(FAILED, 0.0)
    with pytest.raises(ValueError, match="there are no executions"):
        select_answer([], 0.75, "last")


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (BROKEN, "bug_fix"),
        (NATIVE, "native_refinement"),
        (WIDER, "program_refinement"),
        (NOTHING, "program_refinement"),
    ],
)
def test_what_went_wrong_decides_the_refinement(first: str, kind: str) -> None:
    (result,), planner = reason({"plan": first, kind: LOCAL})
    assert kinds(result) == ["plan", kind]
    assert (final(result), result.selected, result.refined) == (("B", 0.9), 1, 1)
    prompt = planner.requests[1].prompt
    assert result.rounds[0].program in prompt
    assert QUESTION.text in prompt
    assert ("NameError: name 'clips' is not defined" in prompt) == (kind == "bug_fix")
    assert "confidence" not in prompt


def test_tau_decides_and_is_inclusive() -> None:
    """The wider program's 0.4 is confident under tau 0.4 and unsure right above it."""
    sure, writes = 10 / 20 - 0.1, {"plan": WIDER, "program_refinement": LOCAL}
    (result,), _ = reason(writes, tau=sure)
    assert (kinds(result), final(result), result.selected, result.refined) == (["plan"], ("D", 0.4), 0, 0)
    assert result.first == result.final
    (result,), _ = reason(writes, tau=math.nextafter(sure, 1))
    assert kinds(result) == ["plan", "program_refinement"]


def test_a_claimed_confidence_does_not_prevent_refinement() -> None:
    (result,), _ = reason({"plan": CLAIMED, "program_refinement": LOCAL})
    answer = result.rounds[0].execution.answer
    assert (answer.letter, answer.confidence) == ("C", 0.0)
    assert result.rounds[0].execution.claim == 0.99
    assert final(result) == ("B", 0.9)


def test_a_program_whose_sandbox_was_killed_is_run_again() -> None:
    """Killed from outside, as by the OOM killer, while the program waits for an answer."""

    def kill(requests: Sequence[ChoiceRequest]) -> None:
        zygote: Any = executor._executor()._zygote
        os.kill(zygote.pid, signal.SIGKILL)

    backbone = SceneBackbone(before=kill)
    (result,), _ = reason({"plan": LOCAL}, backbone=backbone)
    assert (kinds(result), final(result)) == (["plan"], ("B", 0.9))
    execution = result.rounds[0].execution
    # The answer that was given while its program died is cached, and the record is of one run.
    assert len(backbone.asked) == 1
    assert [call.fn for call in execution.calls] == ["get_informative_clips", "extract_frames", "query_mc"]


def test_rounds_end_with_a_confident_answer_or_at_the_limit() -> None:
    replies = iter([BROKEN, NATIVE, WIDER, LOCAL, LOCAL])
    (result,), _ = reason(lambda request: next(replies), max_rounds=9)
    assert kinds(result) == ["plan", "bug_fix", "native_refinement", "program_refinement"]
    assert (final(result), result.selected, result.refined) == (("B", 0.9), 3, 3)
    (result,), _ = reason({"plan": BROKEN}, max_rounds=0)
    assert (kinds(result), final(result)) == (["plan"], (None, 0.0))


def test_a_direct_answer_stands_in_where_no_program_answered() -> None:
    broken = {"plan": BROKEN, "bug_fix": BROKEN}
    (result,), _ = reason(broken, rule=AnswerRule(fallback="native"))
    assert kinds(result) == ["plan", "bug_fix", "fallback"]
    assert (final(result), result.selected, result.refined) == (("D", 0.4), 2, 1)
    assert [call.fn for call in result.rounds[2].execution.calls] == ["query_native"]
    assert result.first.letter is None
    (result,), _ = reason(broken)
    assert (kinds(result), final(result)) == (["plan", "bug_fix"], (None, 0.0))


def test_a_reply_without_a_program_is_a_failure_that_can_be_fixed() -> None:
    (result,), planner = reason({"plan": "I would say B.", "bug_fix": LOCAL})
    assert (kinds(result), final(result)) == (["plan", "bug_fix"], ("B", 0.9))
    first = result.rounds[0]
    assert (first.mode, first.raw, first.program) == (None, "I would say B.", None)
    assert first.faults
    assert first.execution.error.type == "NoProgram"
    assert "There is no program." in planner.requests[1].prompt


@pytest.mark.parametrize(
    ("shows", "result", "log"), [("program", False, False), ("result", True, False), ("log", True, True)]
)
def test_what_a_prompt_shows_of_an_unsure_answer(shows: str, result: bool, log: bool) -> None:
    _, planner = reason({"plan": NATIVE, "native_refinement": LOCAL}, shows=shows)
    prompt = planner.requests[1].prompt
    assert ("Its answer was D. Its confidence was 0.40." in prompt) == result
    assert ("query_native(Video(" in prompt) == log


def test_the_api_reference_goes_to_planners_that_need_it() -> None:
    writes = {"plan": BROKEN, "bug_fix": LOCAL}
    _, short = reason(writes)
    _, full = reason(writes, is_fine_tuned=False)
    for before, after in zip(short.requests, full.requests, strict=True):
        assert before.api_reference == ""
        assert "get_informative_clips(" in after.api_reference
        assert after.api_reference in after.prompt
        assert "Available functions" not in before.prompt
    assert "Example" in full.requests[0].prompt
    assert "Example" not in full.requests[1].prompt


def test_draws_depend_on_the_question_and_the_runs_seed_alone() -> None:
    others = [replace(QUESTION, text=f"Question {i}?") for i in range(3)]
    writes = {"plan": BROKEN, "bug_fix": LOCAL}

    def seeds(questions: Sequence[Question]) -> dict[tuple[str, str], int]:
        _, planner = reason(writes, questions)
        return {(request.kind, request.question.text): request.seed for request in planner.requests}

    alone, together = seeds([QUESTION]), seeds([*others, QUESTION])
    assert len(set(together.values())) == 8
    assert alone.items() <= together.items()
    assert all(0 <= seed < 2**31 for seed in together.values())


def test_an_error_of_one_question_leaves_the_others() -> None:
    questions = [
        QUESTION,
        Question("Which? (no plan)", QUESTION.choices),
        Question("Which? (refuse)", QUESTION.choices),
        replace(QUESTION, text="What else is red?"),
    ]
    (first, planless, refused, last), _ = reason({"plan": LOCAL, "bug_fix": LOCAL}, questions)
    assert [final(first), final(last)] == [("B", 0.9), ("B", 0.9)]
    assert first.error is last.error is None
    assert (planless.error.type, planless.error.message) == ("BackboneError", "the planner is gone")
    assert (refused.error.message, refused.final) == ("cannot serve this request", None)
    assert kinds(refused) == ["plan"], "what was done before is kept"


@pytest.mark.parametrize(("fails", "kind"), [("plan", "NativeError"), ("bug_fix", "UnexpectedError")])
def test_an_exception_about_a_request_to_the_planner_is_nobodys_only_at_first(fails: str, kind: str) -> None:
    """The first prompt and the video are ours; a refinement's prompt holds what the program wrote."""

    def writes(request: PlanRequest) -> str:
        if request.kind == fails:
            raise ValueError("odd video")
        return BROKEN

    (result,), _ = reason(writes)
    assert (result.error.type, result.ended_by and result.ended_by.message) == (kind, "odd video")


def test_an_exception_about_the_planners_own_reply_counts_as_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(*reply: Any) -> Any:
        raise ValueError("odd reply")

    monkeypatch.setattr(backbone_planner, "reply_notes", unreadable)
    request = PlanRequest("plan", "Write.", QUESTION)
    with pytest.raises(UnexpectedError, match="odd reply") as raised:
        BackbonePlanner(SceneBackbone(), is_fine_tuned=True).write([request])
    assert type(raised.value) is UnexpectedError


def test_a_backbone_error_counts_even_if_the_program_hides_it() -> None:
    hidden = "try:\n    return query_native(video, question, choices)\nexcept Exception:\n    return 'A'"
    (result,), _ = reason({"plan": reply(hidden)}, [Question("Which? (refuse)", QUESTION.choices)])
    assert (result.error.type, result.final) == ("BackboneError", None)


def test_costs_of_planning_and_running_are_separate_and_add_up() -> None:
    (result,), _ = reason({"plan": NATIVE, "native_refinement": LOCAL})
    planning = [round_.planning for round_ in result.rounds]
    assert [(c.calls, c.tokens_in, c.tokens_out) for c in planning] == [(1, 300, 40)] * 2
    running = [round_.execution.cost for round_ in result.rounds]
    # 12 frames of the whole video, 10 of the clip; the fake counts 100 tokens and one a frame.
    counts = [(c.calls, c.frames, c.tokens_in, c.tokens_out) for c in running]
    assert counts == [(1, 12, 112, 1), (1, 10, 110, 1)]
    total = result.cost
    assert (total.calls, total.frames, total.tokens_in, total.tokens_out) == (4, 22, 822, 82)
    assert set(total.stages) == {"plan", "run", "backbone"}
    assert total.seconds == pytest.approx(total.stages["plan"] + total.stages["run"])


def test_calls_are_recorded_with_arguments_results_and_frames() -> None:
    (result,), _ = reason({"plan": LOCAL})
    execution = result.rounds[0].execution
    assert [call.fn for call in execution.calls] == ["get_informative_clips", "extract_frames", "query_mc"]
    clips, _, query = execution.calls
    assert (clips.args["query"], clips.args["top_k"]) == ("red", 1)
    assert "Clip(10.0-20.0 s)" in clips.result
    assert [frame[0] for frame in query.frames] == [10.5 + i for i in range(10)]
    assert (execution.answer.raw, execution.answer.letters["B"]) == ("B", pytest.approx(0.9))


def test_an_observer_is_notified_in_order() -> None:
    events: list[str] = []
    observer = SimpleNamespace(
        on_wait=events.append,
        on_reply=lambda round: events.append(f"wrote {round.prompt_kind}"),
        on_call=lambda call: events.append(call.fn),
        on_execution=lambda execution: events.append(f"ended {execution.status}"),
    )
    visual = world.video().frames([1.0, 15.0])
    _, planner = reason({"plan": BROKEN, "bug_fix": LOCAL}, visual=visual, observer=observer)
    assert ", ".join(events) == (
        "planning, wrote plan, ended failed, planning, wrote bug_fix, get_informative_clips, extract_frames, "
        "query_mc, ended ok"
    )
    # The video goes with every request if the planner sees it.
    assert [request.visual for request in planner.requests] == [visual, visual]


def test_a_thread_without_a_meter_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no meter chosen"):
        ThreadMeter().add(Cost(frames=1))


OPEN = Question.open("What colour is the red place?")
OPEN_NATIVE = reply("return query_native(video, question)")
OPEN_LOCAL = reply(
    """intervals, clips = get_informative_clips(video, "red", top_k=1)
return query_frames(extract_frames(clips[0]), question)"""
)


def in_words(
    writes: dict[str, str], *, logprob: float = -0.1, **settings: Any
) -> tuple[Any, ScriptedPlanner]:
    """The result of the open question; the model names the colour of most frames."""

    def seen(request: GenerateRequest) -> str:
        colours = [colour_of(frame) for frame in visual_frames(request.visual)]
        return max(sorted(set(colours)), key=colours.count)

    backbone = SceneBackbone(seen)
    backbone.logprob = logprob
    (result,), planner = reason(writes, [OPEN], backbone=backbone, **settings)
    return result, planner


def test_a_confident_answer_in_words_is_not_refined() -> None:
    result, planner = in_words({"plan": OPEN_LOCAL})
    assert (result.final.letter, result.final.raw) == (None, "red")
    assert result.final.confidence == pytest.approx(math.exp(-0.1))
    assert (kinds(result), result.rounds[0].execution.status) == (["plan"], "ok")
    assert "Example" not in planner.requests[0].prompt


def test_an_unsure_answer_is_refined_and_the_prompt_shows_its_words() -> None:
    writes = {"plan": OPEN_NATIVE, "native_refinement": OPEN_LOCAL}
    result, planner = in_words(writes, shows="result", logprob=-0.5)
    assert (kinds(result), result.rounds[0].mode) == (["plan", "native_refinement"], "native")
    assert f'Its answer was "grey". Its confidence was {math.exp(-0.5):.2f}.' in planner.requests[1].prompt
    assert result.final.raw == "red"
