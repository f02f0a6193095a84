"""What ordinary programs need of Python: modules, results in their plain form, and errors that help."""

import re
import textwrap
from typing import Any

import pytest

from tests.support.sandbox_runs import failed
from tests.support.sandbox_runs import pool as pool
from videopro.executor import Executor, Limits
from videopro.executor.inside.allowed import IMPORTABLE_MODULES
from videopro.modules.reference import api_reference


def body(text: str) -> str:
    return "def execute_command():\n" + textwrap.indent(textwrap.dedent(text).strip(), "    ")


PROGRAMS: dict[str, tuple[str, Any]] = {
    "future": ("from __future__ import annotations\ndef execute_command() -> Video:\n    return 1", 1),
    "literals": (
        body("import ast\nreturn ast.literal_eval(\"[1, {'a': (2.5, None)}]\")"),
        [1, {"a": (2.5, None)}],
    ),
    "digests": (
        body(
            "import hashlib\nnames = ('md5', 'sha1', 'sha256', 'sha3_256', 'blake2b')\n"
            "return [hashlib.new(n, b'abc').hexdigest()[:8] for n in names], hashlib.md5(b'').hexdigest()"
        ),
        # RFC 1321, FIPS 180-4 and 202, RFC 7693.
        (["90015098", "a9993e36", "ba7816bf", "3a985da7", "ba80a53f"], "d41d8cd98f00b204e9800998ecf8427e"),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_modules_that_programs_import(pool: Executor, name: str) -> None:
    program, wanted = PROGRAMS[name]
    outcome = pool.run(program, {}, {"Video": 0})
    assert outcome.value == wanted, outcome.log


def test_every_module_can_be_imported(pool: Executor) -> None:
    lines = [f"import {name}" for name in IMPORTABLE_MODULES if name != "__future__"]
    assert pool.run("\n".join([*lines, body("return 1")]), {}, {}).value == 1


def test_logs_and_warnings_go_to_the_output(pool: Executor) -> None:
    program = """
        import logging, warnings
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
        def execute_command():
            print("first")
            logging.info("found %d clips", 3)
            logging.getLogger("mine").debug("unheard")
            warnings.warn("no subtitles")
            warnings.warn("old", DeprecationWarning)
            try:
                {}["x"]
            except KeyError:
                logging.exception("it failed")
            return 1
        """
    outcome = pool.run(textwrap.dedent(program), {}, {})
    assert outcome.value == 1
    lines = outcome.output.split("\n")
    assert lines[:4] == [
        "first",
        "INFO found 3 clips",
        "line 8: UserWarning: no subtitles",
        "ERROR it failed",
    ]
    assert "KeyError: 'x'" in lines
    assert "unheard" not in outcome.output
    assert "old" not in outcome.output


def test_logging_without_a_configuration_prints_warnings_as_far_as_it_may_print(pool: Executor) -> None:
    program = body("import logging\nlogging.getLogger('a').warning('careful')\nlogging.info('x')\nreturn 1")
    assert pool.run(program, {}, {}).output == "careful\n"
    program = body("import logging\nwhile True: logging.warning('x' * 99)")
    failed(pool.run(program, {}, {}, Limits(output_bytes=1000)), "OutputLimit")


# ---- results ----------------------------------------------------------------------------------------------

HEAD = """
import collections, dataclasses, datetime, decimal, enum, fractions

class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, 2)

class Flag(enum.Flag):
    A = 4

@dataclasses.dataclass
class Span:
    start: float
    colour: Colour = Colour.RED
    parts: list = dataclasses.field(default_factory=list)
"""
PLAIN: dict[str, Any] = {
    "Span(1.5)": {"start": 1.5, "colour": "red", "parts": []},
    "[Span(0, Colour.PAIR, [Span(1)])]": [
        {"start": 0, "colour": (1, 2), "parts": [{"start": 1, "colour": "red", "parts": []}]}
    ],
    "Colour.RED": "red",
    "{Colour.RED: Flag.A}": {"red": 4},
    "decimal.Decimal('0.9')": 0.9,
    "fractions.Fraction(1, 4)": 0.25,
    "datetime.datetime(2024, 2, 29, 12, 5)": "2024-02-29T12:05:00",
    "datetime.date(2024, 2, 29)": "2024-02-29",
    "datetime.timedelta(minutes=1, milliseconds=500)": 60.5,
    "b'B'": "B",
    "b'a\\xff'": "a\\xff",
    "range(3)": [0, 1, 2],
    "collections.deque([1, 2])": [1, 2],
    "[{'a': 1}.keys(), {'a': 1}.values(), {'a': 1}.items()]": [["a"], [1], [("a", 1)]],
}


@pytest.mark.parametrize("value", PLAIN)
def test_results_and_arguments_have_a_plain_form(pool: Executor, value: str) -> None:
    seen: list[Any] = []
    program = f"{HEAD}\ndef execute_command():\n    value = {value}\n    look(value)\n    return value"
    outcome = pool.run(program, {"look": seen.append}, {})
    assert outcome.value == PLAIN[value], outcome.log
    assert type(outcome.value) is type(PLAIN[value])
    assert seen == [PLAIN[value]]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("Span", "a type, which cannot leave the program: only plain data and handles can"),
        ("object()", "a object, which cannot leave the program"),
        ("1j", "a complex, which cannot leave the program"),
        ("iter([])", "a list_iterator, which cannot leave the program: make it a list"),
        ("decimal.Decimal('sNaN')", "a Decimal that is no float"),
        ("fractions.Fraction(10 ** 400)", "a Fraction that is no float"),
    ],
)
def test_values_without_a_plain_form_are_reported(pool: Executor, value: str, why: str) -> None:
    failed(pool.run(f"{HEAD}\ndef execute_command():\n    return {value}", {}, {}), "TypeError", why)


@pytest.mark.parametrize(
    "value",
    [
        "range(10 ** 12)",
        "Span(0, parts=[Span(0, parts=range(9999))])",
        "b'x' * 2_000_000",
        "s.parts.append(s) or s",
    ],
)
def test_plain_forms_keep_the_bounds(pool: Executor, value: str) -> None:
    program = f"{HEAD}\ns = Span(0)\ndef execute_command():\n    return {value}"
    failed(pool.run(program, {}, {}), "TooLarge")


@pytest.mark.parametrize("value", ["a\\ud800b", "\\udfff", "\\udc00\\ud800"])
def test_a_lone_surrogate_does_not_get_out(pool: Executor, value: str) -> None:
    seen: list[Any] = []
    program = body(f"look('{value}', **{{'{value}': 1}})\nreturn ['{value}', {{'{value}': '{value}'}}]")
    outcome = pool.run(program, {"look": lambda *a, **k: seen.append((a, k))}, {})
    assert outcome.error is None, outcome.log
    text = eval(f"'{value}'").translate(dict.fromkeys(range(0xD800, 0xE000), "\ufffd"))
    assert outcome.value == [text, {text: text}]
    assert seen == [((text,), {text: 1})]
    repr((outcome, seen)).encode("utf-8")
    pair = pool.run(body("return '\\U0001f600', '\\\\ud800'"), {}, {}).value
    assert pair == ("\U0001f600", "\\ud800")


# ---- errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (body("return query_mcc(1)"), "name 'query_mcc' is not defined. Did you mean: 'query_mc'?"),
        (body("return re.findall('a', 'b')"), "name 're' is not defined. Did you forget to import 're'?"),
        (body("return wholly_unknown"), "name 'wholly_unknown' is not defined"),
        (body("return 'a'.lowr()"), "'str' object has no attribute 'lowr'. Did you mean: 'lower'?"),
        (
            body("import math\nreturn math.flor(1)"),
            "module 'math' has no attribute 'flor'. Did you mean: 'floor'?",
        ),
        (body("return frames"), "name 'frames' is not defined"),
    ],
)
def test_did_you_mean(pool: Executor, program: str, message: str) -> None:
    # A class of handles is not suggested.
    outcome = pool.run(program, {"query_mc": int}, {}, prelude="class Frame(Handle):\n    pass")
    assert outcome.error.message == message


def test_a_hint_of_a_hostile_object_is_bounded(pool: Executor) -> None:
    program = f"class A:\n    def __dir__(self):\n        while True: pass\n{body('return A().x')}"
    outcome = pool.run(program, {}, {}, Limits(cpu_seconds=0.1))
    assert outcome.error is not None
    assert outcome.cpu_seconds < 1.5


@pytest.mark.parametrize(
    ("program", "line", "where"),
    [
        ("def helper(x):\n    y = = 2\n    return 1\n", 2, "in helper"),
        ("def helper(x):\n    if x:\n        for a in b:\n            c d\n", 4, "in helper"),
        ("def outer():\n    def inner():\n        return 1 1\n    return 2\n", 3, "in inner"),
        ("class A:\n    async def method(self):\n        x = (1,\n\n", 3, "in method"),
        ("def one():\n    return 1\n\nx = = 1\n", 4, "at the top level"),
        ("def one(\n    return 1\n", 1, "at the top level"),
    ],
)
def test_a_syntax_error_says_which_function(pool: Executor, program: str, line: int, where: str) -> None:
    outcome = pool.run(program + "def execute_command():\n    return 1\n", {}, {})
    failed(outcome, "SyntaxError", line=line)
    assert f"  line {line}, {where}: " in outcome.log, outcome.log


@pytest.mark.parametrize(
    ("program", "line"),
    [
        # All that str.splitlines ends a line at.
        *(
            (f"text = '''a{end}b'''\n# c{end}d\ndef execute_command():\n    return text[9]\n", 4)
            for end in "\u2028\u2029\x0c\x0b\x85\x1c\x1d\x1e"
        ),
        *(
            (end.join(["text = 'x'", "def execute_command():", "    return text[9]", ""]), 3)
            for end in ("\n", "\r\n", "\r")
        ),
    ],
)
def test_a_line_is_what_python_takes_for_one(pool: Executor, program: str, line: int) -> None:
    outcome = pool.run(program, {}, {})
    failed(outcome, "IndexError", line=line)
    assert f"line {line}, in execute_command: return text[9]" in outcome.log


# ---- what planners read -----------------------------------------------------------------------------------


def test_the_reference_names_what_may_be_imported() -> None:
    text = api_reference([])
    listed = set(re.findall(r"`([\w.]+)`", text.partition("## What a program may import")[2]))
    assert listed >= {name for name in IMPORTABLE_MODULES if "." not in name}
    assert listed - set(IMPORTABLE_MODULES) <= {"numpy", "execute_command"}
    assert "`numpy`" in text
