"""Reading programs out of replies.

The replies are the shapes that the paper (Figs. 8 to 10) and real planners produce, reworded; their contents
were read by hand.
"""

import ast
import subprocess
import sys
import time

import pytest

from tests.support import ROOT
from tests.support.sandbox_runs import BOMBS
from videopro.executor import parse_program, parse_python

NATIVE = "def execute_command(video, question):\n    return query_native(video, question, choices)"
LONGER = """\
import math

def execute_command(video_path, question, choices, duration):
    try:
        intervals, clips = get_informative_clips(video_path, "a red kite", top_k=3, total_duration=duration)
    except Exception as e:
        clips = []
    frames = []
    for clip in clips:
        frames.extend(extract_frames(clip, num_frames=16))
    if not frames:
        frames = extract_frames(video_path, num_frames=64)
    return query_mc(frames, question, choices)"""


def reply(code: str, planning: str = "One look is enough.") -> str:
    return f"<planning>\n{planning}\n</planning>\n\n<code>\n{code}\n</code>"


# ---- where the program is ---------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [NATIVE, LONGER])
@pytest.mark.parametrize(
    ("shape", "well_formed"),
    [
        ("<planning>\nLook.\n</planning>\n<code>\n{}\n</code>", True),
        ("<planning>Look.</planning><code>\n```python\n{}\n```\n</code>", True),
        ("<think>def execute_command(v): pass</think><planning>Look.</planning><code>\n{}\n</code>", True),
        ("<planning>I put it between <code> tags.</planning>\n<code>\n{}\n</code>", True),
        ("<planning>Look.</planning>\n<code>\n{}\n", False),
        ("<planning>Look.</planning>\n```python\n{}\n```", False),
        ("```json\n{{}}\n```\nand\n```Python\n{}\n```", False),
        ("Here is the program:\n\n{}\n\nIt looks at the whole video.", False),
        ("{}", False),
    ],
)
def test_the_program_is_found(shape: str, code: str, well_formed: bool) -> None:
    for newline in ("\n", "\r\n"):
        program = parse_program(shape.format(code).replace("\n", newline))
        assert program.code == code
        assert program.well_formed is well_formed
        assert bool(program.faults) is not well_formed


def test_an_indented_program_is_moved_to_the_margin() -> None:
    indented = "\n".join("    " + line for line in NATIVE.split("\n"))
    assert parse_program(reply(indented)).code == NATIVE
    assert parse_program(f"So:\n{indented}\n  done").code == NATIVE


def test_of_several_programs_the_one_with_the_function_is_read() -> None:
    text = f"<code>x = 1</code> or rather <code>\n{NATIVE}\n</code>"
    assert parse_program(text).code == NATIVE
    assert parse_program(f"```\nx = 1\n```\n```\n{NATIVE}\n```").code == NATIVE


def test_the_planning_part() -> None:
    assert parse_program(reply(NATIVE, "First this.\nThen that.")).planning == "First this.\nThen that."
    cut = parse_program(f"<planning>Cut short <code>\n{NATIVE}\n</code>")
    assert cut.planning == "Cut short"
    assert cut.code == NATIVE
    assert cut.faults == ("There is no planning between <planning> and </planning>.",)
    assert not parse_program(reply(NATIVE, "   ")).well_formed
    assert parse_program(f"<planning>Cut short\n```\n{NATIVE}\n```").code == NATIVE


@pytest.mark.parametrize(
    "text", ["", "I cannot help with that.", "<code></code>", "<think>def execute_command"]
)
def test_no_program_at_all(text: str) -> None:
    program = parse_program(text)
    assert (program.code, program.parameters, program.mode) == ("", (), "program")
    assert "There is no program." in program.faults


# ---- what it is -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "mode"),
    [
        ("return query_native(video, question, choices)", "native"),
        ("answer = query_native(video, question, choices)\n    return answer", "native"),
        ("try:\n        return query_native(video)\n    except ValueError:\n        return None", "native"),
        ("text = f'{question} {len(choices)}'.strip()\n    return str(query_native(video, text))", "native"),
        ("return query_mc(extract_frames(video), question, choices)", "program"),
        ("query_native(video, question)\n    return query_native(video, question)", "program"),
        ("for c in choices:\n        a = query_native(video, c)\n    return a", "program"),
        ("clips = get_informative_clips(video, 'x')\n    return query_native(clips, question)", "program"),
    ],
)
def test_the_mode(body: str, mode: str) -> None:
    program = parse_program(reply(f"def execute_command(video, question):\n    {body}"))
    assert (program.mode, program.well_formed) == (mode, True)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "def execute_command(v):\n    def f():\n        return 1\n    f()",
            "execute_command returns nothing.",
        ),
        (f"from . import x\n{NATIVE}", "It imports a sibling."),
        (f"y = __builtins__\n{NATIVE}", "It uses __builtins__."),
        (f"class A:\n    def __del__(self): pass\n{NATIVE}", "It defines __del__."),
    ],
)
def test_malformed_programs_are_explained(code: str, reason: str) -> None:
    program = parse_program(reply(code))
    assert reason in program.faults
    assert not program.well_formed


def test_ordinary_python_is_well_formed() -> None:
    code = """\
from __future__ import annotations
import re

class Note:
    def __init__(self, text):
        self.text = text
    def __repr__(self):
        return self.text

def execute_command(video, question):
    try:
        texts = [text for frame in extract_frames(video) if (text := run_ocr(frame))]
    except ValueError as error:
        print(type(error).__name__, error.__class__)
    return query_mc([Note(text) for text in texts], question, choices)"""
    program = parse_program(reply(code))
    assert program.faults == ()
    assert program.mode == "program"


# ---- the canonical form -----------------------------------------------------------------------------------


def test_layout_comments_docstrings_and_annotations_do_not_count() -> None:
    other = """
def execute_command(video: "Video", question: str) -> "Answer":
    '''Ask.'''
    # Directly.
    return query_native(
        video,
        question, choices,
    )
"""
    first, second = parse_program(reply(NATIVE)), parse_program(reply(other))
    assert first.canonical == second.canonical
    assert first.digest == second.digest
    assert first.code != second.code


@pytest.mark.parametrize(
    "other",
    [
        NATIVE.replace("choices", "choices[:2]"),
        NATIVE.replace("video, question)", "video, question=None)"),
        NATIVE + "\nx = 1",
        NATIVE.replace("return ", "return (yield) or "),
    ],
)
def test_differences_that_matter_count(other: str) -> None:
    assert parse_program(reply(NATIVE)).digest != parse_program(reply(other)).digest


# ---- arbitrary replies ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BOMBS)
def test_source_bombs_are_refused(name: str) -> None:
    start = time.process_time()
    program = parse_program(reply(f"{NATIVE}\n{BOMBS[name]}"))
    assert not program.well_formed
    assert program.canonical == program.code
    assert program.mode == "program"
    assert time.process_time() - start < 10


# ---- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "calls"),
    [
        (NATIVE, ("query_native",)),
        (LONGER, ("get_informative_clips", "extract_frames", "query_mc")),
        # Its own functions, parameters, imports, variables and Python's builtins are not modules.
        (
            "from math import floor as down\nimport re\nclass Found:\n    pass\n"
            "def look(ask, *rest, **more):\n    return ask(rest) or more(1)\n"
            "def execute_command(video, question):\n"
            "    pick = lambda some: some\n"
            "    for each in [len, pick]:\n        each(down(1.5))\n"
            "    try:\n        sorted(Found(), key=pick(late))\n"
            "    except Exception as error:\n        error(re.sub)\n"
            "    match question:\n"
            "        case [first, *others] as whole:\n            first(others(whole()))\n"
            "        case {'a': 1, **left}:\n            left()\n"
            "    if (found := look(query_yn)):\n        found()\n"
            "    return see(seek(video), see(2))",
            ("see", "seek"),
        ),
        ("def execute_command(video):\n    return video.query_mc(1)", ()),
        ("not python (", ()),
    ],
)
def test_the_calls_are_names_that_are_not_defined(code: str, calls: tuple[str, ...]) -> None:
    assert parse_program(reply(code)).calls == calls


@pytest.mark.parametrize(
    ("signature", "required"),
    [
        ("video, question", ("video", "question")),
        ("video_path, question=None, *rest, top_k=3, more, **others", ("video_path", "more")),
        ("video, /, question=1, *, choices", ("video", "choices")),
        ("", ()),
    ],
)
def test_required_are_parameters_without_a_default(signature: str, required: tuple[str, ...]) -> None:
    assert parse_program(reply(f"def execute_command({signature}):\n    return 1")).required == required


# ---- parsing in several threads at once --------------------------------------------------------------------


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
