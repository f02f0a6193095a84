"""The prompts that the viewer makes again are those that were sent: methods answer with a backbone that keeps
what it was asked, and the viewer sees the trace and the recorded identity alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import reason_world as world
from tests.support import view_world
from tests.support.infer_world import SRT
from tests.support.method_world import OPTIONS, context, item
from tests.support.reason_world import BROKEN, LOCAL, NATIVE, NOTHING, SceneBackbone
from videopro.backbones.base import GenerateRequest
from videopro.benchmarks import Item, Protocol
from videopro.benchmarks.base import ROBUST
from videopro.benchmarks.protocol import AnswerPrompt
from videopro.methods import create, make_trace
from videopro.modules import ModuleModels
from videopro.modules import library as module_library
from videopro.modules.calls import CallCache
from videopro.question import Question
from videopro.traces import Failure, Trace, VideoRef
from videopro.view.asked import AskedPrompts

PROTOCOL = Protocol(parser=ROBUST)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module_library, "_cache", CallCache())
    # No clip encoder is loaded: where the settings name one, the scenes have their own index.
    monkeypatch.setattr(
        ModuleModels,
        "index",
        lambda self, video: (None if self.names["encoder"] == "none" else world.SceneIndex(), ()),
    )


def answered(
    name: str,
    writes: Callable[[GenerateRequest], str] = lambda request: NATIVE,
    asked: Item | None = None,
    protocol: Protocol = PROTOCOL,
    **options: Any,
) -> tuple[Trace, dict[str, Any], SceneBackbone]:
    """The trace of a question as it is read back, what its run would record, and the backbone."""
    backbone = SceneBackbone(writes)
    method = create(name, options)
    whole = asked if asked is not None else item()
    given = context(backbone)
    given.protocol = protocol
    trace = make_trace(
        whole, method.run(whole, given), VideoRef("v.mp4", "v", "", 60.0), run_key="k", protocol=protocol
    )
    identity = {"method": {"name": name, **method.identity()}, "model": backbone.identity()}
    return Trace.from_line(trace.to_line()), json.loads(json.dumps(identity)), backbone


def made_again(trace: Trace, identity: Mapping[str, Any], protocol: Protocol = PROTOCOL) -> list[str]:
    asked = AskedPrompts(identity, protocol)
    found = [asked.of(trace, place) for place in range(len(trace.rounds))]
    assert [prompt["missing"] for prompt in found] == [""] * len(found)
    return [
        ("" if prompt["head"] is None else asked.heads[prompt["head"]]) + prompt["text"] for prompt in found
    ]


def missing(trace: Trace, identity: Mapping[str, Any], place: int = -1) -> str:
    why: str = AskedPrompts(identity, PROTOCOL).of(trace, range(len(trace.rounds))[place])["missing"]
    return why


def refining(first: str) -> Callable[[GenerateRequest], str]:
    """Writes `first` where a program is asked for, and a good program where it is to be refined."""
    return lambda request: LOCAL if request.text.startswith("A Python function was to find") else first


# ---- prompts of planners ---------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [NATIVE, BROKEN, NOTHING, "no program at all"])
@pytest.mark.parametrize("shown", ["short", "full", "auto"])
def test_a_plan_and_its_refinement(first: str, shown: str) -> None:
    options = {
        **OPTIONS,
        "encoder": "pocket",
        "planner_prompt": shown,
        "fallback": "none",
        "refinement_shows": "result",
    }
    trace, identity, backbone = answered("videopro", refining(first), **options)
    sent = [request.text for request, _, _ in backbone.written]
    assert len(sent) == 2
    assert ("Available functions" in sent[0]) == (shown == "full")
    assert made_again(trace, identity) == sent


def test_a_planner_without_adapter_was_sent_the_reference() -> None:
    trace, identity, backbone = answered("adaptive", **OPTIONS)
    identity["model"]["adapter"] = None
    (plain,) = made_again(trace, identity)
    assert "Available functions" in plain
    assert plain != backbone.written[0][0].text


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ocr": "none"},
        {"detector": "backbone"},
        {"detector": "backbone", "tracker": "detector"},
        {"without": ("context",)},
        {"encoder": "pocket"},
        {"subtitles": "none"},
    ],
)
@pytest.mark.parametrize("spoken", [True, False])
def test_the_reference_lists_what_the_modules_had(
    options: dict[str, Any], spoken: bool, tmp_path: Path
) -> None:
    (tmp_path / "a.srt").write_text(SRT)
    asked = item(subtitles=tmp_path / "a.srt") if spoken else item()
    given = {**OPTIONS, "planner_prompt": "full", **options}
    trace, identity, backbone = answered("program", lambda request: LOCAL, asked, **given)
    assert made_again(trace, identity) == [backbone.written[0][0].text]


def test_prompts_of_a_run_share_what_they_begin_with() -> None:
    trace, identity, _ = answered("adaptive", **{**OPTIONS, "planner_prompt": "full"})
    other = replace(trace, question="What else?")
    asked = AskedPrompts(identity, PROTOCOL)
    first, second = asked.of(trace, 0), asked.of(other, 0)
    assert first["head"] == second["head"] == 0
    assert len(asked.heads) == 1
    assert "Available functions" in asked.heads[0]
    assert first["text"].startswith(f"Question: {trace.question}\nChoices:\nA. blue")
    assert second["text"].startswith("Question: What else?\n")


# ---- prompts of direct answers ---------------------------------------------------------------------------


@pytest.mark.parametrize("official", [True, False])
def test_a_direct_answer(official: bool) -> None:
    own = AnswerPrompt("made", "{subtitles}{frames} frames. {question}\n{options}\nLetter:")
    protocol = replace(PROTOCOL, answer_prompt=own) if official else PROTOCOL
    trace, identity, backbone = answered("native", protocol=protocol, subtitles="none")
    assert made_again(trace, identity, protocol) == [backbone.asked[0][0]]
    if official:
        assert made_again(trace, identity, protocol)[0].startswith("12 frames. What is shown")


def test_system_turn_and_begun_reply_are_shown() -> None:
    own = AnswerPrompt("made", "{question}\n{options} at {times}", system="Watch.", prefill="Best: (")
    protocol = replace(PROTOCOL, answer_prompt=own)
    trace, identity, backbone = answered("native", protocol=protocol, subtitles="none", frames=2)
    # Frames at the middles of both halves of a minute.
    assert backbone.asked[0][0].endswith(" at 15.0, 45.0")
    assert made_again(trace, identity, protocol) == [f"Watch.\n\n{backbone.asked[0][0]}\n\nBest: ("]
    trace, identity, _ = answered("native", protocol=protocol, subtitles="none", system="Look.")
    assert made_again(trace, identity, protocol)[0].startswith("Look.\n\nWhat is")


def test_an_open_question() -> None:
    asked = item(question=Question.open("What is red?"), answer=None)
    trace, identity, backbone = answered("native", lambda request: "a place", asked, subtitles="none")
    assert made_again(trace, identity) == [backbone.written[0][0].text]


def test_the_fallback_asks_directly() -> None:
    options = {**OPTIONS, "fallback": "native", "max_rounds": 0}
    trace, identity, backbone = answered("videopro", lambda request: NOTHING, **options)
    assert [round.prompt_kind for round in trace.rounds] == ["plan", "fallback"]
    assert made_again(trace, identity)[1] == backbone.asked[-1][0]


# ---- prompts that are not known --------------------------------------------------------------------------


def test_the_log_of_a_program_that_did_not_fail_is_not_in_its_trace() -> None:
    options = {**OPTIONS, "planner_prompt": "short", "refinement_shows": "log", "fallback": "none"}
    trace, identity, _ = answered("videopro", refining(NATIVE), **options)
    assert "logs of failed programs only" in missing(trace, identity)
    assert missing(trace, identity, 0) == ""
    failed, identity, backbone = answered("videopro", refining(BROKEN), **options)
    assert made_again(failed, identity)[1] == backbone.written[1][0].text


def test_subtitle_lines_in_a_direct_question_are_not_in_its_trace(tmp_path: Path) -> None:
    (tmp_path / "a.srt").write_text(SRT)
    trace, identity, _ = answered("native", asked=item(subtitles=tmp_path / "a.srt"), subtitles="all")
    assert "subtitle lines, which traces do not hold" in missing(trace, identity)
    silent, identity, backbone = answered("native", subtitles="all")
    assert made_again(silent, identity) == [backbone.asked[0][0]]


def test_an_error_leaves_open_whether_there_were_subtitles() -> None:
    trace, identity, _ = answered("adaptive", **{**OPTIONS, "planner_prompt": "full"})
    failed = replace(trace, error=Failure("VideoError", "gone"), notes=())
    assert "does not say whether its video has subtitles" in missing(failed, identity)
    short = {**identity, "method": {**identity["method"], "planner_prompt": "short"}}
    assert missing(failed, short) == ""


def test_a_run_that_recorded_no_method_says_so(tmp_path: Path) -> None:
    first, *_, last = view_world.traces(tmp_path)
    assert "did not record how its model was asked" in view_world.ASKED.of(first, 0)["missing"]
    assert "did not record how its planner was asked" in view_world.ASKED.of(last, 0)["missing"]
