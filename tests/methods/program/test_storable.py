"""What a program sends and the modules accept is stored and read back equal; what cannot be stored is the
program's failure, which it can read. Every module, with hostile values and any keyword."""

import functools
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.stress.module_programs import HEAD, KEYWORDS, VALUES
from tests.support.scenes import QUESTION, SceneBackbone, reply, video_context
from tests.support.traces import make
from videopro.backbones.wrappers import BatchingBackbone, MeteredBackbone, ThreadMeter
from videopro.executor import Limits, parse_program
from videopro.methods.planners import PlannerReply, PlanRequest
from videopro.methods.program import answer_natively, execute
from videopro.methods.program.rounds import round_from_reply
from videopro.modules import ModuleLibrary, VideoContext
from videopro.modules.calls import MODULES
from videopro.modules.errors import ArgumentError
from videopro.question import Question
from videopro.traces import Round, Trace

METER = ThreadMeter()


@functools.cache
def world() -> VideoContext:
    return video_context(MeteredBackbone(BatchingBackbone(SceneBackbone(), adapter=False), METER))


def run(body: str, question: Question = QUESTION, **limits: Any) -> Any:
    """Run a program, and check that its trace is read as it was written."""
    program = parse_program(reply(body))
    execution, _ = execute(program, question, world(), limits=Limits(**limits), thread_meter=METER)
    trace = make(rounds=(Round("plan", "raw", program.code, execution, "program"),))
    trace = replace(trace, first=execution.answer, final=execution.answer)
    line = trace.to_line()
    assert Trace.from_line(line) == trace
    assert len(line) < 1 << 21
    return execution


# The other parts of a frame are cut as its left one is.
NAMES = [name for name in MODULES if not name.startswith("crop_") or name == "crop_left"]


@pytest.mark.parametrize("name", NAMES)
def test_every_module_takes_any_value_in_every_place_and_any_keyword(name: str) -> None:
    """What a module accepts is its own affair; that the program can go on, and that all of it is stored, is
    not. No keyword meets a parameter of ours."""
    before = ("", "video, ", "frame, ", "video, question, ")
    lines = [HEAD, f"for keyword in {json.dumps(KEYWORDS)}:"]
    lines += [f'    attempt({name}, {given}**{{keyword: "A"}})' for given in ("", 'frame, "what", ')]
    lines += [f"attempt({name}, {given}{value})" for value in VALUES for given in before]
    body = "\n".join(lines) + "\nreturn query_native(video, question, choices)"
    execution = run(body, cpu_seconds=60, argument_bytes=1 << 22, calls=1000, frames=1 << 20)
    assert (execution.error, execution.answer.letter) == (None, "D")
    assert {call.fn for call in execution.calls} >= {name, "query_native"}
    errors = {call.result.partition(":")[0] for call in execution.calls if "Error:" in call.result[:40]}
    # This world has no tracker.
    assert errors <= {"ArgumentError", "NotFoundError", "UnavailableError"}


@pytest.mark.parametrize(
    "returned",
    ["('A', 10**308)", "{'answer': 'A', 'confidence': 2**1024 - 1}", "make_result('A', -10**400)"],
)
def test_a_number_that_cannot_be_stored_is_a_readable_failure(returned: str) -> None:
    execution = run("return " + returned)
    assert execution.error.type == "TooLarge"
    assert "beyond 308 digits" in execution.error.message


@pytest.mark.parametrize(
    ("value", "claim"), [("10**308 - 1", 1.0), ("1 - 10**308", 0.0), ("1e308", 1.0), ("float('nan')", None)]
)
def test_a_number_that_can_be_stored_is_a_claim(value: str, claim: float | None) -> None:
    assert run(f"return 'A', {value}").claim == claim


def test_a_flood_of_keywords_is_cut_and_says_so() -> None:
    """256 calls with 0.9 MB of keywords each: 36 MiB were stored."""
    execution = run(
        """for many, long in ((4500, 180), *[(32, 600)] * 80):
    try:
        crop(**{f"k{i}": "x" * long for i in range(many)})
    except Exception:
        pass
return query_native(video, question, choices)"""
    )
    assert execution.answer.letter == "D"
    first, second, last = execution.calls[0], execution.calls[1], execution.calls[-2]
    assert first.args["k0"] == "x" * 180
    assert first.args["…"] == "4,468 more arguments; a call's first 32 are recorded"
    assert second.args["k31"] == "x" * 500 + "… (600 characters)"
    cut = "32 more arguments; the first 524,288 characters of a program's arguments are recorded"
    assert last.args == {"…": cut}


def test_long_names_texts_and_many_intervals_are_cut() -> None:
    execution = run(
        """for i in range(200):
    try:
        crop(**{"k" * 4_000 + str(i): 1})
    except Exception as error:
        assert len(str(error)) < 500
made = make_result("A", raw_output="r" * 900_000, note="n" * 90_000)
return made"""
    )
    assert execution.error is None
    assert execution.calls[0].args == {"k" * 100 + "… (4,001 characters)": 1}
    assert execution.calls[-1].args["note"] == "n" * 500 + "… (90,000 characters)"
    assert len(execution.answer.raw) == 4000


LONG_TEXTS = [
    ("query_native(video, 'x' * 200_000, choices)", "question has 200,000 characters; give at most 16,000"),
    ("query_yn(frame, question, context=['x' * 20_000] * 2)", "context has 40,001 characters"),
    ("query_mc(frame, 'x' * 9_000, choices, context='x' * 30_000)", "its texts have 39,0"),
    ("get_informative_clips(video, 'x ' * 100_000)", "query has 199,999 characters"),
    ("get_informative_clips(video, 'red', top_k=10**30)", "0000; give at most 10,000"),
    ("get_subtitle_hints(video, question, choices, word_number=99_999)", "at most 3,000 words"),
    ("extract_frames(video, num_frames=10**307)", "one call gives at most 1024 frames"),
    ("query_yn([video] * 2000, question)", "frames holds more than 8,192 frames"),
]


@pytest.mark.parametrize(("call", "message"), LONG_TEXTS, ids=[call for call, _ in LONG_TEXTS])
def test_what_takes_time_beyond_every_deadline_is_bounded(call: str, message: str) -> None:
    execution = run(f"frame = extract_frames(video, num_frames=1)[0]\nreturn {call}")
    assert execution.error.type == "ArgumentError"
    assert message in execution.error.message


def test_the_time_of_modules_has_a_limit() -> None:
    """Whatever the program catches: its calls so far took longer than they may."""
    body = """while True:
    try:
        query_yn(extract_frames(video), f"Is it {random.random()}?")
    except BaseException:
        pass"""
    execution = run("import random\n" + body, module_seconds=1e-9)
    assert (execution.error.type, execution.error.line) == ("ModuleTimeLimit", 5)
    assert "the program's calls took more than 1e-09 s: make fewer of them" in execution.error.message


def test_a_model_of_short_prompts_is_sent_shorter_texts() -> None:
    """A tokenizer may make a token of every character."""
    backbone = SceneBackbone()
    backbone.context_tokens = 500
    functions = ModuleLibrary(video_context(backbone)).functions()
    video = ModuleLibrary(video_context(backbone)).video
    (frame,) = functions["extract_frames"](video, 1)
    assert functions["query_yn"](frame, "Is it red?", context="x" * 490).answer == "No"
    with pytest.raises(ArgumentError, match="context has 501 characters; give at most 500"):
        functions["query_yn"](frame, "Is it red?", context="x" * 501)
    with pytest.raises(ArgumentError, match="its texts have 502 characters together; give at most 500"):
        functions["query_yn"](frame, "Is it red?", context="x" * 492)


def test_intervals_of_many_retrievals_are_left_out_and_the_call_says_so() -> None:
    library = ModuleLibrary(video_context(SceneBackbone()))
    find = library.functions()["get_informative_clips"]
    for _ in range(1700):
        find(library.video, "red", 6)
    assert sum(len(call.intervals) for call in library.calls) == 6 * 1666
    assert library.calls[1665].result == library.calls[0].result
    assert library.calls[1666].intervals == ()
    assert library.calls[1666].result.endswith(" (its intervals are not recorded: there are too many)")


def test_a_reply_that_no_planner_writes_is_cut() -> None:
    asked = PlanRequest("plan", "Which?", Question.open("Which?"))
    said = round_from_reply(asked, PlannerReply(f"{reply('return 1')}{'x' * (2 << 20)}", 1, 1, 1))[0]
    assert said.program == parse_program(reply("return 1")).code
    assert said.raw.endswith(f"x… ({len(reply('return 1')) + (2 << 20):,} characters)")
    assert len(said.raw) < (1 << 20) + 100


def test_the_questions_own_text_is_never_too_long() -> None:
    long = replace(QUESTION, text="word " * 8_000)
    assert run("return query_native(video, question, choices)", long).answer.letter == "D"
    assert answer_natively(long, world(), thread_meter=METER).answer.letter == "D"
    execution = run("return query_native(video, question + question, choices)", long)
    assert "question has 79,999 characters; give at most 40,0" in execution.error.message
