"""Programs are parsed in several threads at once."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support import ROOT
from videopro.executor import parse_python

_FLAT = "def f(x):\n    return " + "+".join(["(a.b(c[1], d=2))"] * 30) + "\n"
_DEEP = "def f(x):\n    for i in x:\n        if i:\n            while 1:\n                y = [[[[i]]]]\n"


class _Switches:
    """Garbage whose end gives the interpreter to another thread, in the middle of a parse."""

    def __init__(self) -> None:
        self.kept = self

    def __del__(self) -> None:
        time.sleep(0)


def test_threads_parse_at_the_same_time() -> None:
    """`ast.parse` itself fails here in most runs on Python 3.11."""
    failed: list[BaseException] = []
    expected = {code: ast.dump(ast.parse(code)) for code in (_FLAT, _DEEP)}

    def parse(first: int) -> None:
        for i in range(first, first + 200):
            _Switches()
            code = _FLAT if i % 2 else _DEEP
            try:
                tree = parse_python(code)
                assert i % 50 or ast.dump(tree) == expected[code]
            except BaseException as error:
                failed.append(error)

    before = gc.get_threshold()
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(parse, range(4)))
    finally:
        gc.set_threshold(*before)
    assert failed == []


@pytest.mark.parametrize("times", [1, 4])
def test_a_parse_that_another_thread_disturbed_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    real, left = ast.parse, [times]

    def disturbed(*args: object, **kwargs: object) -> ast.AST:
        if left[0]:
            left[0] -= 1
            raise SystemError("AST constructor recursion depth mismatch (before=45, after=40)")
        return real(*args, **kwargs)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(ast, "parse", disturbed)
    assert ast.dump(parse_python("x = 1")) == ast.dump(real("x = 1"))
    assert left == [0]


def test_what_no_try_parses_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> ast.AST:
        raise SystemError("broken")

    with pytest.raises(SyntaxError):
        parse_python("x = (")
    monkeypatch.setattr(ast, "parse", broken)
    with pytest.raises(SystemError, match="broken"):
        parse_python("x = 1")


def test_warnings_about_a_programs_text_are_hidden_without_touching_those_of_other_threads() -> None:
    program = """
import warnings
from videopro.executor import parse_program
code = "def execute_command(video, question):\\n    return query_native(video, '\\\\d')"
warnings.catch_warnings = None  # a call raises
print(parse_program(f"<code>{code}</code>").code == code)
"""
    # "always": Python 3.11 shows this warning to nobody by itself.
    words = [sys.executable, "-W", "always", "-c", program]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert "invalid escape" not in done.stderr
