"""The viewer shows what was sent: methods answer with a backbone that keeps what it was asked, and the viewer
sees what the run stored of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support import reason_world as world
from tests.support.method_world import OPTIONS, context, item
from tests.support.reason_world import BROKEN, LOCAL, NATIVE, NOTHING, SceneBackbone
from tests.support.traces import make
from videopro.backbones.base import GenerateRequest
from videopro.benchmarks import Item, Protocol
from videopro.benchmarks.base import ROBUST
from videopro.benchmarks.protocol import AnswerPrompt
from videopro.methods import create, make_trace
from videopro.modules import ModuleModels
from videopro.modules import library as module_library
from videopro.modules.calls import CallCache
from videopro.question import Question
from videopro.report.pages.content import StoredPrompts
from videopro.traces import Round, Trace, TraceLog, VideoRef, read_heads, read_traces, recorded_prompt

PROTOCOL = Protocol(parser=ROBUST)
GOLDEN = ROOT / "tests" / "golden" / "prompts"


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
) -> tuple[Trace, SceneBackbone]:
    """The trace of a question, and the backbone."""
    backbone = SceneBackbone(writes)
    whole = asked if asked is not None else item()
    given = context(backbone)
    given.protocol = protocol
    result = create(name, options).run(whole, given)
    video = VideoRef("v.mp4", "v", "", 60.0)
    return make_trace(whole, result, video, run_key="k", protocol=protocol), backbone


def write(folder: Path, traces: Sequence[Trace]) -> Path:
    path = folder / "traces.jsonl"
    log = TraceLog(path)
    log.append_all(traces)
    log.close()
    return path


def shown(path: Path) -> list[str]:
    """The prompts of a file of traces, as its pages show them."""
    prompts = StoredPrompts(read_heads(path))
    rounds = [prompts.of(round) for trace in read_traces(path) for round in trace.rounds]
    assert [prompt["missing"] for prompt in rounds] == [""] * len(rounds)
    heads = prompts.beginnings
    return [("" if prompt["head"] is None else heads[prompt["head"]]) + prompt["text"] for prompt in rounds]


def refining(first: str) -> Callable[[GenerateRequest], str]:
    """Writes `first` where a program is asked for, and a good program where it is to be refined."""
    return lambda request: LOCAL if request.text.startswith("A Python function was to find") else first


# ---- prompts of planners ---------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [NATIVE, BROKEN, NOTHING, "no program at all"])
@pytest.mark.parametrize(("form", "shows"), [("short", "result"), ("full", "result"), ("short", "log")])
def test_a_plan_and_its_refinement(first: str, form: str, shows: str, tmp_path: Path) -> None:
    options = {
        **OPTIONS,
        "encoder": "pocket",
        "planner_prompt": form,
        "fallback": "none",
        "refinement_shows": shows,
    }
    trace, backbone = answered("videopro", refining(first), **options)
    sent = [request.text for request, _, _ in backbone.written]
    assert len(sent) == 2
    assert ("Available functions" in sent[0]) == (form == "full")
    assert shown(write(tmp_path, [trace])) == sent


def test_prompts_of_a_run_share_what_they_begin_with(tmp_path: Path) -> None:
    options = {**OPTIONS, "planner_prompt": "full"}
    texts, traces = [], []
    for number, text in enumerate(("What is shown?", "What else?")):
        asked = item(question=Question(text, ("blue", "red")))
        trace, backbone = answered("adaptive", asked=asked, **options)
        traces.append(replace(trace, question_id=str(number)))
        texts += [request.text for request, _, _ in backbone.written]
    path = write(tmp_path, traces)
    assert shown(path) == texts
    (line,) = (tmp_path / "prompts.jsonl").read_text().splitlines()
    assert "Available functions" in json.loads(line)["text"]
    assert "Available functions" not in path.read_text()
    # On the page, a prompt of its own begins where the question does.
    prompts = StoredPrompts(read_heads(path))
    first, second = (prompts.of(trace.rounds[0]) for trace in read_traces(path))
    assert first["head"] == second["head"] == 0
    assert first["text"].startswith("Question: What is shown?\nChoices:\nA. blue")
    assert second["text"].startswith("Question: What else?\n")


def test_every_prompt_of_ours_is_kept_to_the_letter(tmp_path: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(GOLDEN.iterdir())]
    question = Question("What does the sign show?", ("a ship", "a fire"))
    rounds = tuple(Round("plan", "", prompt=recorded_prompt(text, question)) for text in texts)
    assert len(texts) > 40
    assert shown(write(tmp_path, [make(rounds=rounds)])) == texts


# ---- prompts of direct answers ---------------------------------------------------------------------------


@pytest.mark.parametrize("official", [True, False])
def test_a_direct_answer(official: bool, tmp_path: Path) -> None:
    own = AnswerPrompt("made", "{subtitles}{frames} frames. {question}\n{options}\nLetter:")
    protocol = replace(PROTOCOL, answer_prompt=own) if official else PROTOCOL
    trace, backbone = answered("native", protocol=protocol, subtitles="none")
    (text,) = shown(write(tmp_path, [trace]))
    assert text == backbone.asked[0][0]
    assert not official or text.startswith("12 frames. What is shown")


def test_system_turn_and_begun_reply_are_shown(tmp_path: Path) -> None:
    own = AnswerPrompt("made", "{question}\n{options} at {times}", system="Watch.", prefill="Best: (")
    protocol = replace(PROTOCOL, answer_prompt=own)
    trace, backbone = answered("native", protocol=protocol, subtitles="none", frames=2)
    # Frames at the middles of both halves of a minute.
    assert backbone.asked[0][0].endswith(" at 15.0, 45.0")
    assert shown(write(tmp_path, [trace])) == [f"Watch.\n\n{backbone.asked[0][0]}\n\nBest: ("]
    trace, _ = answered("native", protocol=protocol, subtitles="none", system="Look.")
    assert trace.rounds[0].prompt is not None
    assert trace.rounds[0].prompt.system == "Look."


def test_an_open_question(tmp_path: Path) -> None:
    asked = item(question=Question.open("What is red?"), answer=None)
    trace, backbone = answered("native", lambda request: "a place", asked, subtitles="none")
    assert shown(write(tmp_path, [trace])) == [backbone.written[0][0].text]


def test_the_fallback_asks_directly(tmp_path: Path) -> None:
    options = {**OPTIONS, "fallback": "native", "max_rounds": 0}
    trace, backbone = answered("videopro", lambda request: NOTHING, **options)
    assert [round.prompt_kind for round in trace.rounds] == ["plan", "fallback"]
    assert shown(write(tmp_path, [trace]))[1] == backbone.asked[-1][0]


LINES = """1
00:00:06,000 --> 00:00:09,000
First.

2
00:00:50,000 --> 00:00:55,000
Last.
"""


@pytest.fixture
def spoken(tmp_path: Path) -> Item:
    (tmp_path / "a.srt").write_text(LINES)
    return item(subtitles=tmp_path / "a.srt")


def test_subtitle_lines_in_a_direct_question(spoken: Item, tmp_path: Path) -> None:
    trace, backbone = answered("native", asked=spoken, subtitles="all")
    (text,) = shown(write(tmp_path, [trace]))
    assert text == backbone.asked[0][0]
    assert text.startswith("First.\nLast.\nWhat is shown")


def test_frames_between_texts_are_named_by_their_times(spoken: Item, tmp_path: Path) -> None:
    trace, backbone = answered("native", asked=spoken, subtitles="interleaved", frames=4)
    # Four frames of a minute, each in the middle of its quarter, with what is spoken there after it.
    between = "[frame at 7.50 s]\nFirst.\n[frame at 22.50 s]\n[frame at 37.50 s]\n[frame at 52.50 s]\n"
    assert backbone.asked[0][0].startswith("Last.\n")
    assert shown(write(tmp_path, [trace])) == [between + backbone.asked[0][0]]


# ---- prompts that are not there --------------------------------------------------------------------------


def test_a_run_without_prompts_says_so(tmp_path: Path) -> None:
    trace, _ = answered("adaptive", **OPTIONS)
    content = json.loads(trace.to_line())
    del content["rounds"][0]["prompt"]
    (tmp_path / "traces.jsonl").write_text(json.dumps(content | {"schema": 4}) + "\n")
    (old,) = read_traces(tmp_path / "traces.jsonl")
    assert read_heads(tmp_path / "traces.jsonl") == {}
    assert "the run did not store its prompts" in StoredPrompts({}).of(old.rounds[0])["missing"]


@pytest.mark.parametrize("damage", [lambda text: "", lambda text: text.replace("functions", "function")])
def test_a_head_that_is_damaged_is_never_shown(damage: Callable[[str], str], tmp_path: Path) -> None:
    trace, _ = answered("adaptive", **{**OPTIONS, "planner_prompt": "full"})
    path = write(tmp_path, [trace])
    heads = tmp_path / "prompts.jsonl"
    heads.write_text(damage(heads.read_text()))
    (read,) = read_traces(path)
    why = StoredPrompts(read_heads(path)).of(read.rounds[0])["missing"]
    assert "its beginning is not in the run's prompts.jsonl" in why
