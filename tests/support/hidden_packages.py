"""A child process in which some installed packages cannot be found, as if they were not installed."""

from __future__ import annotations

import json
import subprocess
import sys

_HIDE = """
import json, sys
from importlib.machinery import PathFinder

hidden = set(json.loads(sys.argv.pop(1)))

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else super().find_spec(name, path, target)

sys.meta_path[:] = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
"""


def run_without(packages: list[str], code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python code, with `words` in `sys.argv[1:]`, in a process that finds none of these packages."""
    command = [sys.executable, "-c", _HIDE + code, json.dumps(packages), *words]
    return subprocess.run(command, capture_output=True, text=True)
