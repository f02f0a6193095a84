"""How the native method asks by a protocol, and reads a written reply; expected values by hand."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support import scenes as world
from tests.support.adapting import adapted
from tests.support.scenes import QUESTION, SceneBackbone, item
from tests.support.stub_server import StubServer, completion, entry
from tests.support.traces import make
from videopro.backbones import BackboneConfig, GenerateRequest, Interleaved
from videopro.backbones.server import ServerBackbone
from videopro.backbones.wrappers import Meter
from videopro.benchmarks.base import ROBUST
from videopro.benchmarks.protocol import AnswerPrompt, Metric, Protocol
from videopro.methods import Method, MethodContext, create
from videopro.methods.native import shown_lines
from videopro.methods.tracing import official_letter
from videopro.runs import summarize, summary_table
from videopro.traces import Trace
from videopro.video import SubtitleLine, Subtitles

ASKS = AnswerPrompt("x", "{subtitles}{question}\n{options}", system="Watch.", prefill="Best: (")
WRITES = Protocol("mlvu_4bcc3c0", name="writes", answer_prompt=ASKS, reply="text", reply_tokens=50)
ABOUT = {"method": "native", "benchmark": "b", "split": "test", "model": "m", "subtitles": "none"}


def ask(
    protocol: Protocol,
    writes: Callable[[GenerateRequest], str] = lambda request: "I see it: (B).",
    count: int = 1,
    subtitles: Path | None = None,
    **options: Any,
) -> tuple[list[Any], SceneBackbone]:
    backbone = SceneBackbone(writes)
    context = MethodContext(world.video(), backbone, protocol, meter=Meter())
    method: Method = create("native", adapted("native", options, protocol=protocol).options)
    items = [item(id=f"q{i}", subtitles=subtitles) for i in range(count)]
    return [result for _, result in method.run_video(items, context)], backbone


@pytest.mark.parametrize("count", [1, 3])
def test_a_written_reply_has_the_confidence_of_its_letter(count: int) -> None:
    results, backbone = ask(WRITES, count=count)
    # A word is a token of the fake model, of log-probability -0.1; the letter is one word of four.
    for result in results:
        assert (result.final.letter, result.final.raw) == ("B", "I see it: (B).")
        assert result.final.confidence == pytest.approx(math.exp(-0.1))
        assert official_letter(result, item(), WRITES) == "B"
    assert len(backbone.written) == count
    assert backbone.prefixes == (count > 1)
    for request, frames, _ in backbone.written:
        assert (request.system, request.prefill) == ("Watch.", "Best: (")
        assert request.text.startswith(QUESTION.text)
        assert frames == 12


@pytest.mark.parametrize("count", [1, 2])
def test_one_token_answers_are_a_setting(count: int) -> None:
    results, backbone = ask(WRITES, count=count, reply="letter")
    assert not backbone.written
    assert [len(result.final.letters) for result in results if result.final] == [4] * count
    # And written replies are one for a protocol of one-token answers.
    results, backbone = ask(Protocol(ROBUST), count=count, reply="text")
    assert len(backbone.written) == count


@pytest.mark.parametrize(
    ("metric", "reply", "expected"),
    [
        ("iou", "0:02 to 0:09, 11 to 9", ((2.0, 9.0), (9.0, 11.0))),
        ("grounding", "I cannot tell.", ()),
    ],
)
def test_a_reply_that_names_times_is_an_answer(
    metric: Literal["grounding", "iou"], reply: str, expected: tuple[Any, ...]
) -> None:
    protocol = replace(WRITES, reply="intervals", metrics=(Metric("own", metric),))
    ((result,), _) = ask(protocol, lambda request: reply)
    execution = result.rounds[0].execution
    assert execution.calls[0].intervals == expected
    assert execution.status == ("ok" if expected else "empty")


def test_frames_follow_the_protocol_and_the_options() -> None:
    # A minute at two frames a second.
    protocol = replace(WRITES, sampling="starts", fps=1.0, max_frames=6)
    _, backbone = ask(protocol)
    assert [frame.time for frame in backbone.shown[0]] == [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
    _, backbone = ask(protocol, frames=3, sampling="ends_floor")
    # 120 frames: 0, 59.5 rounded down, 119.
    assert [frame.time for frame in backbone.shown[0]] == [0.0, 29.5, 59.5]
    _, backbone = ask(protocol, frames=3, sampling="ends")
    # At a rate qwen-vl-utils takes pairs.
    assert [frame.time for frame in backbone.shown[0]] == [0.0, 59.5]
    assert backbone.written[0][0].system == "Watch."


def test_subtitles_stand_between_the_frames(tmp_path: Path) -> None:
    path = tmp_path / "said.srt"
    path.write_text(
        "1\n00:00:01,000 --> 00:00:11,000\nfirst\n\n2\n00:00:49,000 --> 00:00:59,000\nlast\n\n"
        "3\n00:00:12,000 --> 00:00:14,000\nunseen\n"
    )
    protocol = replace(WRITES, sampling="starts", max_frames=6, subtitles="interleaved")
    for count in (1, 2):
        _, backbone = ask(protocol, count=count, subtitles=path)
        (request, *_), *_ = backbone.written
        # Middles: 6 s, after the first frame (0 s), and 54 s, after the last one (50 s).
        visual: Any = request.visual
        if count == 1:
            assert isinstance(visual, Interleaved)
            assert visual.texts == ("", "first\n", "", "", "", "")
        assert len(backbone.shown[0]) == 6
        assert request.text.startswith(QUESTION.text)
    subtitled = replace(ASKS, text="{subtitles}{question}", subtitles="{lines}\n", line="[{start}] {text}")
    _, backbone = ask(replace(protocol, answer_prompt=subtitled), subtitles=path)
    assert backbone.written[0][0].text == f"[49.0] last\n{QUESTION.text}"


def test_questions_with_other_subtitles_share_no_prefix(tmp_path: Path) -> None:
    paths = [tmp_path / "one.srt", tmp_path / "two.srt"]
    for path in paths:
        path.write_text(f"1\n00:00:01,000 --> 00:00:11,000\n{path.stem}\n")
    backbone = SceneBackbone(lambda request: "(B)")
    protocol = replace(WRITES, sampling="starts", max_frames=6, subtitles="interleaved")
    context = MethodContext(world.video(), backbone, protocol, meter=Meter())
    method: Method = create("native", adapted("native", protocol=protocol).options)
    items = [item(id=path.stem, subtitles=path) for path in paths]
    assert [own.final.letter for _, own in method.run_video(items, context) if own.final] == ["B", "B"]
    said = [request.visual.texts[1] for request, *_ in backbone.written]  # type: ignore[union-attr]
    assert (said, backbone.prefixes) == (["one\n", "two\n"], 0)


def test_a_reply_that_is_cut_off_is_recorded_as_such() -> None:
    (result,), _ = ask(WRITES, lambda request: "word " * 60)
    assert (result.final.letter, result.final.confidence, result.final.cut_at) == (None, 0.0, 50)
    assert result.rounds[0].notes == {"cut off": "after 50 tokens"}
    # A setting raises the protocol's limit.
    (result,), _ = ask(WRITES, lambda request: "word " * 60 + "(B)", reply_tokens=100)
    assert (result.final.letter, result.final.cut_at, result.rounds[0].notes) == ("B", None, {})


def test_a_thinking_model_at_a_small_limit_is_named_with_the_fix(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A served model under 16 tokens, as Video-MME's protocol has: it thinks, says nothing, and the summary
    says why."""
    protocol = replace(WRITES, answer_prompt=None, reply_tokens=16)
    thought = completion(
        None, [entry("A", -0.5)] * 16, finish="length", message={"reasoning_content": "A or B? A"}
    )
    with StubServer(lambda body: thought) as stub:
        config = BackboneConfig("served", "server", base_url=stub.url, frames=2, pixels=4096)
        context = MethodContext(world.video(), ServerBackbone(config), protocol, meter=Meter())
        result: Any = create("native", {}).run(item(), context)
    assert (result.final.letter, result.final.raw, result.final.cut_at) == (None, "", 16)
    assert result.rounds[0].notes == {"cut off": "after 16 tokens", "thoughts": "A or B? A"}
    trace = make(rounds=result.rounds, final=result.final)
    assert Trace.from_line(trace.to_line()).final == result.final
    summary = summarize([replace(trace, question_id=name) for name in "abc"], protocol, ABOUT)
    assert summary["cut_replies"] == {"answers": {"questions": 3, "replies": 3, "unsaid": 3, "limits": [16]}}
    (said,) = (line for line in summary_table(summary, (), tmp_path).caption if "cut off" in line)
    assert said.startswith("3 written replies were cut off at 16 tokens, 3 of them before any answer text")


LINES = (
    SubtitleLine(0.0, 1.0, "one"),
    SubtitleLine(1.0, 3.0, "two\nrows"),
    SubtitleLine(2.9, 3.1, "short"),
    SubtitleLine(9.0, 10.0, "last"),
)


def said(rule: Any, *times: float) -> list[str]:
    return [line.text for line in shown_lines(Subtitles(LINES, "x"), rule, times)]


def test_lines_by_rule() -> None:
    assert said("none", 1.0) == []
    assert said("all") == ["one", "two\nrows", "short", "last"]
    assert said("frames", 1.0) == ["one", "two\nrows"]
    # The end is not part of a line (Video-MME, lmms-eval).
    assert said("frames_until", 1.0) == ["two rows"]
    assert said("frames_until", 3.0, 0.0) == ["one", "short"]
    # Nor is the start, and the order is that of the frames (CG-Bench).
    assert said("frames_inside", 1.0) == []
    assert said("frames_inside", 9.5, 2.95, 2.0) == ["last", "two rows", "short"]
    # The third line is widened to 2.5 to 3.5 s (LongVideoBench).
    assert said("interleaved", 2.6) == said("frames_widened", 2.6) == ["two\nrows", "short"]
