"""Programs are parsed in several threads at once."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.support import ROOT
from videopro.executor import parse_python


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
