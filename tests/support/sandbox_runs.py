"""Running a program in the sandbox and looking at how it failed."""

from __future__ import annotations

import json
from typing import Any

from videopro.executor import Executor, Limits, Outcome

RAW = """\
import json, random
os = random._os

def send(kind, body):
    data = kind.encode() + len(body).to_bytes(4, "big") + body
    while data:
        data = data[os.write(3, data):]

EMPTY = {"t": [{"t": []}, {"d": []}]}

def call(*parts):
    send("c", json.dumps(parts).encode())
"""


def run(pool: Executor, *lines: str, functions: Any = None, head: str = "", **limits: Any) -> Outcome:
    program = head + "def execute_command(video):\n" + "\n".join("    " + line for line in lines)
    outcome = pool.run(
        program, functions or {}, {"video": object()}, Limits(**{"wall_seconds": 60.0, **limits})
    )
    json.dumps([outcome.log, outcome.output, outcome.calls], allow_nan=False)
    assert pool.run("def execute_command():\n    return 1", {}, {}).value == 1
    return outcome


def failed(outcome: Outcome, kind: str, message: str = "", line: int | None = None) -> None:
    assert outcome.status == "failed", outcome
    assert outcome.value is None
    assert outcome.error is not None
    assert outcome.error.type == kind, outcome.log
    assert message in outcome.error.message
    assert line is None or outcome.error.line == line
