"""The confidence of letters that programs reason: which calls decided, and what it comes to.

Expected values are worked out by hand from the minute of coloured scenes (tests/support/scenes.py): a
yes-or-no question is answered with 0.8, text is read with 0.9, one colour is chosen among others with the
share of the frames that have it less 0.1 (0.9 within a scene), and a search has no confidence.
"""

import functools
from dataclasses import replace
from typing import Any

import pytest

from tests.support.scenes import QUESTION, SCENES, SceneBackbone, reply, video_context
from videopro.backbones.wrappers import MeteredBackbone, ThreadMeter
from videopro.executor import DEFAULT_LIMITS, Limits, parse_program
from videopro.executor import run as executor_run
from videopro.methods.program import OtherVideos, execute
from videopro.methods.program.isolated import tells_replays
from videopro.modules import ModuleLibrary, VideoContext
from videopro.modules.calls import MODULES, CallContext, SingleFrame


@functools.cache
def world() -> tuple[VideoContext, SceneBackbone, ThreadMeter]:
    backbone, meter = SceneBackbone(), ThreadMeter()
    return video_context(MeteredBackbone(backbone, meter)), backbone, meter


RED = 'frames = extract_frames(get_informative_clips(video, "red", top_k=1)[1][0], num_frames=4)\n'
GREY = "grey = trim_frames(video, 0, 9, num_frames=4)\n"


def run(body: str, rule: Any = "product", limits: Limits = DEFAULT_LIMITS) -> Any:
    program = parse_program(reply(body))
    assert not program.faults
    minute, _, meter = world()
    execution, _ = execute(program, QUESTION, minute, limits=limits, thread_meter=meter, reasoned=rule)
    return execution


def decided(execution: Any) -> str:
    """The modules whose calls decided; those of which several together did, joined."""
    deciding = execution.reasoned.deciding
    return " ".join("+".join(execution.calls[call].fn for call in calls.calls) for calls in deciding)


# The body, what decided, the product and the least of the confidences.
REASONED: dict[str, tuple[str, tuple[str, float, float]]] = {
    "yes or no": (RED + 'return "B" if query_yn(frames, "Is it red?") else "A"', ("query_yn", 0.8, 0.8)),
    "both needed": (
        RED + GREY + 'a = query_yn(frames, "Is it red?")\nb = query_yn(grey, "Is it grey?")\n'
        'return make_result("B" if a and b else "A", 0.99)',
        ("query_yn query_yn", 0.64, 0.8),
    ),
    "either is enough": (
        RED + GREY + 'a = query_yn(frames, "Is it red?")\nb = query_yn(grey, "Is it grey?")\n'
        'return "B" if a == "Yes" or b == "Yes" else "A"',
        ("query_yn+query_yn", 0.96, 0.8),  # 1 - 0.2 * 0.2
    ),
    # From here on, several calls see nearly the same: they are as sure as one.
    "twelve neighbouring frames, against the right letter": (
        "yes = 0\nfor n in range(12):\n    frame = trim_frames(video, 10 + n / 4, 11 + n / 4, num_frames=1)\n"
        '    yes += bool(query_yn(frame, "Is it red?"))\nreturn "A" if yes > 6 else "B"',
        ("query_yn+query_yn+query_yn+query_yn+query_yn+query_yn", 0.8, 0.8),
    ),
    "both halves of a frame, which are two": (
        RED + "halves = [crop_left(frames[0]), crop_right(frames[0])]\n"
        'return "B" if any([query_yn(half, "Is it red?") for half in halves]) else "A"',
        ("query_yn+query_yn", 0.96, 0.8),
    ),
    "times of two searches, which nobody is sure of": (
        'red = get_informative_clips(video, "red", top_k=1)[0][0]\n'
        'blue = get_informative_clips(video, "blue", top_k=1)[0][0]\n'
        'return "B" if red[0] < blue[0] else "A"',
        ("get_informative_clips get_informative_clips", 0.25, 0.25),  # One of four options.
    ),
    "a search that found nothing": (
        "said = []\nfor word in ('wedding', 'anchovy'):\n    try:\n"
        "        said.append(get_informative_subtitles(video, word, top_k=1)[0].start)\n"
        "    except Exception:\n        said.append(0)\n"
        'return "B" if said[0] > 30 and said[1] < 10 else "A"',
        # Subtitles are data; of what was not found there is no confidence.
        ("get_informative_subtitles get_informative_subtitles", 1.0, 1.0),
    ),
    "a search beside a reply": (
        'start = get_informative_clips(video, "red", top_k=1)[0][0][0]\n' + GREY + "late = start >= 5\n"
        'return "B" if late and query_yn(grey, "Is it grey?") else "A"',
        ("get_informative_clips query_yn", 0.8, 0.8),
    ),
    "much of what programs are written with": (
        "import math, re\nfrom collections import Counter, defaultdict\nfrom typing import List\n"
        "def votes(found: List[str], least: int = 1) -> Counter:\n"
        "    return Counter(text.strip().lower() for text in found if len(text) >= least)\n"
        + RED
        + "seen, times = defaultdict(list), []\nfor n, frame in enumerate(frames):\n    try:\n"
        '        seen["red"].append(str(query_yn(frames, "Is it red?")))\n'
        "        times.append(round(getattr(frame, 'time', 0.0), 2))\n"
        "    except (ValueError, KeyError) as error:\n        print(error.args)\n"
        'print("{:.1f} {}".format(math.floor(sum(times)), times[:2]), f"{times[0]:.2f}")\n'
        'best, count = votes(seen["red"]).most_common(1)[0]\nmatch best:\n'
        '    case "yes" if re.search(r"^y", best):\n        return "B"\n    case _:\n        return "A"',
        ("query_yn", 0.8, 0.8),
    ),
    "the other path asks, and would find another letter": (
        RED + 'if query_yn(frames, "Is it red?"):\n    return "B"\n'
        "return query_mc(trim_frames(video, 30, 39), question, choices)",
        ("query_yn", 0.8, 0.8),
    ),
    "a reply that another reply led to": (
        RED + GREY + 'if query_yn(frames, "Is it red?"):\n    grey = frames\n'
        'return "B" if query_yn(grey, "Is it red or grey?") else "A"',
        ("query_yn", 0.8, 0.8),  # The second: the first chose where it looked, as a search does for query_mc.
    ),
}


@pytest.mark.parametrize("name", REASONED)
def test_a_letter_is_as_sure_as_the_calls_that_decided_it(name: str) -> None:
    body, (calls, product, least) = REASONED[name]
    for rule, expected in (("product", product), ("least", least)):
        execution = run(body, rule)
        assert decided(execution) == calls
        assert execution.answer.confidence == pytest.approx(expected)
        assert execution.reasoned.rule == rule
        assert execution.claim in (None, 0.99)


def test_the_second_call_decided_where_the_first_one_only_led_to_it() -> None:
    execution = run(REASONED["a reply that another reply led to"][0])
    (calls,) = execution.reasoned.deciding
    assert "or grey" in str(execution.calls[calls.calls[0]].args)


# Letters that no call decided, however the program makes it seem.
GUESSES: dict[str, str] = {
    "calls for show": RED + 'text = run_ocr(frames[0])\nquery_yn(frames, "Is it " + text)\nreturn "B"',
    "a call that is compared with itself": RED
    + 'return "B" if query_yn(frames, "Is it red?") == query_yn(frames, question="Is it red?") else "A"',
    "both branches answer the same, and one asks more": RED + 'if query_yn(frames, "Is it red?"):\n'
    '    return "B"\nquery_yn(video, "More?") if query_count(frames, "balls") > 3 else query_native(video, '
    'question, choices)\nreturn "B"',
    "a confidence that is always high enough": RED
    + 'return "B" if query_yn(frames, "Is it red?").confidence > 0.1 else "A"',
    "a confidence that only a replay has": RED + 'if query_yn(frames, "Is it red?"):\n    return "B"\n'
    'return "A" if query_yn(frames, "Is it blue?").confidence == 0.5 else "B"',
    "a clock": "import time\n" + RED + "began = time.monotonic()\nyes = query_yn(frames, 'Is it red?')\n"
    'if time.monotonic() - began < 1:\n    return "B" if yes else "A"\nreturn "B"',
}


@pytest.mark.parametrize("name", GUESSES)
def test_a_letter_that_no_call_decided_stays_a_guess(name: str) -> None:
    execution = run(GUESSES[name])
    assert execution.status == "ok"
    assert execution.answer.letter == "B"
    assert execution.answer.confidence == 0
    assert not execution.reasoned.deciding
    assert execution.reasoned.why_guess


@pytest.mark.parametrize(
    "code",
    [
        "import time",
        "from math import __loader__ as found",
        "string.Formatter().get_field",
        '"{0.__code__}".format(look)',
        '("{0._" + "_code__}").format(look)',
        "match collections:\n    case object(_sys=s):\n        pass",
        "def other():\n    dir = 1\ndir(look)",
        "enum.sys.modules",
        'getattr(enum, "s" + "ys")',
    ],
)
def test_what_could_tell_a_replay_from_its_run_is_found(code: str) -> None:
    assert tells_replays(code)


OTHER_MINUTES = [
    ("grey", second, "grey", "blue", fifth, "green")
    for second, fifth in map(str.split, ("blue red", "green red", "blue grey", "grey red", "green grey"))
]
ALWAYS = 'return "B" if query_yn(trim_frames(video, 10, 19), "Is it red, blue, green or grey?") else "A"'
RED_AT_TEN = 'return "B" if query_yn(trim_frames(video, 10, 19), "Is it red?") else "A"'


def test_a_constant_beside_many_looks_is_a_guess() -> None:
    looks = "for at in range(4, 60, 10):\n    frame = trim_frames(video, at, at + 1, num_frames=1)\n"
    looks += "    query_mc(frame, question, choices)\n"
    sure = [run(f'{looks}return "{letter}"').answer.confidence for letter in "ABCD"]
    # The scenes have all four colours. The last one is green: C has been answered.
    assert sure == [0.0, 0.0, 0.9, 0.0]


@pytest.mark.parametrize(
    ("body", "others", "confidence"),
    [
        (ALWAYS, 5, 0.0),
        (ALWAYS, 4, 0.8),  # Too few to say that it is the same on every video.
        (RED_AT_TEN, 5, 0.8),  # No on each of the five.
    ],
)
def test_a_constant_behind_a_gate_that_always_says_yes_is_a_guess(
    body: str, others: int, confidence: float
) -> None:
    """Its text shows nothing. What the same call returned on other videos does, and no model is asked."""
    known = OtherVideos()
    program = parse_program(reply(body))

    def run_on(scenes: tuple[str, ...]) -> tuple[Any, int]:
        backbone, meter = SceneBackbone(), ThreadMeter()
        minute = video_context(MeteredBackbone(backbone, meter), scenes)
        limits = DEFAULT_LIMITS
        execution, _ = execute(program, QUESTION, minute, limits=limits, thread_meter=meter, others=known)
        return execution, len(backbone.asked)

    for scenes in OTHER_MINUTES[:others]:
        # What a batch's other programs found is not known yet, whichever ran first.
        assert run_on(scenes)[0].answer.confidence == pytest.approx(0.8)
    assert run_on(SCENES)[0].answer.confidence == pytest.approx(0.8)
    known.settle()
    execution, asked = run_on(SCENES)
    assert execution.answer.letter == "B"
    assert execution.answer.confidence == pytest.approx(confidence)
    assert asked == 0  # Each call is kept from before.
    assert ("5 other videos" in execution.reasoned.why_guess) == (confidence == 0)


def test_chance_that_the_names_do_not_show_is_caught_by_repeating(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that finds a source of chance which nobody thought of."""
    monkeypatch.setattr("videopro.methods.program.deciding.tells_replays", lambda code: "")
    body = "import random\n" + RED + 'query_yn(frames, str(random.SystemRandom().random()))\nreturn "B"'
    execution = run(body)
    assert execution.answer.confidence == 0
    assert "does not repeat its calls" in execution.reasoned.why_guess


def test_a_program_that_can_only_be_run_is_a_guess_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tree is too deep for this process, as a program could make it to lose its question."""

    def too_deep(code: str, file: str) -> None:
        raise RecursionError("maximum recursion depth exceeded during ast construction")

    monkeypatch.setattr("videopro.methods.program.isolated.parse_python", too_deep)
    execution = run(REASONED["yes or no"][0])
    assert (execution.status, execution.answer.letter, execution.answer.confidence) == ("ok", "B", 0)


def test_a_module_that_looks_and_is_not_kept_makes_a_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the user's own whose result varies cannot be repeated without its model."""

    def look(call: CallContext, frame: SingleFrame) -> bool:
        return bool(call.context.backbone.frames and call.load_frames([frame]))

    spec = replace(MODULES["crop_left"], name="look", function=look)
    monkeypatch.setitem(MODULES, "look", spec)
    execution = run(RED + 'return "B" if look(frames[0]) else "A"')
    assert (execution.status, execution.answer.letter, execution.answer.confidence) == ("ok", "B", 0)
    assert "look() is not cached" in execution.reasoned.why_guess


def test_replays_share_the_processor_time_of_one_program() -> None:
    body = RED + 'for n in range(200_000):\n    n + 1\nreturn "B" if query_yn(frames, "Is it red?") else "A"'
    once = run(body)
    assert once.answer.confidence == pytest.approx(0.8)
    wide = GREY + "looks = [query_yn(grey, str(n)) for n in range(200)]\n" + body
    short = run(wide, limits=replace(DEFAULT_LIMITS, cpu_seconds=0.3))
    assert short.answer.letter == "B"
    assert short.answer.confidence == 0
    assert short.reasoned.why_guess == "its replays timed out"


def test_replays_have_the_time_that_the_run_left() -> None:
    """A program that takes two thirds of its processor time cannot be run again."""
    body = "for n in range(2_000_000):\n    n + 1\n" + GREY
    body += 'return "B" if query_yn(grey, "Is it grey?") else "A"'
    backbone, meter = SceneBackbone(), ThreadMeter()
    minute, program = video_context(MeteredBackbone(backbone, meter)), parse_program(reply(body))
    library = ModuleLibrary(minute)
    inputs = {"video": library.video, "question": QUESTION.text, "choices": list(QUESTION.choices)}
    # The most of three: beside other work the same program takes more.
    took = max(
        executor_run(program.code, library.functions(), inputs, prelude=library.prelude).cpu_seconds
        for _ in range(3)
    )
    for factor, confidence in ((1.5, 0.0), (20, 0.8)):
        limits = replace(DEFAULT_LIMITS, cpu_seconds=factor * took)
        execution, _ = execute(program, QUESTION, minute, limits=limits, thread_meter=meter)
        assert execution.answer.letter == "B"
        assert execution.answer.confidence == pytest.approx(confidence)


def test_a_replay_asks_no_model_and_a_straight_letter_is_not_replayed() -> None:
    execution = run(REASONED["both needed"][0])
    asked = len(world()[1].asked)
    again = run(REASONED["both needed"][0])
    assert again.answer == execution.answer
    assert len(world()[1].asked) == asked  # Cached, and the replays ask nothing.
    straight = run(RED + "return query_mc(frames, question, choices)")
    assert straight.reasoned is None
    assert straight.answer.confidence == pytest.approx(0.9)


def test_the_rule_of_earlier_versions_is_a_setting() -> None:
    execution = run(REASONED["yes or no"][0], "none")
    assert execution.answer.letter == "B"
    assert execution.answer.confidence == 0
    assert execution.reasoned is None


# The body, and the letter or the failure of its replay without what it cites, and with that alone.
CONTROLS: dict[str, tuple[str, str, str]] = {
    "a straight letter": ("return query_mc(trim_frames(video, 10, 19), question, choices)", "none", "B"),
    "what was found is cited as well": (
        RED + "return query_mc(frames, question, choices)",
        "NotFoundError",
        "B",
    ),
    "a search that it can do without": (
        'try:\n    get_informative_clips(video, "red", top_k=1)\nexcept Exception:\n    pass\n'
        'return "B" if query_yn(trim_frames(video, 10, 19), "Is it red?") else "A"',
        "A",
        "B",
    ),
    "it votes, and cites the last": (
        "votes = [query_mc(trim_frames(video, n, n + 2), question, choices) for n in (10, 13, 16)]\n"
        "return next(vote for vote in reversed(votes) if str(vote))",
        "B",
        "B",
    ),
    "it looks elsewhere": (
        'frames = trim_frames(video, 10, 19)\nif query_yn(frames, "Is it red?"):\n    return "B"\n'
        "return query_mc(trim_frames(video, 30, 39), question, choices)",
        "it makes other calls",
        "B",
    ),
    "another call leads to what it cites": (
        GREY + 'if query_yn(grey, "Is it grey?"):\n'
        "    return query_mc(trim_frames(video, 10, 19), question, choices)\nraise ValueError('nothing')",
        "none",
        "ValueError",
    ),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_a_program_is_replayed_without_what_it_cites_and_with_that_alone(name: str) -> None:
    body, *expected = CONTROLS[name]
    minute, backbone, meter = world()
    settings: dict[str, Any] = {"limits": DEFAULT_LIMITS, "thread_meter": meter}
    plain, _ = execute(parse_program(reply(body)), QUESTION, minute, **settings)
    asked = len(backbone.asked)
    execution, _ = execute(parse_program(reply(body)), QUESTION, minute, **settings, controlled=True)
    assert len(backbone.asked) == asked, "replays ask no model"
    assert (plain.answer, plain.controls) == (execution.answer, {})
    found = [execution.controls[control] for control in ("without", "alone")]
    assert [each.failure or each.letter or "none" for each in found] == expected
