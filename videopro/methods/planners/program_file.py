"""A program of the user's own in a planner's place: `file:PROGRAM.py` is the plan of every question."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Sequence
from pathlib import Path

from videopro.errors import ConfigError
from videopro.executor import parse_program
from videopro.methods.planners.planner import Planner, PlannerReply, PlanRequest

FILE = "file:"


class FilePlanner(Planner):
    """Writes the same program for every question, and nothing else: it cannot refine."""

    asks_model = False
    is_fine_tuned = True  # So the prompt, which nobody reads, is the short one.

    def __init__(self, spec: str, program: str) -> None:
        """`program`: the text of the file, as `read_program` returns it."""
        self.name = spec
        self._program = program

    def identity(self) -> dict[str, object]:
        return {"planner": "file", "program": program_digest(self._program)}

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        return [PlannerReply(_as_reply(self._program)) for _ in requests]


def read_program(spec: str) -> str:
    """The text of the program that `file:PROGRAM.py` names. Raises ConfigError for a file that cannot be
    read, is not Python, or would not be run: without `execute_command`, or with a forbidden import."""
    path = Path(spec.removeprefix(FILE)).expanduser()
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"planner {spec!r}: there is no such file; give the path of a program") from None
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"planner {spec!r}: cannot be read ({error}); give a Python file in UTF-8"
        ) from error
    program = parse_program(_as_reply(text))
    # The file goes the way of a model's reply, in which these end a program or are taken for its beginning.
    if program.code != textwrap.dedent(text).strip("\n").rstrip():
        raise ConfigError(
            f"planner {spec!r}: its text holds what marks the parts of a reply (a tag such as <code> or "
            "<think>, or ```); leave that out"
        )
    if program.faults:
        raise ConfigError(
            f"planner {spec!r}: would not run: {' '.join(program.faults)} docs/modules.md says what a "
            "program may call and import"
        )
    return text


def program_digest(program: str) -> str:
    """What a run's key has of a program: the SHA-256 of its text, in hexadecimal."""
    return hashlib.sha256(program.encode()).hexdigest()


def recorded_file(spec: str) -> str:
    """The spec as runs record it: where the file lies changes no answer."""
    return f"{FILE}{Path(spec.removeprefix(FILE)).name}"


def _as_reply(program: str) -> str:
    return f"<planning>\nThe user's own program.\n</planning>\n<code>\n{program}\n</code>"
