"""`videopro ask`: what it prints of one question, for programs (--json) too, and what it keeps (--output)."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.adapting import adapted
from tests.support.colours import COLOURS, SRT, ColourBackbone, load_fake, make_video
from tests.support.making_videos import damage, make
from tests.support.scenes import NO_MODELS
from videopro import methods
from videopro.commands import infer, view
from videopro.commands.ask.command import AskConfig, _options, main
from videopro.commands.ask.console import ConsoleObserver, print_code, show_answer
from videopro.commands.infer_settings import InferConfig
from videopro.errors import BackboneError, ConfigError
from videopro.methods.planners import PlannerReply, PlanRequest
from videopro.methods.program import round_from_reply
from videopro.question import Answer, Question
from videopro.runs import AskedRun
from videopro.traces import AnswerRule, Cost, Execution, Preparation, Result, Round, Segment, Step

PROGRAM = """
def execute_command(video, question):
    frames = extract_frames(video, num_frames=2)
    return query_mc(frames, question, choices)
"""
QUESTION = ["Which colour?", "--choices", "red", "blue", "green", "--model", "m"]

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a blue video of two seconds, and one of 14: seven parts of two."""
    folder = tmp_path_factory.mktemp("own")
    make_video(folder / "my video.mp4", "blue")
    make_video(folder / "long.mp4", "blue", 14.0)
    return folder


@pytest.fixture
def video(videos: Path) -> Path:
    return videos / "my video.mp4"


@pytest.fixture
def ask(capsys: Capture) -> Callable[..., str]:
    """Run the command with these words; what it prints."""

    def printed(*words: object, status: int = 0, load: Any = load_fake) -> str:
        capsys.readouterr()
        assert main([str(word) for word in words], load=load) == status
        return capsys.readouterr().out

    return printed


Ask = Callable[..., str]


def test_choices(video: Path, ask: Ask) -> None:
    shown = ask(video, *QUESTION).splitlines()
    assert shown[0] == "B. blue"
    assert "0.900" in shown[1]
    assert shown[-1].startswith("1 model call, ")
    # What the fake says of its tokens: 100 and one for each of its four frames, and one for the letter.
    assert shown[-1].endswith(" s, 104 → 1 tokens")
    rows = [line.split() for line in shown[2:5]]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("A", "red", "0.020"),
        ("B", "blue", "0.900"),
        ("C", "green", "0.020"),
    ]
    assert shown[5].split()[0] == "see"
    mumbled = ask(video, "Which colour? (mumble)", *QUESTION[1:])
    assert "no option in the reply: 'Hmm'" in mumbled
    assert "confidence 0.000" in mumbled


def test_a_frame_that_stands_in_for_a_damaged_one_is_told(tmp_path: Path, ask: Ask) -> None:
    """20 pictures, 10 a second, of which the key frame at 1 s is damaged, and so all after it; the two frames
    of the question are those at 0.5 s and 1.5 s, and the last intact one is at 0.9 s."""
    make(tmp_path / "a.mp4", 20, rate=10, options={"g": "10", "bf": "0"})
    damage(tmp_path / "a.mp4", [10])
    asked = [tmp_path / "a.mp4", "Which?", "--choices", *COLOURS, "--model", "m", "--options", "frames=2"]
    asked += ["--nearest-intact", "1"]
    said = "round 1, call 1 answer: the frame at 0.90 s stood in for the damaged one at 1.50 s"
    assert said in " ".join(ask(*asked).split())
    assert json.loads(ask(*asked, "--json").splitlines()[-1])["notes"] == [said]


def test_subtitles_are_shown_to_the_model_with_and_without_choices(
    video: Path, tmp_path: Path, ask: Ask
) -> None:
    (tmp_path / "a.srt").write_text(SRT)
    subtitles = ["--subtitles", tmp_path / "a.srt"]
    # The fake repeats its prompt; exp of the mean of -0.5 and -0.7 is 0.549.
    shown = ask(video, "What is [red] here?", "--model", "m", *subtitles)
    assert shown.startswith("I read: said early\nsaid in the middle\nWhat is [red] here?")
    assert "confidence 0.549" in shown
    ask(video, *QUESTION, *subtitles, "--backbone", f"log={tmp_path / 'prompt.txt'}")
    prompt = ast.literal_eval((tmp_path / "prompt.txt").read_text())
    assert prompt.startswith("said early\nsaid in the middle\nWhich colour?\nA. red\nB. blue\n")


def test_ask_falls_back_to_a_direct_answer(video: Path, ask: Ask) -> None:
    """The fake writes no programs, so the model answers directly, unless that is turned off."""
    asked = [video, *QUESTION, "--method", "videopro", "--options", *NO_MODELS]
    assert "the method gave no answer; this is the model's direct answer\nB. blue" in ask(*asked)
    assert "no answer" in ask(*asked, "--fallback", "none")


def test_an_answer_that_a_refinement_lost_is_kept() -> None:
    def rule(**options: str) -> AnswerRule:
        config = AskConfig(video=Path("v"), question="Q?", model="m", method="videopro", options=options)
        rule: AnswerRule = methods.create("videopro", _options(config)).settings.reasoning().rule
        return rule

    assert rule() == AnswerRule("last-answered", "native")
    assert rule(final="last", fallback="none") == AnswerRule()
    default = methods.create("videopro", {}).settings.reasoning().rule
    assert default == AnswerRule(), "the paper's is a run's default"


# ---- agents ------------------------------------------------------------------------------------------------


def test_a_tools_call_is_shown_with_its_arguments(capsys: Capture) -> None:
    def shown(step: Step) -> str:
        ConsoleObserver().on_step(step)
        return capsys.readouterr().out

    found = tuple(Segment(3600.0 + n, 3601.0 + n, score=0.5, text="a\nb") for n in range(20))
    search = shown(Step("search", args={"query": "a [kite]", "top": 3}, segments=found, result="20 clips"))
    for text in ("1 search(query=a [kite], top=3)", "1:00:00.0 – 1:00:01.0  0.5  a b", "and 8 more"):
        assert text in search
    assert "20 clips" in search
    mistake = shown(Step("mistake", args={"tool": "look"}, result="9 s is outside"))
    assert "1 mistake(tool=look)" in mistake
    assert "9 s is outside" in mistake
    called = {"calls": [{"name": "look", "arguments": "[9]"}]}
    reply = shown(Step("think", "llm", raw='Look. {"name"', parsed=called))
    assert reply.splitlines()[1:3] == ["   Look.", "   → look([9])"]
    again = shown(Step("browse", "vlm", raw="A wall.", is_reused=True, cost=Cost(2.0, calls=1, tokens_in=7)))
    assert "reused; cost 2.00 s, 7 → 0 tokens" in again


def test_claims_and_what_was_prepared_are_in_the_end(capsys: Capture) -> None:
    agent = Execution("ok", Answer("A", raw="A"), claim=1.0, steps=(Step("think", "llm", cost=Cost(1.0)),))
    prepared = (
        Preparation("database", "d", Cost(60.0, frames=500)),
        Preparation("selection", "s", is_known=False),
    )
    rounds = (Round("agent", "A", execution=agent),)
    result = Result(rounds, final=agent.answer, selected=0, prepared=prepared)
    show_answer(result, Question("Which?", ("one", "two")))
    shown = capsys.readouterr().out
    assert "the agent claims a confidence of 1.00" in shown
    rows = [line.split() for line in shown.splitlines()]
    assert ["prepared:", "database", "60.00", "s", "500", "–", "–"] in rows
    assert ["prepared:", "selection", "unknown"] in rows


# ---- the pocket world --------------------------------------------------------------------------------------


def test_the_pocket_model_gets_a_planner_that_can_write_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """In ask and infer alike, and so that a run's record and key name it."""
    loaded: list[dict[str, Any]] = []

    def load(model: str, **settings: Any) -> ColourBackbone:
        loaded.append(settings)
        raise ConfigError("stop here")

    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path))
    argv = ["pocket:test/short_001", "Q?", "--choices", "a", "b", "--model", "pocket", "--method", "videopro"]
    own = (["--planner", "pocket-teacher"], ["--backbone", "adapter=pocket-grpo"])
    for more in ([], *own, ["--backbone", "adapter=null"]):
        assert main([*argv, *more], load=load) == 2
        is_told = "planner: the shipped adapter pocket-sft" in capsys.readouterr().err
        assert is_told == (more == [])
    assert loaded == [{"adapter": "pocket-sft"}, {}, {"adapter": "pocket-grpo"}, {"adapter": None}]

    config = InferConfig(benchmark="pocket", model="pocket", output=tmp_path / "run", method="adaptive")
    start = infer.check(config)
    assert start.config.backbone == {"adapter": "pocket-sft"}
    assert "pocket-sft" in "\n".join(start.prepared.notes)
    assert infer.check(replace(config, method="native")).config.backbone == {}
    assert adapted("videopro", model="Qwen/Q", backbone={"frames": 8}).backbone == {"frames": 8}


# ---- for programs, and kept --------------------------------------------------------------------------------


def events(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines()]


def test_a_program_is_told_step_by_step_with_its_evidence_and_its_answer(
    video: Path, tmp_path: Path, ask: Ask
) -> None:
    (tmp_path / "plan.py").write_text(PROGRAM)
    planned = ["--method", "videopro", "--planner", f"file:{tmp_path / 'plan.py'}", "--options", *NO_MODELS]
    told = events(ask(video, *QUESTION, "--json", *planned))
    waits = [event["doing"] for event in told if event["type"] == "wait"]
    assert waits == ["loading the model", "preparing the video", "indexing", "answering", "planning"]
    steps = told[len(waits) :]
    kinds = [event["type"] for event in steps]
    assert kinds == ["reply", "call", "call", "execution", "evidence", "answer"]
    reply, extracted, asked, execution, piece, answer = steps
    assert (reply["program"].strip(), reply["round"]) == (PROGRAM.strip(), 0)
    calls = [(call["number"], call["name"]) for call in (extracted, asked)]
    assert calls == [(1, "extract_frames"), (2, "query_mc")]
    assert (execution["status"], execution["letter"], execution["confidence"]) == ("ok", "B", 0.9)
    times = [frame["time"] for frame in asked["frames"]]
    assert len(times) == 2
    assert (piece["kind"], piece["source"], piece["times"]) == ("frames", "call 2 query_mc", times)
    assert (piece["start"], piece["end"]) == (times[0], times[1])
    assert (answer["letter"], answer["choice"], answer["confidence"]) == ("B", "blue", 0.9)
    assert answer["error"] is None


@pytest.mark.parametrize(
    ("argv", "kind", "message"),
    [
        (["nowhere.mp4", "Q?", "--model", "m"], "VideoError", "nowhere.mp4"),
        (["VIDEO", "Q?", "--model"], "ConfigError", "--model"),
        (["VIDEO", "Q?", "--model", "m", "--output", "VIDEO"], "RunError", "is not a directory"),
    ],
    ids=["the video", "the command line", "the folder"],
)
def test_an_error_is_one_object(video: Path, ask: Ask, argv: list[str], kind: str, message: str) -> None:
    (told,) = events(ask("--json", *(video if word == "VIDEO" else word for word in argv), status=2))
    assert (told["type"], told["error"]["type"], told["cost"]["calls"]) == ("error", kind, 0)
    assert message in told["error"]["message"]


def test_a_question_that_fails_is_told_by_the_name_of_its_failure_and_kept(
    video: Path, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(self: ColourBackbone, requests: object) -> list[Answer]:
        raise BackboneError("out of order")

    monkeypatch.setattr(ColourBackbone, "answer_batch", refuses)
    told = events(ask(video, *QUESTION, "--json", "--output", tmp_path / "run", status=2))[-1]
    assert (told["type"], told["error"]) == ("error", {"type": "BackboneError", "message": "out of order"})
    # It looked at the frames before it failed.
    assert told["cost"]["frames"] == 4
    (trace,) = AskedRun(tmp_path / "run").read()
    assert (trace.error.type, trace.error.message) == ("BackboneError", "out of order")


def test_what_a_library_prints_is_not_among_the_objects(video: Path) -> None:
    # In a process of its own, as the terminal has it.
    script = (
        "import sys\nfrom tests.support.colours import load_fake\n"
        "from videopro.commands.ask.command import main\n"
        "def load(model, **settings):\n    print('loading shards: 100 %')\n    return load_fake(model)\n"
        "sys.exit(main(load=load))\n"
    )
    argv = [sys.executable, "-c", script, str(video), *QUESTION, "--json"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert events(done.stdout)[-1]["type"] == "answer"
    assert "loading shards" in done.stderr


def test_a_folder_collects_questions_of_one_method_and_model(
    video: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(video.parent)
    run = tmp_path / "run"
    argv = [video.name, *QUESTION, "--output", str(run)]
    assert main(argv, load=load_fake) == 0
    assert f"stored as question 1 in {run}: videopro view {run} --open" in capsys.readouterr().err
    assert main([*argv, "--json"], load=load_fake) == 0
    stored = {"type": "stored", "folder": str(run), "question_id": "2"}
    assert stored in events(capsys.readouterr().out)
    assert main([video.name, "What is it?", "--model", "m", "--output", str(run)], load=load_fake) == 0
    traces = AskedRun(run).read()
    assert [trace.question_id for trace in traces] == ["1", "2", "3"]
    assert [trace.question for trace in traces] == ["Which colour?", "Which colour?", "What is it?"]
    assert (traces[0].final.letter, traces[0].video.path) == ("B", str(video))
    capsys.readouterr()
    # Another method, and another model.
    assert main([*argv, "--method", "videopro", "--options", *NO_MODELS], load=load_fake) == 2
    assert "used method 'native', not 'videopro'" in capsys.readouterr().err
    argv[argv.index("m")] = "n"
    assert main(argv, load=load_fake) == 2
    assert "model.model: the run has 'm', this command 'n'" in capsys.readouterr().err
    assert len(AskedRun(run).read()) == 3
    assert view.main([str(run), "--no-pictures"]) == 0
    assert "3 questions" in capsys.readouterr().out


# ---- on the terminal ---------------------------------------------------------------------------------------

CODE = """def execute_command(video, question):
    intervals, clips = get_informative_clips(video, "the school", top_k=1)
    for clip in clips:
        if clip:
            text = "Lines of the narration: " + " ".join(line.text for line in lines if line.start < 30)
    return query_mc(clips, question, choices)"""


def test_a_program_has_numbered_lines_and_loses_nothing(capsys: Capture) -> None:
    print_code(CODE)
    shown = capsys.readouterr().out.splitlines()
    numbered = [line for line in shown if re.match(r" +\d+ ", line)]
    assert [int(line.split()[0]) for line in numbered] == [1, 2, 3, 4, 5, 6], "a continuation has no number"
    assert "".join("".join(re.sub(r"^ +\d+ ", "", line) for line in shown).split()) == "".join(CODE.split())


def replied(text: str) -> Round:
    return round_from_reply(PlanRequest("plan", "Which?", Question.open("Which?")), PlannerReply(text))[0]


def test_replies_that_are_no_program_are_cropped(capsys: Capture) -> None:
    def shown(text: str) -> str:
        ConsoleObserver().on_reply(replied(text))
        return capsys.readouterr().out

    words = shown("word " * 1000)
    assert "more characters)" in words
    assert len(words) < 1000
    look = "look " + "and look " * 500
    garbled = shown(f"<planning>{look}</planning><code>def execute_command(:\n" + "x = 1\n" * 500)
    # 24 lines of its 501 are shown: 477 of "x = 1" are left out, with their line ends (but the last).
    assert f"({477 * 6:,} more characters)" in garbled
    assert garbled.count("x = 1") == 23
    assert "and look" in garbled
    assert len(garbled) < 2000
    assert "more characters" not in shown(f"<planning>Look.</planning>\n<code>\n{CODE}\n</code>")


def test_a_wait_is_a_line_on_stderr_and_on_a_terminal_cleared_before_anything_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with ConsoleObserver() as observer:
        observer.on_wait("planning")
    assert tuple(capsys.readouterr()) == ("", "planning ...\n")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    with ConsoleObserver() as observer:
        observer.on_wait("planning")
        observer.on_reply(replied("no program"))
        err = capsys.readouterr().err
        assert "planning ..." in err
        assert err.rindex("\x1b[2K") > err.rindex("planning ..."), "the line is erased"
        assert "\x1b[?25h" in err, "the cursor is back"
