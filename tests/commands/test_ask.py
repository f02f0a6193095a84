"""One question about the user's own file: what is printed, and the errors for missing input."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.adapting import adapted
from tests.support.fakes import COLOURS, ColourBackbone, load_fake, make_video
from tests.support.infer_world import SRT
from tests.support.making_videos import damage, make
from videopro import methods
from videopro.backbones import GenerateRequest
from videopro.benchmarks import Item
from videopro.commands import infer
from videopro.commands.ask.command import AskConfig, _options, main
from videopro.commands.ask.console import ConsoleObserver, show_answer
from videopro.commands.infer_settings import InferConfig
from videopro.errors import ConfigError
from videopro.pocket import world
from videopro.question import Answer, Question
from videopro.traces import AnswerRule, Cost, Execution, Preparation, Result, Round, Segment, Step
from videopro.video import Frame


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("own") / "my film.mp4"
    make_video(path, "blue")
    return path


def test_choices(video: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [str(video), "Which colour?", "--choices", "red", "blue", "green", "--model", "m"]
    assert main(argv, load=load_fake) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "B. blue"
    assert "0.900" in shown[1]
    rows = [line.split() for line in shown[2:]]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("A", "red", "0.020"),
        ("B", "blue", "0.900"),
        ("C", "green", "0.020"),
    ]


def test_a_frame_that_stands_in_for_a_damaged_one_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """20 pictures, 10 a second, of which the key frame at 1 s is damaged, and so all after it; the two frames
    of the question are those at 0.5 s and 1.5 s, and the last intact one is at 0.9 s."""
    make(tmp_path / "a.mp4", 20, rate=10, options={"g": "10", "bf": "0"})
    damage(tmp_path / "a.mp4", [10])
    argv = [str(tmp_path / "a.mp4"), "Which?", "--choices", *COLOURS, "--model", "m", "--options", "frames=2"]
    said = "round 1, call 1 answer: the frame at 0.90 s stood in for the damaged one at 1.50 s"
    assert main([*argv, "--nearest-intact", "1"], load=load_fake) == 0
    assert said in " ".join(capsys.readouterr().out.split())
    assert main([*argv, "--nearest-intact", "1", "--json"], load=load_fake) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["notes"] == [said]


def test_an_unparsed_reply_is_reported_as_such(video: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [str(video), "Which colour? (mumble)", "--choices", "red", "blue", "--model", "m"]
    assert main(argv, load=load_fake) == 0
    shown = capsys.readouterr().out
    assert "no option: the model says 'Hmm'" in shown
    assert "confidence 0.000" in shown


def test_a_written_answer(video: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.srt").write_text(SRT)
    argv = [str(video), "What is [red] here?", "--model", "m", "--subtitles", str(tmp_path / "a.srt")]
    assert main(argv, load=load_fake) == 0
    shown = capsys.readouterr().out
    # The fake repeats its prompt; exp of the mean of -0.5 and -0.7 is 0.549.
    assert shown.startswith("I read: said early\nsaid in the middle\nWhat is [red] here?")
    assert "confidence 0.549" in shown


def test_subtitles_go_with_choices(video: Path, tmp_path: Path) -> None:
    (tmp_path / "a.srt").write_text(SRT)
    argv = [str(video), "Which?", "--choices", "red", "blue", "--model", "m"]
    argv += ["--subtitles", str(tmp_path / "a.srt"), "--backbone", f"log={tmp_path / 'prompt.txt'}"]
    assert main(argv, load=load_fake) == 0
    prompt = ast.literal_eval((tmp_path / "prompt.txt").read_text())
    assert prompt.startswith("said early\nsaid in the middle\nWhich?\nA. red\nB. blue\n")


PARTS = ("encoder", "text_encoder", "ocr", "detector", "tracker")


def test_ask_falls_back_to_a_direct_answer(
    video: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fake writes no programs, so the model answers directly, unless that is turned off."""
    argv = [str(video), "Which colour?", "--choices", "red", "blue", "green", "--model", "m"]
    argv += ["--method", "videopro", "--options", *(f"{part}=none" for part in PARTS)]
    assert main(argv, load=load_fake) == 0
    shown = capsys.readouterr().out
    assert "the method gave no answer: this is the model's direct one\nB. blue" in shown
    assert main([*argv, "--fallback", "none"], load=load_fake) == 0
    assert "no answer" in capsys.readouterr().out


def test_an_answer_that_a_refinement_lost_is_kept() -> None:
    made = methods.create(
        "videopro", _options(AskConfig(video=Path("v"), question="Q?", model="m", method="videopro"))
    )
    assert made.settings.reasoning().rule == AnswerRule("last-answered", "native")
    options = {"final": "last", "fallback": "none"}
    config = AskConfig(video=Path("v"), question="Q?", model="m", method="videopro", options=options)
    assert methods.create("videopro", _options(config)).settings.reasoning().rule == AnswerRule()
    default = methods.create("videopro", {}).settings.reasoning().rule
    assert default == AnswerRule(), "the paper's is a run's default"


class ExploringBackbone(ColourBackbone):
    """Scores every part alike, looks into one of them, then answers; "(mumble)": in no JSON."""

    def write(self, request: GenerateRequest, frames: Sequence[Frame]) -> str:
        if "(mumble)" in request.text:
            return "I am [red]not[/red] sure. " * 100
        if "New parts" not in request.text:
            is_second = "Looked into" in request.text
            in_words = "a few words" in request.text
            return json.dumps(
                {"answer": "a [blue] wall" if in_words else "B"} if is_second else {"segment": 3}
            )
        listed = request.text.partition("New parts")[2]
        numbers = re.findall(r"^(\d+): ", listed, re.MULTILINE)
        return json.dumps({number: {"why": f"wall {number}", "score": 40} for number in numbers})


VCA = ["--model", "m", "--method", "vca"]


@pytest.fixture(scope="module")
def long_video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """14 s: seven parts of two seconds."""
    path = tmp_path_factory.mktemp("own") / "long.mp4"
    make_video(path, "blue", 14.0)
    return path


def load_exploring(model: str, **settings: Any) -> ExploringBackbone:
    backbone = ExploringBackbone(model, **settings)
    backbone.frames = 16
    return backbone


def test_an_agents_steps_are_shown_as_they_happen(
    long_video: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [str(long_video), "Which colour?", "--choices", "red", "blue", "green", *VCA]
    assert main(argv, load=load_exploring) == 0
    shown = [line.strip() for line in capsys.readouterr().out.splitlines()]
    heads = [line for line in shown if re.match(r"\d+ (reward|evict|explore)", line)]
    assert [re.findall(r"\w+", line)[:2] for line in heads] == [
        ["1", "reward"], ["2", "explore"], ["3", "reward"], ["4", "evict"], ["5", "explore"],
    ]  # fmt: skip
    assert "round 2 · 6 frames" in heads[2]
    assert "3  0:06.0 – 0:08.0  40  wall 3" in shown
    assert "segment: 3" in shown
    assert any(line.startswith("3.6 ") for line in shown), "its parts"
    at = shown.index("B. blue")
    assert not any("confidence" in line for line in shown[at:]), "no answering call was made"
    table = {line.split()[0]: line.split()[1:] for line in shown[at:] if line}
    assert table["reward"][0] == table["explore"][0] == "2"
    assert table["in"][:2] == ["all", "5"]
    assert shown[-1] == "12 frames of the video were looked at"


def test_an_agents_unparsed_replies_are_cropped_and_its_fallback_is_named(
    long_video: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [str(long_video), "Which colour? (mumble) blue", "--choices", "red", "blue", *VCA]
    assert main(argv, load=load_exploring) == 0
    shown = capsys.readouterr().out
    assert "asked again, as the reply could not be parsed: there is no JSON object in the reply" in shown
    assert "   the reply could not be parsed: there is no JSON object in the reply" in shown
    assert "I am [red]not[/red] sure." in shown, "brackets are not markup"
    assert "more characters)" in shown
    assert max(map(len, shown.splitlines())) < 800
    assert "the method gave no answer: this is the model's direct one" in shown
    assert main([*argv, "--fallback", "none"], load=load_exploring) == 0
    last = capsys.readouterr().out
    assert "no option: the model says 'I am [red]not[/red] sure." in last


def test_an_agent_answers_in_words_if_it_can(long_video: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(long_video), "What is it?", *VCA], load=load_exploring) == 0
    assert "\na [blue] wall\n" in capsys.readouterr().out
    argv = [str(long_video), "What is it?", "--model", "m", "--method", "lvagent", "--options"]
    argv.append("agents=[a, b]")
    assert main(argv, load=load_exploring) == 2
    error = "method 'lvagent' answers multiple-choice questions only; give --choices"
    assert error in capsys.readouterr().err


def steps_shown(step: Step, capsys: pytest.CaptureFixture[str]) -> str:
    ConsoleObserver().on_step(step)
    return capsys.readouterr().out


def test_a_tools_call_is_shown_with_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    found = tuple(Segment(3600.0 + n, 3601.0 + n, score=0.5, text="a\nb") for n in range(20))
    shown = steps_shown(
        Step("search", args={"query": "a [kite]", "top": 3}, segments=found, result="20 clips"), capsys
    )
    assert "1 search(query=a [kite], top=3)" in shown
    assert "1:00:00.0 – 1:00:01.0  0.5  a b" in shown
    assert "and 8 more" in shown
    assert "20 clips" in shown
    shown = steps_shown(Step("mistake", args={"tool": "look"}, result="9 s is outside"), capsys)
    assert "1 mistake(tool=look)" in shown
    assert "9 s is outside" in shown
    reply = Step(
        "think", "llm", raw='Look. {"name"', parsed={"calls": [{"name": "look", "arguments": "[9]"}]}
    )
    assert steps_shown(reply, capsys).splitlines()[1:3] == ["   Look.", "   → look([9])"]
    again = Step("browse", "vlm", raw="A wall.", is_reused=True, cost=Cost(2.0, calls=1, tokens_in=7))
    assert "reused, it cost 2.00 s, 7 → 0 tokens" in steps_shown(again, capsys)


def test_claims_and_what_was_prepared_are_in_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    agent = Execution("ok", Answer("A", raw="A"), claim=1.0, steps=(Step("think", "llm", cost=Cost(1.0)),))
    prepared = (
        Preparation("database", "d", Cost(60.0, frames=500)),
        Preparation("selection", "s", is_known=False),
    )
    result = Result(
        (Round("agent", "A", execution=agent),), final=agent.answer, selected=0, prepared=prepared
    )
    show_answer(result, Question("Which?", ("one", "two")))
    shown = capsys.readouterr().out
    assert "the agent claims a confidence of 1.00" in shown
    rows = [line.split() for line in shown.splitlines()]
    assert ["prepared:", "database", "60.00", "s", "500", "–", "–"] in rows
    assert ["prepared:", "selection", "unknown"] in rows


BAD = [
    (["none.mp4", "Q?", "--model", "m"], "none.mp4"),
    (["VIDEO"], "'question' is missing"),
    (["VIDEO", "Q?"], "'model' is missing"),
    (["VIDEO", "Q?", "--choices", "one", "--model", "m"], "2 to 26 options"),
    (["VIDEO", "Q?", "--choices", "a", "b", "--model", "missing"], "model 'missing' does not exist"),
    (["VIDEO", "Q?", "--choices", "a", "b", "--model", "m", "--method", "magic"], "unknown method 'magic'"),
    (["VIDEO", "Q?", "--model", "m", "--subtitles", "none.srt"], "none.srt"),
    (["VIDEO", "Q?", "--model", "m", "--choises", "a"], "did you mean '--choices'?"),
    (["https://youtu.be/x?v=1", "Q?", "--model", "m"], "yt-dlp -f mp4 -o film.mp4 'https://youtu.be/x?v=1'"),
    (["s3://films/a.mp4", "Q?", "--model", "m"], "s3://films/a.mp4: videos are read from files only"),
    (["pocket:long_004", "Q?", "--model", "m"], "write pocket:SPLIT/NAME"),
    (["pocket:tst/long_004", "Q?", "--model", "m"], "no split 'tst'; did you mean 'test'?"),
    (["pocket:test/long_099", "Q?", "--model", "m"], "has no video 'long_099'; it has short_000 to long_021"),
    (
        [
            "VIDEO",
            "Q?",
            "--choices",
            "a",
            "b",
            "--model",
            "m",
            "--method",
            "program",
            "--planner",
            "pocket-techer",
        ],
        "did you mean 'pocket-teacher'?",
    ),
    (["VIDEO", "Which? (refuse)", "--choices", "a", "b", "--model", "m"], "cannot serve this request"),
]


@pytest.mark.parametrize(("argv", "expected"), BAD, ids=[expected for _, expected in BAD])
def test_bad_requests(
    video: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([str(video) if word == "VIDEO" else word for word in argv], load=load_fake) == 2
    waits = ("loading the model ...", "answering ...")
    errors = [line for line in capsys.readouterr().err.splitlines() if line not in waits]
    assert len(errors) == 1
    assert errors[0].startswith("error: ")
    assert expected in errors[0]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["VIDEO", "--model", "poket"], "model 'poket': there is no such folder; did you mean 'pocket'?"),
        (
            ["pocket:test/short_001", "--model", "pocket", "--backbone", "adapter=pocket-stf"],
            "did you mean 'pocket-sft'?",
        ),
        (["VIDEO", "--model", "m", "--max-new-tokens", "0"], "max_new_tokens is 0; it must be at least 1"),
    ],
)
def test_a_mistake_is_told_before_anything_is_loaded(
    video: Path, capsys: pytest.CaptureFixture[str], argv: list[str], expected: str
) -> None:
    film, *flags = (str(video) if word == "VIDEO" else word for word in argv)
    assert main([film, "Q?", *flags]) == 2
    said = capsys.readouterr().err
    assert expected in said
    assert "loading" not in said


def test_a_pocket_video_is_made_when_it_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its narration is beside it, and goes to the modules as an embedded track would."""
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path))
    asked: list[Item] = []

    native = methods.METHODS["native"]
    answer = native.run_video

    def recorded(
        self: methods.Method, items: Sequence[Item], context: methods.MethodContext
    ) -> Iterator[tuple[Item, Result]]:
        asked.extend(items)
        return answer(self, items, context)

    monkeypatch.setattr(native, "run_video", recorded)
    argv = ["pocket:test/short_001", "What colour?", "--choices", *COLOURS, "--model", "m"]
    assert main(argv, load=load_fake) == 0
    (item,) = asked
    assert item.video == world.ensure("test", videos=()) / "videos" / "short_001.mp4"
    assert item.video.stat().st_size > 0
    assert item.subtitles is not None
    assert "-->" in item.subtitles.read_text()


def test_the_pocket_model_gets_a_planner_that_can_write_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In ask and infer alike, and so that a run's record and key name it."""
    loaded: list[dict[str, Any]] = []

    def load(model: str, **settings: Any) -> ColourBackbone:
        loaded.append(settings)
        raise ConfigError("stop here")

    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path))
    argv = ["pocket:test/short_001", "Q?", "--choices", "a", "b", "--model", "pocket", "--method", "videopro"]
    assert main(argv, load=load) == 2
    assert "planner: the shipped adapter pocket-sft" in capsys.readouterr().err
    for own in (
        ["--planner", "pocket-teacher"],
        ["--backbone", "adapter=pocket-grpo"],
        ["--backbone", "adapter=null"],
    ):
        assert main([*argv, *own], load=load) == 2
        assert "shipped adapter" not in capsys.readouterr().err
    assert loaded == [{"adapter": "pocket-sft"}, {}, {"adapter": "pocket-grpo"}, {"adapter": None}]

    config = InferConfig(benchmark="pocket", model="pocket", output=tmp_path / "run", method="adaptive")
    start = infer.check(config)
    assert start.config.backbone == {"adapter": "pocket-sft"}
    assert "pocket-sft" in "\n".join(start.prepared.notes)
    assert infer.check(replace(config, method="native")).config.backbone == {}
    assert adapted("videopro", model="Qwen/Q", backbone={"frames": 8}).backbone == {"frames": 8}
