"""What replies earn: each value by hand from the scenes (tests/support/reward_world.py) and the rules."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.colours import COLOURS
from tests.support.reward_world import make, row, rows, score
from tests.support.scenes import BROKEN, LOCAL, NATIVE, NOTHING, reply, video
from videopro.errors import DatasetError
from videopro.question import Answer
from videopro.traces import Execution
from videopro.train.rewards import ProgramRewards
from videopro.train.rewards.rows import texts_of
from videopro.train.rewards.scoring import accuracy_reward

RED = 'query_mc(extract_frames(get_informative_clips(video, "red", top_k=1)[1][0]), question, choices)'


def code(text: str) -> str:
    return f"<planning>\nA plan.\n</planning>\n<code>\n{text}\n</code>"


def taking(parameters: str, result: str = RED) -> str:
    """A program with these parameters."""
    return code(f"def execute_command({parameters}):\n    return {result}")


@pytest.fixture(scope="module")
def rewards() -> Iterator[ProgramRewards]:
    with make() as made:
        yield made


@pytest.fixture(scope="module")
def strict() -> Iterator[ProgramRewards]:
    with make(form="strict", reasoned="none") as made:
        yield made


# (accuracy, format, mode consistency) by the strict rule, where the oracle mode is "program" and the right
# answer B.
CASES: dict[str, tuple[str, tuple[float, float, float]]] = {
    "right": (LOCAL, (1, 1, 1)),
    "one look, which is wrong": (NATIVE, (0, 1, 0)),
    "wrong place": (LOCAL.replace('"red"', '"blue"'), (0, 1, 1)),
    "the release's signature": (
        taking("video_path, question, choices, duration", RED.replace("(video,", "(video_path,")), (1, 1, 1)
    ),
    "an optional parameter of its own": (taking("video, question, top_k=1"), (1, 1, 1)),
    "a helper and an import": (
        code(
            f"import math\n\ndef look(video, question):\n    return {RED}\n\n"
            "def execute_command(video, question):\n    math.floor(1.5)\n    return look(video, question)"
        ),
        (1, 1, 1),
    ),
    "an answer wrapped up": (reply(f"return make_result({RED}, 0.2)"), (1, 1, 1)),
    # ---- guesses -------------------------------------------------------------------------------------------
    "a guess through make_result": (reply('return make_result("B", 0.99)'), (0, 0, 0)),
    "a bare guess": (reply('return "B"'), (0, 0, 0)),
    "a guess in place of a failure": (
        reply(
            "try:\n    return query_mc(clips, question, choices)\n"
            'except Exception:\n    return make_result("B")'
        ),
        (0, 0, 0),
    ),
    "a guess after an answer that said something else": (
        reply('query_native(video, question, choices)\nreturn make_result("B", 0.99)'),
        (0, 0, 0),
    ),
    # ---- programs that fail or answer nothing: well-formed ----------------------------------------------
    "a name that is not there": (BROKEN, (0, 1, 1)),
    "nothing found": (reply("return query_mc([], question, choices)"), (0, 1, 1)),
    "no answer": (NOTHING, (0, 1, 1)),
    "raises": (reply("extract_frames(video)\nif video:\n    raise ValueError('no')\nreturn None"), (0, 1, 1)),
    # ---- malformed ----------------------------------------------------------------------------------------
    "prose": ("One look at the video is enough.", (0, 0, 0)),
    "no planning": (LOCAL[LOCAL.index("<code>") :], (1, 0, 0)),
    "syntax error": (reply("return query_mc((video, question, choices)"), (0, 0, 0)),
    "parses and does not compile": (
        code(f"return 1\ndef execute_command(video, question):\n    return {RED}"),
        (0, 0, 0),
    ),
    "an unknown module on a path never taken": (
        reply(f"if False:\n    find_scene(video)\nreturn {RED}"),
        (1, 0, 0),
    ),
    "a signature that cannot be called": (taking("film, query", "query_native(film, query)"), (0, 0, 0)),
    "no video": (taking("question"), (1, 0, 0)),
    "reaches out": (reply(f"import os\nreturn {RED}"), (0, 0, 0)),
    "looks at nothing": (reply("return None"), (0, 0, 0)),
}  # fmt: skip


# The same by Eq. 3 and A.3, where it is another: format is a matter of form alone, and a malformed reply has
# the mode of its program.
BY_EQUATION: dict[str, tuple[float, float, float]] = {
    "a guess through make_result": (0, 0, 1),  # It looks at nothing.
    "a bare guess": (0, 0, 1),
    "a guess in place of a failure": (0, 1, 1),
    "a guess after an answer that said something else": (0, 1, 0),  # One look.
    "no planning": (1, 0, 1),
    "parses and does not compile": (0, 0, 1),
    "an unknown module on a path never taken": (1, 0, 1),
    "no video": (1, 0, 1),
    "reaches out": (0, 0, 1),
    "looks at nothing": (0, 0, 1),
}
# Right by what calls returned: by the strict rule guesses, by Eq. 3 right programs.
REASONED: dict[str, str] = {
    "a letter by yes or no": reply(
        'clip = get_informative_clips(video, "red", top_k=1)[1][0]\n'
        'return "B" if query_yn(extract_frames(clip, num_frames=4), "Is it red?") == "Yes" else "A"'
    ),
    "a letter by times": reply(
        'red, blue = [get_informative_clips(video, colour, top_k=1)[1][0] for colour in ("red", "blue")]\n'
        'return make_result("B" if red.start < blue.start else "A")'
    ),
}


def test_what_replies_to_an_adaptive_prompt_earn(rewards: ProgramRewards, strict: ProgramRewards) -> None:
    """In one batch, of which each row gets its own."""
    replies = [text for text, _ in CASES.values()]
    for made, expected in (
        (strict, {name: earned for name, (_, earned) in CASES.items()}),
        (rewards, {name: BY_EQUATION.get(name, earned) for name, (_, earned) in CASES.items()}),
    ):
        assert dict(zip(CASES, score(made, rows(len(replies)), replies), strict=True)) == expected


@pytest.mark.parametrize("name", REASONED)
def test_a_right_letter_that_calls_decided_earns_all_of_equation_3(
    rewards: ProgramRewards, strict: ProgramRewards, name: str
) -> None:
    assert score(rewards, [row()], [REASONED[name]]) == [(1, 1, 1)]
    assert score(strict, [row()], [REASONED[name]]) == [(0, 0, 0)]
    assert score(rewards, [row(answer="A")], [REASONED[name]]) == [(0, 1, 1)]


def test_a_constant_behind_a_gate_earns_nothing_once_seen_on_other_videos(rewards: ProgramRewards) -> None:
    """A question that is answered with yes on every video: five others in an earlier batch show it."""
    gate = reply(
        'frames = trim_frames(video, 10, 19)\nalways = query_yn(frames, "Is it red, blue, green or grey?")\n'
        'return "B" if always == "Yes" else "A"'
    )
    others = [("grey", colour, "red", "blue", "grey", "green") for colour in COLOURS]
    others.append(("red", "blue") * 3)
    batch = [row(video=str(video(scenes).path)) for scenes in others]
    assert score(rewards, batch, [gate] * len(batch)) == [(1, 1, 1)] * 5
    assert score(rewards, [row()], [gate]) == [(0, 1, 1)]


def test_an_option_with_the_right_options_text_earns_as_much(rewards: ProgramRewards) -> None:
    """`LOCAL` answers B; the file names A, C or D as right, of which only C has B's words."""
    first, second, _, fourth = row()["choices"]
    given = [row(answer=letter, choices=[first, second, second, fourth]) for letter in "ACD"]
    assert score(rewards, given, [LOCAL] * 3) == [(0, 1, 1), (1, 1, 1), (0, 1, 1)]


@pytest.mark.parametrize(
    ("kind", "oracle", "native", "program"),
    [
        ("plan", "native", 1, 0),
        ("plan", "program", 0, 1),
        ("plan", None, None, None),
        ("native_refinement", "native", 0, 1),
        ("native_refinement", None, None, None),
        ("plan_program", None, 0, 1),
        ("bug_fix", "program", 0, 1),
        ("program_refinement", "native", None, None),
    ],
)
def test_the_mode_that_each_prompt_wants(
    rewards: ProgramRewards, kind: str, oracle: Any, native: float | None, program: float | None
) -> None:
    given = [row(id=kind, kind=kind, oracle_mode=oracle)] * 3
    found = score(rewards, given, [NATIVE, LOCAL, "no program"])
    malformed = None if native is None else 0
    assert [rewarded[2] for rewarded in found] == [native, program, malformed]
    assert [rewarded[:2] for rewarded in found] == [(0, 1), (1, 1), (0, 0)]


@pytest.mark.parametrize(
    ("execution", "right", "answer", "probability"),
    [
        (Execution("ok", Answer("A", 0.6, {"A": 0.6, "B": 0.2, "C": 0.0})), {"B"}, 0.0, 0.25),
        (Execution("ok", Answer("A", 0.6, {"A": 0.6, "B": 0.2, "C": 0.0})), {"A"}, 1.0, 0.75),
        (Execution("ok", Answer("A", 0.6, {"A": 0.6, "B": 0.2, "C": 0.0})), {"A", "B"}, 1.0, 1.0),
        (Execution("ok", Answer("A", 0.7)), {"A"}, 1.0, 0.7),  # in words: no letters
        (Execution("ok", Answer("A", 0.7)), {"B"}, 0.0, 0.0),
        (Execution("ok", Answer("A", 0.0, {"A": 0.6, "B": 0.2})), {"A"}, 0.0, 0.0),  # a guess
        (Execution("failed"), {"A"}, 0.0, 0.0),
    ],
)
def test_accuracy_pays_for_the_answer_or_for_its_probability(
    execution: Execution, right: set[str], answer: float, probability: float
) -> None:
    assert accuracy_reward(execution, right, "answer") == answer
    assert accuracy_reward(execution, right, "probability") == pytest.approx(probability)


def test_each_rule_can_be_had_alone() -> None:
    """Reasoned letters beside malformed guesses; the probability of B where the wrong place is looked at."""
    guess, right = CASES["a guess in place of a failure"][0], REASONED["a letter by yes or no"]
    with make(form="strict") as formal:
        assert score(formal, rows(2), [guess, right]) == [(0, 0, 0), (1, 1, 1)]
    with make(accuracy="probability") as graded:
        ((paid, *_),) = score(graded, [row()], [LOCAL.replace('"red"', '"blue"')])
    assert 0 < paid < 0.5


def test_a_row_that_cannot_be_rewarded_is_named(rewards: ProgramRewards) -> None:
    with pytest.raises(DatasetError, match=r"'q9/plan'.*'video' is None"):
        score(rewards, [row(id="q9/plan", video=None)], [LOCAL])


def test_a_reply_is_read_from_text_and_from_messages() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert texts_of("ab") == ["ab"]
    assert texts_of([{"role": "assistant", "content": "ab"}]) == ["ab"]
    assert texts_of([{"role": "assistant", "content": parts}]) == ["ab"]
