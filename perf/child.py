"""Calls a function of perf/ in a fresh process, whose memory, caches and imports are its own."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from typing import Any

from perf import ROOT
from videopro.errors import VideoProError

# Not `-m`: the folder of the current directory would come first on the path.
_CODE = f"import sys; sys.path[0] = {str(ROOT)!r}; from perf.child import main; main()"


class ChildFailed(VideoProError):
    """A child that ended without a result; the message is the last line that it wrote."""


def child_command(function: str, *arguments: Any) -> list[str]:
    """The command that calls `function`, named `module:function`, with arguments that JSON can express. It
    prints the result as JSON on the last line, unless it is None."""
    return [sys.executable, "-c", _CODE, function, json.dumps(arguments)]


def call_in_child(function: str, *arguments: Any, timeout: float | None = None) -> Any:
    """The result of `function`, which must have one, in a process of its own. Raises ChildFailed, or
    subprocess.TimeoutExpired."""
    done = subprocess.run(
        child_command(function, *arguments), capture_output=True, text=True, timeout=timeout
    )
    if done.returncode != 0:
        raise ChildFailed((done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1])
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """The child's side of `child_command`."""
    module, _, name = sys.argv[1].partition(":")
    result = getattr(import_module(module), name)(*json.loads(sys.argv[2]))
    if result is not None:
        print(json.dumps(result))
