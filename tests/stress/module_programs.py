"""Hostile programs for the modules: whatever a planner might pass to them, and ask for, and return.

`hostile_programs.py` attacks the sandbox; these attack what a program may call. `program_texts` makes any
number of them from a seed, `CASES` are some that once ended a run. Each is Python for `videopro infer`.
"""

import random
import textwrap
from collections.abc import Callable, Iterator

from tests.stress.hostile_programs import FAMILIES, mutilated

# Python source of values that a program may pass.
VALUES = (
    *("2**1024 - 1", "10**308", "10**308 - 1", "1 - 10**308", "10**307", "2**63", "10**400", "-1", "0"),
    *("True", "False", "None", "1e308", "-1e308", "5e-324", "float('inf')", "float('nan')", "-0.0"),
    *("''", "' '", "'x' * 200_000", "'\\ud800'", "'\\U0001f600' * 9", "'\\0'", "'A'", "'9' * 400"),
    *("[]", "[[]]", "{}", "{1: 2}", "{'answer': 10**307}", "('A', 10**400)", "set()", "b'x'", "range(99)"),
    *("video", "frame", "[frame] * 9000", "[video] * 2000", "clip", "question", "choices", "choices * 99"),
    *("['x' * 9_000] * 3", "[frame, video, clip]", "[0, 0, 1e308, 1e308]", "[0, 0, 1, 10**400]", "answer"),
    *("functools.reduce(lambda x, _: [x], range(40), 1)", "functools.reduce(lambda x, _: [x], range(25), 1)"),
    *("iter([])", "lambda: 1", "type", "object()", "decimal.Decimal('1e400')", "fractions.Fraction(1, 3)"),
)
# Names of keywords: parameters of the library's own functions and of the executor's, and odd ones.
KEYWORDS = (
    *("call", "self", "name", "spec", "args", "kwargs", "keywords", "values", "context", "function", "video"),
    *("metadata", "frames", "answer", "confidence", "raw_output", "mode", "letters", "fatal", "library"),
    *("result", "parameter", "given", "packed", "line", "message", "kind", "__class__"),
    *("a b", "", "\u2026", "x" * 2000),
)
# What `VALUES` name, and a function that goes on after a failed call.
HEAD = """import decimal, fractions, functools
frame = extract_frames(video, num_frames=1)[0]
intervals, (clip, *_) = get_informative_clips(video, "red", top_k=1)
answer = query_yn(frame, "Is it red?")
def attempt(function, /, *args, **keywords):
    try:
        return function(*args, **keywords)
    except Exception as error:
        print(type(error).__name__)
"""
# A sane call of each module.
CALLS = {
    "query_native": ("video", "question", "choices"),
    "query_mc": ("frame", "question", "choices"),
    "query_yn": ("frame", "'Is it red?'"),
    "query_frames": ("frame", "'What is it?'"),
    "query_count": ("frame", "'squares'"),
    "get_informative_clips": ("video", "'a red square'"),
    "get_informative_subtitles": ("video", "'the weather'"),
    "get_subtitle_hints": ("video", "question", "choices"),
    "extract_frames": ("video", "4"),
    "trim_frames": ("video", "1", "5", "3"),
    "trim_around": ("video", "3", "2", "3"),
    "trim_before": ("video", "3", "2", "3"),
    "trim_after": ("video", "3", "2", "3"),
    "detect_object": ("frame", "'red square'"),
    "track_object": ("extract_frames(video, 3)", "'red square'"),
    "run_ocr": ("frame",),
    "crop": ("frame", "[0.1, 0.1, 0.9, 0.9]"),
    "crop_left": ("frame",),
    "make_result": ("'A'", "0.5"),
    "finalize_result": ("answer", "0.5"),
    "normalize_model_result": ("answer", "choices"),
}
LOOKS = (
    "query_mc([part], question, choices)",
    "query_yn(part, 'Is it red?')",
    "query_frames([part, frame], 'What is it?')",
    "query_count(part, 'squares')",
    "detect_object(part, 'red square')",
    "track_object([part], 'red square')",
    "run_ocr(part)",
)
RETURNS = (
    "query_native(video, question, choices)",
    "make_result('B', 0.5, call='A', self=1, frames=[frame])",
    "'A', 2**1024 - 1",
    "'A', 10**308",
    "{'answer': 'C', 'confidence': float('nan')}",
    "'x' * 900_000",
    "make_result('A', raw_output='y' * 900_000)",
    "[frame, frame]",
    "{'A': {'B': {'C': [1, 2]}}}",
    "10**307",
    "'\\ud800 A'",
    "None",
    "choices[0] if choices else 'a'",
    "answer",
    "lambda: 1",
)


def program(body: str) -> str:
    """A program with this body."""
    return f"def execute_command(video, question, choices):\n{textwrap.indent(body, '    ')}\n"


def _arguments(name: str, chance: random.Random) -> str:
    """Arguments of a call, some of them hostile."""
    arguments = list(CALLS[name])
    for index in range(len(arguments)):
        if chance.random() < 0.4:
            arguments[index] = chance.choice(VALUES)
    if chance.random() < 0.15:
        arguments = arguments[: chance.randrange(len(arguments) + 1)]
    if chance.random() < 0.15:
        arguments.append(chance.choice(VALUES))
    if chance.random() < 0.2:
        arguments.append(f"**{{{chance.choice(KEYWORDS)!a}: {chance.choice(VALUES)}}}")
    return ", ".join(arguments)


def _odd_calls(chance: random.Random) -> str:
    lines = [HEAD]
    for _ in range(chance.randint(1, 6)):
        name = chance.choice(list(CALLS))
        arguments = _arguments(name, chance)
        # Caught, or the end of the program.
        lines.append(f"attempt({name}, {arguments})" if chance.random() < 0.8 else f"x = {name}({arguments})")
    return program("\n".join([*lines, f"return {chance.choice(RETURNS)}"]))


def _odd_pictures(chance: random.Random) -> str:
    """Strips, points, crops of crops."""

    def box() -> str:
        x, y = chance.uniform(0, 90), chance.uniform(0, 90)
        wide = chance.choice((1e-7, 0.5, 1, 2, 3, 7, 27, 28, 29, 60, 320, 1e9))
        high = chance.choice((1e-7, 0.5, 1, 2, 3, 7, 27, 28, 29, 60, 240, 1e9))
        return f"[{x:.3f}, {y:.3f}, {x + wide!r}, {y + high!r}]"

    lines = ["frame = extract_frames(video, num_frames=3)[1]", f"part = crop(frame, {box()})"]
    if chance.random() < 0.4:
        lines.append(f"part = crop(part, [0, 0, {chance.choice((0.01, 0.3, 1, 2, 50))}, 1])")
    if chance.random() < 0.3:
        lines.append(f"part = {chance.choice(('crop_left', 'crop_top', 'crop_right_bottom'))}(part)")
    looks = [chance.choice(LOOKS) for _ in range(chance.randint(1, 3))]
    for look in looks:
        lines += ["try:", f"    found = {look}", "except ValueError as error:", "    print(error)"]
    return program("\n".join([*lines, f"return {chance.choice((looks[-1], RETURNS[0]))}"]))


def _floods(chance: random.Random) -> str:
    call = chance.choice(
        (
            "crop(**{f'k{i}': 'x' * 180 for i in range(3000)})",
            "make_result('A', 0.5, **{f'k{i}': 'x' * 600 for i in range(500)})",
            "extract_frames(video, num_frames=1024)",
            "get_informative_clips(video, f'red {n}', top_k=10_000)",
            "get_informative_subtitles(video, f'the {n}', top_k=10_000)",
            "query_yn(frame, f'Is it {n}?')",
            "trim_around(video, n, 5, num_frames=512)",
            "run_ocr(extract_frames(video, 9)[n % 9])",
            "normalize_model_result({'answer': 'A', 'metadata': {str(n): 'y' * 900}})",
        )
    )
    times = chance.choice((20, 60, 300))
    lines = ["frame = extract_frames(video, num_frames=1)[0]", f"for n in range({times}):", "    try:"]
    lines += [f"        {call}", "    except Exception:", "        pass"]
    return program("\n".join([*lines, f"return {RETURNS[0]}"]))


def _returns(chance: random.Random) -> str:
    value = chance.choice((*RETURNS, *VALUES, f"({chance.choice(VALUES)}, {chance.choice(VALUES)})"))
    return program(f"{HEAD}\nreturn {value}")


_ORDINARY = (
    """times, clips = get_informative_clips(video, "red square", top_k=2)
frames = []
for clip in clips:
    frames.extend(extract_frames(clip, num_frames=4))
boxes = detect_object(frames[0], "square", box_threshold=0.3)
words = run_ocr(frames[0])
answer, confidence = query_mc(frames, question, choices, context=words)
return make_result(answer, confidence)""",
    """lines = get_informative_subtitles(video, "weather", top_k=2)
frames = trim_around(video, lines[0].start, intervals=6, num_frames=4)
hints = get_subtitle_hints(video, question, choices)
if query_yn(frames, "Is it raining?") == "Yes":
    return query_mc(frames, question, choices, context=hints)
return query_native(video, question, choices)""",
    """frames = extract_frames(video, num_frames=6)
parts = [crop_left(frame) for frame in frames] + [frame.crop([0, 0, 50, 50]) for frame in frames]
count = query_count(frames, "red squares")
said = query_frames(parts[:4], "What is shown?")
return query_mc(parts, question, choices, context=f"{count} squares; {said}")""",
)


def _mutilated(chance: random.Random) -> str:
    return mutilated(program(chance.choice(_ORDINARY)), chance)


def _of_the_sandbox(chance: random.Random) -> str:
    """One of the sandbox's corpus that does not run into a limit of time."""
    family = chance.choice([family for family in FAMILIES.values() if not family.slow])
    # What they would harm is an input there; here it is a default.
    return family.text(chance.choice(family.acts), chance).replace(
        "(video, question, secret, port, pid, other)",
        "(video, question, secret='/etc/shadow', port=9, pid=1, other=1)",
    )


KINDS: dict[str, tuple[float, Callable[[random.Random], str]]] = {
    "odd calls": (0.4, _odd_calls),
    "odd pictures": (0.2, _odd_pictures),
    "floods": (0.05, _floods),
    "odd returns": (0.1, _returns),
    "mutilated programs": (0.1, _mutilated),
    "the sandbox's corpus": (0.15, _of_the_sandbox),
}

CASES = {
    # Each ended a run, or left a trace that nobody could read.
    "an empty crop": program(
        "frame = extract_frames(video, num_frames=1)[0]\n"
        "return query_mc([crop(frame, [10, 10, 10.0000001, 100])], question, choices)"
    ),
    "a strip": program(
        "frame = extract_frames(video, num_frames=1)[0]\n"
        "return query_mc([crop(frame, [0, 10, 320, 11])], question, choices)"
    ),
    "309 digits": program(
        "try:\n    extract_frames(video, num_frames=10**308)\nexcept Exception as error:\n    print(error)\n"
        "return query_native(video, question, choices)"
    ),
    "an overflow": program(
        "try:\n    trim_frames(video, 0, 2**1024 - 1)\nexcept Exception as error:\n    print(error)\n"
        "return query_native(video, question, choices)"
    ),
    "a claimed overflow": program("return 'A', 2**1024 - 1"),
    "a keyword of ours": program(
        "letter, sure = query_native(video, question, choices)\n"
        "return make_result(letter, sure, call='query_native')"
    ),
    "a flood of keywords": program(
        "for _ in range(60):\n    try:\n        crop(**{f'k{i}': 'x' * 180 for i in range(4500)})\n"
        "    except Exception:\n        pass\nreturn query_native(video, question, choices)"
    ),
    "a long question": program("return query_native(video, 'x' * 200_000, choices)"),
}


def program_texts(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """`count` programs with the names of their kinds, the cases first; the same ones for the same seed."""
    chance = random.Random(seed)
    names, shares = list(KINDS), [share for share, _ in KINDS.values()]
    cases = list(CASES.items())[:count]
    yield from cases
    for name in chance.choices(names, shares, k=count - len(cases)):
        yield name, KINDS[name][1](chance)
