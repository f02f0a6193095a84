"""Hostile programs that take too much: time, memory, output, depth, calls."""

from __future__ import annotations

import random

from perf.programs.families import family, program


@family("loops")
def _loops(chance: random.Random) -> str:
    return program(
        chance.choice(
            (
                "while True: pass",
                "n = 0\nwhile n >= 0: n += 1",
                "x = [1]\nfor one in x: x[0] += one; x.append(1) if len(x) < 2 else x.insert(0, x.pop())",
                "def f():\n    while True: yield 1\nfor one in f(): pass",
                "while True:\n    try: {}['x']\n    except KeyError: continue",
            )
        )
    )


@family("loops inside C")
def _loops_in_c(chance: random.Random) -> str:
    number = chance.randint(25, 60)
    return program(
        chance.choice(
            (
                "sum(range(10 ** 15))",
                f"import re; re.match('(a|a)*b', 'a' * {number})",
                f"import re; re.fullmatch('(x+x+)+y', 'x' * {number})",
                f"x = {number} ** {number} ** 5",
                "x = 7 ** (10 ** 7); len(str(x)) if False else x % (x - 1)",
                "all(x is x for x in iter(int, 1))",
                "import itertools; list(itertools.islice(itertools.cycle([0]), 10 ** 12, None))",
                "'a' * 10 ** 6 in ('a' * 999 + 'b') * 10 ** 4",
                "import math; math.factorial(10 ** 7)",
                "import difflib; difflib.SequenceMatcher(None, 'ab' * 10 ** 5, 'ba' * 10 ** 5).ratio()",
                "from decimal import Decimal; Decimal(2) ** Decimal(10) ** Decimal(17)",
            )
        )
    )


@family("ends that are swallowed")
def _swallowed(chance: random.Random) -> str:
    exception = chance.choice(("BaseException", "Exception", ""))
    body = chance.choice(("while True: pass", "sum(range(10 ** 9))", "for n in range(10 ** 9): n * n"))
    return program(
        f"while True:\n    try:\n        {body}\n    except {exception}: pass".replace("except :", "except:"),
        *(("finally_never = 1",) if chance.random() < 0.3 else ()),
    )


@family("sleeps")
def _sleeps(chance: random.Random) -> str:
    return program(f"import time; time.sleep({chance.choice((30, 1e6, 9e9))})")


@family("memory")
def _memory(chance: random.Random) -> str:
    return program(
        chance.choice(
            (
                "x = bytearray(10 ** 12)",
                "x = 'a' * (1 << 33)",
                "x = []\nwhile True: x.append('x' * 10 ** 6)",
                "x = {}\nfor n in range(10 ** 9): x[n] = [n]",
                "x = [[0] * 10 ** 4 for n in range(10 ** 6)]",
                "def f(a): return f((a, a))\nf(1)",
                "x = 'a'\nwhile True: x += x",
                "import itertools; x = list(itertools.product(range(99), repeat=6))",
                "x = f'{1:>999999999}'",
                "x = [0]\ntry:\n    while True: x *= 2\nexcept MemoryError: x = [0]\nwhile True: x *= 2",
            )
        )
    )


@family("output")
def _output(chance: random.Random) -> str:
    return program(
        chance.choice(
            (
                "while True: print('spam')",
                "print('x' * 10 ** 7)",
                "for n in range(10 ** 6): print(n, end='\\r')",
                "import sys" if chance.random() < 0.2 else "print('\\x1b[2J\\x07\\u202e' * 5000)",
                "print(end='\\ud800' * 70000)",
            )
        )
    )


@family("sources")
def _sources(chance: random.Random) -> str:
    many = chance.choice((100, 3000, 20000))
    bomb = chance.choice(
        (
            "x = " + "(" * many,
            "x = " + "[" * (many // 2) + "]" * (many // 2),
            "x = " + "-" * many + "1",
            "x = " + "+".join("a" * many),
            "x = a" + "()" * many,
            "x = " + "not " * (many // 2) + "1",
            "x = " + "9" * many,
            "x = " + "{" * 90 + "}" * 90,
            "x = '" + "\\N{SNOWMAN}" * (many // 10) + "'",
            "class A:\n " + "class B: pass\n " * (many // 20),
            "x = f'" + "{1:{" * 50 + "'",
            "if 1:\n" * 1 + "".join(" " * n + "if 1:\n" for n in range(1, 99)) + " " * 99 + "x = 1",
            "@" + "@".join("f\n" for _ in range(many // 4)) + "def g(): pass",
            "x: " + "int | " * (many // 6) + "str",
            "try: pass\n" + "except A: pass\n" * (many // 15),
        )
    )
    return f"{bomb}\n{program('pass')}" if chance.random() < 0.5 else f"{program('pass')}{bomb}\n"


@family("recursion")
def _recursion(chance: random.Random) -> str:
    raised = chance.choice(("", "import enum; enum.sys.setrecursionlimit(10 ** 9)"))
    return program(
        *((raised,) if raised else ()),
        chance.choice(
            (
                "def f(): return f()\nf()",
                "class A:\n    def __getattr__(self, n): return getattr(self, n + 'x')\nA().x",
                "class A:\n    def __eq__(self, o): return self == o\nA() == 1",
                "x = []\nfor n in range(10 ** 5): x = [x]\nstr(x)",
                "x = ()\nfor n in range(10 ** 5): x = (x,)\nhash(x); x == x",
                "import json; json.loads('[' * 10 ** 5)",
                "import copy; x = []\nfor n in range(10 ** 4): x = [x]\ncopy.deepcopy(x)",
                "import re; re.compile('(' * 5000 + ')' * 5000)",
            )
        ),
    )


@family("floods of calls")
def _calls(chance: random.Random) -> str:
    call = chance.choice(
        ("query_yn(video, 'x')", "extract_frames(video)", "query_mc([], '', [])", "run_ocr(1)")
    )
    caught = chance.choice(("Exception", "BaseException", "(TypeError, ValueError)"))
    return program(f"while True:\n    try: {call}\n    except {caught}: pass")


@family("huge arguments")
def _arguments(chance: random.Random) -> str:
    big = chance.choice(
        (
            "'x' * 10 ** 7",
            "['x'] * 10 ** 6",
            "{n: n for n in range(10 ** 5)}",
            "1 << 10 ** 7",
            "'\\0' * 10 ** 6",
            "[[[]]] * 10 ** 5",
            "float('nan')",
            "b'x' * 100",
            "(n for n in range(10))",
            "lambda: 0",
            "type(video)",
            "{'a': {1: object()}}",
            "'\\ud800' * 10",
            "float('inf')",
            "range(10 ** 9)",
        )
    )
    way = chance.choice(
        ("run_ocr({})", "query_mc([{}], question, [])", "query_yn(video, question={})", "f({})")
    )
    return program("f = get_subtitle_hints", way.format(big))


@family("structures that explode")
def _explode(chance: random.Random) -> str:
    make = chance.choice(
        ("[x, x]", "(x, x)", "{'a': x, 'b': x}", "[x] * 10", "[[x, 1], x]", "{1: [x], 2: x}")
    )
    use = chance.choice(
        ("return x", "run_ocr(x)", "raise ValueError(x)", "print(x)", "x.append(x) or run_ocr(x)")
    )
    return program(f"x = ['leaf']\nfor n in range({chance.choice((12, 24, 200, 5000))}): x = {make}", use)
