"""What programs of planners that the paper's release trained do: each runs here as it is written.

The names, signatures and forms of results are those of the release's runtime API, where clips are files of
their own, frames are pictures and answers are mappings.
"""

from typing import Any

import pytest

from tests.support import scenes as world
from tests.support.scenes import QUESTION, SceneBackbone
from videopro.backbones.wrappers import Meter, MeteredBackbone, ThreadMeter
from videopro.executor import Limits, parse_program
from videopro.methods.program import execute
from videopro.modules.calls import ClipTimes


def run(body: str, clip_times: ClipTimes = "video", limits: Limits | None = None) -> Any:
    """The execution of a program with this body, about the red scene (B) at 10 to 20 s."""
    lines = "".join(f"    {line}\n" for line in body.strip().split("\n"))
    program = parse_program(
        f"<code>\ndef execute_command(video_path, question, choices, duration):\n{lines}</code>"
    )
    meter = ThreadMeter()
    context = world.video_context(MeteredBackbone(SceneBackbone(), meter), clip_times=clip_times)
    with meter.into(Meter()):
        execution, _ = execute(program, QUESTION, context, limits=limits or Limits(), thread_meter=meter)
    return execution


RED = 'intervals, clips = get_informative_clips(video_path, "red", top_k=1, total_duration=duration)\n'
ASK = "result = query_mc(extract_frames(clips[0]), question, choices)\n"


@pytest.mark.parametrize(
    "ending",
    [
        "return finalize_result(result)",
        "return finalize_result(result['answer'], result['confidence'], result['raw_output'])",
        "return finalize_result(**result)",
        "return normalize_model_result(dict(result), choices=choices, metadata={'mode': 'mc'})",
        "return normalize_model_result((result['answer'], result['confidence'], 'B.'), choices)",
        "return normalize_model_result('The answer is ' + result['answer'] + '.', choices)",
        "return normalize_model_result({'text': 'red', 'score': 0.4}, choices)",
        "copied = result.copy()\ncopied['confidence'] = 0.5\nreturn copied",
        "assert len(result.items()) == 4 and 'metadata' in result and list(result.values())\nreturn result",
    ],
)
def test_results_are_mappings_and_are_put_into_form(ending: str) -> None:
    execution = run(RED + ASK + ending)
    assert execution.error is None
    assert (execution.status, execution.answer.letter) == ("ok", "B")
    # The answering call's own confidence, whatever the program says of it.
    assert execution.answer.confidence == pytest.approx(0.9)


def test_a_text_that_names_no_option_is_no_answer() -> None:
    execution = run("return normalize_model_result('purple, I think', choices)")
    assert (execution.status, execution.answer.letter) == ("empty", None)
    # A letter that no query gave has no confidence.
    execution = run("return normalize_model_result('B', choices)")
    assert (execution.answer.letter, execution.answer.confidence) == ("B", 0.0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return finalize_result(5)", "finalize_result(): an answer, a dict with 'answer', a pair or a text"),
        ("return normalize_model_result('B', choices, 3)", "metadata must be a dict, not int"),
        (RED + ASK + "result['answer'] = 'A'\nreturn result", "change a copy of it: answer.copy()"),
    ],
)
def test_wrong_uses_are_explained(body: str, message: str) -> None:
    error = run(body).error
    assert message in error.message


def test_frames_are_pictures() -> None:
    """64 x 48 pixels; a crop is the call of `crop`, with its checks and in the trace."""
    execution = run(
        RED
        + """
frame = extract_frames(clips[0])[0]
width, height = frame.size
left = frame.crop((0, 0, width // 2, height))
assert (width, height, left.size, left.width) == (64, 48, (32, 48), 32)
assert frame.crop([0, 0, 10, 8]).crop((2, 2, 6, 6)).size == (4, 4)
return query_mc([left], question, choices)
"""
    )
    assert execution.error is None
    assert execution.answer.letter == "B"
    assert [call.fn for call in execution.calls].count("crop") == 3
    assert execution.calls[-1].frames[0][3:] == (0.0, 0.0, 0.5, 1.0)


def test_a_crop_costs_what_the_call_costs() -> None:
    body = RED + "frame = extract_frames(clips[0])[0]\nfor i in range(9):\n    frame.crop((0, 0, 9, 9))"
    execution = run(body, limits=Limits(calls=5))
    assert execution.error.type == "CallLimit"
    outside = run(RED + "return extract_frames(clips[0])[0].crop((70, 0, 80, 9))").error
    assert "holds nothing of the frame" in outside.message
    # A program may have a `crop` of its own.
    own = "crop = None\nreturn query_mc(extract_frames(clips[0])[0].crop((0, 0, 9, 9)), question, choices)"
    assert run(RED + own).answer.letter == "B"


TRIMS = {
    "trim_frames(clips[0], 2, 6, num_frames=4)": (12.0, 16.0),
    "trim_around(clips[0], 5, intervals=4, num_frames=4)": (13.0, 17.0),
    "trim_before(clips[0], 6, intervals=4, num_frames=4)": (12.0, 16.0),
    "trim_after(clips[0], 6, intervals=30, num_frames=4)": (16.0, 20.0),
    "trim_frames(video_path, 12, 16, num_frames=4)": (12.0, 16.0),
}


@pytest.mark.parametrize("call", TRIMS)
def test_times_in_a_clip_may_count_from_its_start(call: str) -> None:
    start, end = TRIMS[call]
    body = RED + f"frames = {call}\nassert all({start} <= frame.time <= {end} for frame in frames), frames\n"
    execution = run(body + "return query_mc(frames, question, choices)", clip_times="clip")
    assert execution.error is None
    assert (execution.answer.letter, len(execution.calls[-1].frames)) == ("B", 4)


def test_otherwise_they_count_from_the_start_of_the_video() -> None:
    body = RED + "return query_mc(trim_frames(clips[0], 2, 6), question, choices)"
    assert "from 10 to 20 s (times are seconds of the whole video)" in run(body).error.message
    inside = run(body.replace("2, 6", "12, 16"), clip_times="clip")
    assert "from 0 to 10 s (times are seconds of the clip)" in inside.error.message
