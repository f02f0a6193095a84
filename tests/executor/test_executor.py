"""Ordinary programs in the sandbox: CPython's results, handles, errors with their lines, the calls made."""

import math
import threading
import time
from typing import Any

import pytest

from tests.stress.ordinary import ORDINARY, PRELUDE, Clip, EmptyRetrieval, World, natively, same
from tests.support.sandbox_runs import body, failed
from tests.support.sandbox_runs import pool as pool
from videopro import executor
from videopro.executor import Executor, Limits, Outcome, calling_line


def good(outcome: Outcome) -> Any:
    assert outcome.status in ("ok", "empty"), outcome.log
    return outcome.value


def given(pool: Executor, program: str, value: Any = 1, **functions: Any) -> Outcome:
    """The outcome of a program whose video is this value."""
    return pool.run(program, functions, {"video": value, "question": ""})


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_programs_give_cpythons_result(pool: Executor, name: str) -> None:
    inside, outside = World(), World()
    outcome = pool.run(ORDINARY[name], inside.functions(), inside.inputs(), prelude=PRELUDE)
    wanted = natively(ORDINARY[name], outside)
    value = good(outcome)
    assert same(value, wanted)
    # The functions' names in the calls as the log shows them.
    shown = [call.partition("(")[0].rpartition(" ")[2] for call in outcome.calls]
    assert inside.calls == outside.calls == shown
    empty = wanted is None or (isinstance(wanted, str) and not wanted.strip())
    assert outcome.status == ("empty" if empty else "ok")


@pytest.mark.parametrize(
    "value",
    [
        0,
        -(2**1000),
        -0.0,
        math.inf,
        "",
        "a\x00é\U0001f600",
        frozenset({1}),
        [None, True, [(1,), {2: "b", "b": [0.1]}, {(1, 2): {3}}]],
        {None: 1, True: 2, 1.5: 3, (1, "a"): 4},
    ],
)
def test_plain_data_crosses_both_ways(pool: Executor, value: Any) -> None:
    got: list[Any] = []

    def swap(given: Any, *, key: Any) -> Any:
        got.append((given, key))
        return value

    program = body("x = swap(video, key=[video])", "return [x, video, x == video]")
    back = good(pool.run(program, {"swap": swap}, {"video": value, "question": ""}))
    assert same(got, [(value, [value])])
    assert same(back, [value, value, True])
    assert math.isnan(good(given(pool, body("return video"), math.nan)))


def test_subclasses_of_plain_types_cross_as_plain_data(pool: Executor) -> None:
    program = body(
        "from collections import Counter, namedtuple, OrderedDict",
        "from enum import IntEnum",
        "class E(IntEnum):",
        "    A = 4",
        "class S(str):",
        "    pass",
        "return [Counter('aab'), namedtuple('P', 'x y')(1, 2), OrderedDict(a=E.A), S('s')]",
    )
    wanted = [{"a": 2, "b": 1}, (1, 2), {"a": 4}, "s"]
    assert same(good(given(pool, program)), wanted)


def test_a_handle_shows_its_declared_fields_and_no_more(pool: Executor) -> None:
    clip = Clip(1.0, 2.5)
    program = body(
        "out = [repr(video), type(video).__name__, video.start, [n for n in dir(video) if n[0] != '_']]",
        "def delete(name): del video.start",
        "def set(name): video.start = 3",
        "def get(name): out.append(getattr(video, name))",
        "for act, name in ((get, 'secret'), (get, '__dict__'), (get, 'colour'), (set, ''), (delete, '')):",
        "    try: act(name)",
        "    except AttributeError as e: out.append(str(e))",
        "import copy",
        "return out + [copy.deepcopy([video])[0] is video, video == 1, video != video]",
    )
    value = good(given(pool, program, clip))
    assert value[:4] == ["Clip(start=1.0, end=2.5)", "Clip", 1.0, ["end", "start"]]
    assert value[4] == "'Clip' object has no attribute 'secret'; its attributes: start, end"
    assert "'__dict__'" in value[5]
    assert value[7:] == ["a Clip is read-only"] * 2 + [True, False, False]


def test_fields_may_be_handles_that_lead_back(pool: Executor) -> None:
    class Node:
        __program_fields__ = ("name", "next")

        def __init__(self, name: str) -> None:
            self.name, self.next = name, self

    a, b = Node("a"), Node("b")
    a.next, b.next = b, a
    program = body("return video.next.name, video.next.next is video, video.next")
    assert good(given(pool, program, a)) == ("b", True, b)


def test_an_undeclared_object_is_opaque(pool: Executor) -> None:
    value = good(given(pool, body("return repr(video), video"), threading))
    assert value == ("module()", threading)


# ---- how the function is called ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("signature", "shown", "wanted"),
    [
        ("video", "video", 1),
        ("question, video", "(question, video)", ("q", 1)),
        ("video, /, question, *, choices", "(video, question, choices)", (1, "q", ["x"])),
        ("video, missing=7", "(video, missing)", (1, 7)),
        ("video, **rest", "sorted(rest)", ["choices", "question"]),
        ("", "(video, question, choices)", (1, "q", ["x"])),
    ],
)
def test_the_signature_selects_the_inputs(pool: Executor, signature: str, shown: str, wanted: Any) -> None:
    program = f"def execute_command({signature}):\n    return {shown}"
    assert good(pool.run(program, {}, {"video": 1, "question": "q", "choices": ["x"]})) == wanted


@pytest.mark.parametrize(
    ("program", "kind", "name"),
    [
        ("execute_command = 3", "NameError", "execute_command"),
        ("def execute_command(v):\n\treturn 1\n  x", "IndentationError", ""),
        (body("return (n for n in [])"), "TypeError", "make it a list"),
        (body("yield 1"), "TypeError", "returned a generator"),
    ],
)
def test_failures_are_explained(pool: Executor, program: str, kind: str, name: str) -> None:
    failed(pool.run(program, {}, {"video": 1, "question": "q", "v": 1}), kind, name)


# ---- errors and the record --------------------------------------------------------------------------------


def test_an_error_has_its_line_and_the_calls_before_it(pool: Executor) -> None:
    world = World()
    program = """\
def helper(clips):
    return clips[5].start

def execute_command(video, question):
    intervals, clips = get_informative_clips(video, "a kite", top_k=1)
    return helper(clips)
"""
    outcome = pool.run(program, world.functions(), world.inputs())
    failed(outcome, "IndexError", "list index out of range", line=2)
    assert outcome.calls == (
        "line 5: get_informative_clips(Video(duration=100), 'a kite', top_k=1)"
        " gave ([(20, 30)], [Clip(start=20, end=30)])",
    )
    assert outcome.error.log == outcome.log
    assert outcome.log == (
        "IndexError: list index out of range\n"
        "  line 6, in execute_command: return helper(clips)\n"
        "  line 2, in helper: return clips[5].start\n"
        "calls so far:\n"
        "  line 5: get_informative_clips(Video(duration=100), 'a kite', top_k=1)"
        " gave ([(20, 30)], [Clip(start=20, end=30)])"
    )


@pytest.mark.parametrize(
    ("raised", "caught"),
    [
        (ValueError("v"), "ValueError"),
        (EmptyRetrieval("e"), "LookupError"),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"), "ValueError"),
        (type("Strange", (Exception,), {})("s"), "Exception"),
        (ExceptionGroup("g", [ValueError()]), "Exception"),
    ],
)
def test_the_hosts_exceptions_can_be_caught_by_name(pool: Executor, raised: Exception, caught: str) -> None:
    def fail() -> None:
        raise raised

    program = body(
        "try:", "    fail()", f"except {caught} as e:", "    return type(e).__name__, str(e)", "return 0"
    )
    name, text = good(given(pool, program, fail=fail))
    assert name == type(raised).__name__
    assert raised.args[0] in text or str(raised) in text


def test_an_uncaught_exception_of_the_hosts_keeps_its_name(pool: Executor) -> None:
    world = World()
    program = body("return get_informative_clips(video, 'a dog')")
    outcome = pool.run(program, world.functions(), world.inputs())
    failed(outcome, "EmptyRetrieval", "no clip shows 'a dog'", line=2)
    assert outcome.calls[0].endswith(") raised EmptyRetrieval: no clip shows 'a dog'")
    assert "raised EmptyRetrieval: no clip shows 'a dog'" in outcome.log


def test_an_error_that_is_not_the_programs_ends_it(pool: Executor) -> None:
    class ServerDown(Exception):
        pass

    def ask(kind: str) -> None:
        raise {"down": ServerDown, "stop": KeyboardInterrupt}[kind]("now")

    program = body("try:", "    ask(video)", "except BaseException:", "    return 'swallowed'")
    for kind, wanted in (("down", ServerDown), ("stop", KeyboardInterrupt)):
        with pytest.raises(wanted):
            pool.run(program, {"ask": ask}, {"video": kind, "question": ""}, fatal=(ServerDown,))
    assert good(pool.run(program, {"ask": ask}, {"video": "down", "question": ""})) == "swallowed"


def test_an_error_names_what_it_came_from(pool: Executor) -> None:
    program = body("try:", "    {}['frames']", "except KeyError:", "    raise ValueError('no frames')")
    log = given(pool, program).log
    assert log.startswith(
        "ValueError: no frames\n  line 5, in execute_command: raise ValueError('no frames')"
    )
    assert "which came from:\nKeyError: frames\n  line 3, in execute_command: {}['frames']" in log


def test_a_function_learns_which_line_calls_it(pool: Executor) -> None:
    lines: list[int | None] = []
    program = body("look()", "for n in range(2):", "    n += 1", "    look()")
    good(given(pool, program, look=lambda: lines.append(calling_line())))
    assert lines == [2, 5, 5]
    assert calling_line() is None


def test_what_is_printed_is_kept(pool: Executor) -> None:
    program = body("print('one', 2)", "f()", "print('three')", "raise ValueError('x')")
    outcome = given(pool, program, f=lambda: None)
    assert outcome.output == "one 2\nthree\n"
    assert "printed:\n  one 2\n  three" in outcome.log


def test_costs_are_reported(pool: Executor) -> None:
    program = body("x = bytearray(60 << 20)", "t = 0", "for n in range(300000): t += n", "wait()", "return t")
    outcome = given(pool, program, wait=lambda: time.sleep(0.2))
    assert good(outcome) == 300000 * 299999 // 2
    assert outcome.cpu_seconds > 0.003
    assert outcome.seconds >= 0.2
    assert 60 << 20 < outcome.peak_bytes < 110 << 20


# ---- several at once --------------------------------------------------------------------------------------


def test_every_run_has_the_same_seed_and_order_of_sets(pool: Executor) -> None:
    """Whatever ran before it, here or in another executor."""
    words = "{'kite', 'dog', 'sign', 'red', 'car', 'tree'}"
    program = body("import random", f"return random.random(), list({words}), hash('kite')")
    with Executor() as fresh:
        first, second, third = (good(given(each, program)) for each in (pool, pool, fresh))
    assert first == second == third


def test_the_one_entry() -> None:
    program = body("return f(video)")
    assert good(executor.run(program, {"f": lambda x: x * 2}, {"video": 4, "question": ""})) == 8


def test_limits_must_be_positive() -> None:
    with pytest.raises(ValueError, match="calls must be above 0"):
        Limits(calls=0)
