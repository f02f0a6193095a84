"""Fuzz tests of what reads programs out of replies. Long run: see `tests.support.fuzzing`."""

import time

from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.fuzzing import FUZZ, odd_text, repeated
from videopro.executor import parse_program, planning_text

UNITS = (
    *("<planning>", "</planning>", "<code>", "</code>", "<think>", "</think>", "```python\n", "```", "\r\n"),
    *("def execute_command(video, question):\n", "    return query_native(video, question)\n", "    ", "\t"),
    *("import ast\n", "from __future__ import annotations\n", "class A:\n", "lambda x: ", "1 + ", "not "),
    *("(", ")", "[", "{", "}", "f'{x!r:>{y}}'", 'f"{x}\\n"', "'\\ud800'", "b'\\xff'", "1e999", "1j", "'''"),
    *("0x" + "f" * 9000, "1" * 5000, "async def f(): await x\n", "for i in x:\n", "    if a:\n", "\n"),
    *("x.__class__", "__import__('os')", "@", "*a, ", "**k", "match x:\n", "    case [1, *_]:\n", "x = "),
    *("        pass\n", "# comment", "\\\n", ";", "...", "yield ", "global x\n", "é", "try:\n"),
    *("except* E:\n", "with a as b, c:\n", "x: int = 1\n", "del x\n", "assert x, y\n", "raise x from y\n"),
)


@FUZZ
@given(st.one_of(repeated(UNITS), odd_text))
@example("<code>def execute_command(video):\n    return 0x" + "f" * 9000 + "</code>")
@example("<code>def execute_command(video):\n    return '\ud800'</code>")
@example("<code>" * 5000)
@example("```python\n" * 5000)
@example("def execute_command(video):\n" * 2000)
def test_a_reply_is_a_program_whatever_it_holds(reply: str) -> None:
    start = time.process_time()
    program = parse_program(reply)
    assert time.process_time() - start < 10
    assert program.mode in ("native", "program")
    assert program.well_formed == (not program.faults)
    assert len(program.digest) == 64
    assert program.planning == planning_text(reply)
    assert set(program.required) <= set(program.parameters)
    if program.well_formed:
        again = parse_program(f"<planning>p</planning><code>{program.canonical}</code>")
        assert again.canonical == program.canonical, "the canonical form is its own"
        assert (again.mode, again.calls) == (program.mode, program.calls)
