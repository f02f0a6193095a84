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
from tests.support import scenes as world
from tests.support.scenes import BROKEN, LOCAL, NATIVE, OPTIONS, SceneBackbone, context, item
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

    def index(models: ModuleModels, video: object) -> tuple[world.SceneIndex | None, tuple[()]]:
        # No clip encoder is loaded: where the settings name one, the scenes have their own index.
        return None if models.names["encoder"] == "none" else world.SceneIndex(), ()

    monkeypatch.setattr(ModuleModels, "index", index)


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
    folder.mkdir(exist_ok=True)
    log = TraceLog(folder / "traces.jsonl")
    log.append_all(traces)
    log.close()
    return folder / "traces.jsonl"


def shown(path: Path) -> list[str]:
    """The prompts of a file of traces, as its pages show them."""
    prompts = StoredPrompts(read_heads(path))
    rounds = [prompts.of(round) for trace in read_traces(path) for round in trace.rounds]
    assert [prompt["missing"] for prompt in rounds] == [""] * len(rounds)
    heads = prompts.beginnings
    return [("" if prompt["head"] is None else heads[prompt["head"]]) + prompt["text"] for prompt in rounds]


# ---- prompts of planners ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "form", "shows"),
    [
        *((NATIVE, "short", "result"), (BROKEN, "full", "log"), ("no program at all", "short", "result")),
    ],
)
def test_a_plan_and_its_refinement(first: str, form: str, shows: str, tmp_path: Path) -> None:
    options = {"encoder": "pocket", "planner_prompt": form, "fallback": "none", "refinement_shows": shows}

    def writes(request: GenerateRequest) -> str:
        return LOCAL if request.text.startswith("A Python function was to find") else first

    trace, backbone = answered("videopro", writes, **{**OPTIONS, **options})
    sent = [request.text for request, _, _ in backbone.written]
    assert len(sent) == 2
    assert ("Available functions" in sent[0]) == (form == "full")
    assert shown(write(tmp_path, [trace])) == sent


def test_every_prompt_of_ours_is_kept_to_the_letter(tmp_path: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(GOLDEN.iterdir())]
    question = Question("What does the sign show?", ("a ship", "a fire"))
    rounds = tuple(Round("plan", "", prompt=recorded_prompt(text, question)) for text in texts)
    assert len(texts) > 40
    assert shown(write(tmp_path, [make(rounds=rounds)])) == texts


# ---- prompts of direct answers ---------------------------------------------------------------------------


LINES = "1\n00:00:06,000 --> 00:00:09,000\nFirst.\n\n2\n00:00:50,000 --> 00:00:55,000\nLast.\n"


def asks(form: str, **more: str) -> Protocol:
    return replace(PROTOCOL, answer_prompt=AnswerPrompt("made", form, **more))


@pytest.mark.parametrize(
    ("protocol", "options", "begins", "around"),
    [
        (asks("{frames} frames. {question}\n{options}\nLetter:"), {}, "12 frames. What is shown", ("", "")),
        # Frames at the middles of both halves of a minute; a system turn, and a reply that was begun.
        (
            asks("At {times} {question}\n{options}", system="Watch.", prefill="Best: ("),
            {"frames": 2},
            "At 15.0, 45.0",
            ("Watch.\n\n", "\n\nBest: ("),
        ),
        # Four frames, each in the middle of its quarter, with what is spoken there after it.
        (
            PROTOCOL,
            {"subtitles": "interleaved", "frames": 4},
            "Last.\n",
            (
                "[frame at 7.50 s]\nFirst.\n[frame at 22.50 s]\n[frame at 37.50 s]\n[frame at 52.50 s]\n",
                "",
            ),
        ),
    ],
)
def test_a_direct_answer(
    protocol: Protocol, options: dict[str, Any], begins: str, around: tuple[str, str], tmp_path: Path
) -> None:
    (tmp_path / "a.srt").write_text(LINES)
    spoken, options = item(subtitles=tmp_path / "a.srt"), {"subtitles": "none", **options}
    trace, backbone = answered("native", asked=spoken, protocol=protocol, **options)
    sent = backbone.asked[0][0]
    assert sent.startswith(begins)
    assert shown(write(tmp_path, [trace])) == [f"{around[0]}{sent}{around[1]}"]


def test_an_open_question(tmp_path: Path) -> None:
    asked = item(question=Question.open("What is red?"), answer=None)
    trace, backbone = answered("native", lambda request: "a place", asked, subtitles="none")
    assert shown(write(tmp_path, [trace])) == [backbone.written[0][0].text]


# ---- prompts that are not there --------------------------------------------------------------------------


def test_a_prompt_that_is_not_there_or_damaged_is_never_shown(tmp_path: Path) -> None:
    trace, _ = answered("adaptive", **{**OPTIONS, "planner_prompt": "full"})
    path, heads = write(tmp_path, [trace]), tmp_path / "prompts.jsonl"

    def missing() -> str:
        (read,) = read_traces(path)
        return str(StoredPrompts(read_heads(path)).of(read.rounds[0])["missing"])

    for damaged in (heads.read_text().replace("functions", "function"), ""):
        heads.write_text(damaged)
        assert "prompts.jsonl" in missing()
    content = json.loads(trace.to_line())
    del content["rounds"][0]["prompt"]
    path.write_text(json.dumps(content | {"schema": 4}) + "\n")
    assert "the run did not store its prompts" in missing()
