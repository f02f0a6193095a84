"""Python imports this at its start, in worker processes too, if perf/counting/ways.py has put the folder on
the path. While the function that HOUSE_FUNCTION names runs, it notes the files of the checkout in which a
function is called, and the objects that are made of its data classes. What a file calls while it is imported
does not count: that depends on what was imported before. Only the standard library is imported, nothing of
either checkout.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

# Fields within fields that are searched for texts; the reply in a trace is five deep.
_DEPTH = 12


class CallTrace:
    """Notes what is called while a function of the name `function` runs, and writes it when it returns."""

    def __init__(self, function: str, root: Path, output: Path) -> None:
        self._function = function
        self._root = root.resolve()
        self._output = output
        self._files: set[str] | None = None
        self._is_written = False
        # By identity, and held: the next object may not get the same.
        self._instances: dict[int, Any] = {}
        self._imports = threading.local()

    def start(self) -> None:
        """On this thread, and those that start from now on."""
        threading.setprofile(self.note)
        sys.setprofile(self.note)

    def note(self, frame: FrameType, event: str, arg: object) -> None:
        """What `sys.setprofile` calls at each call and return of a Python function."""
        code = frame.f_code
        # Threads that outlive the function are still traced.
        files = self._files
        if files is None:
            if event == "call" and code.co_name == self._function and not self._is_written:
                self._files = set()
            return
        if code.co_name == "<module>":
            importing = getattr(self._imports, "depth", 0)
            self._imports.depth = importing + (1 if event == "call" else -1 if event == "return" else 0)
        elif event == "call" and not getattr(self._imports, "depth", 0):
            files.add(code.co_filename)
        elif event == "return" and code.co_name == "__init__":
            instance = frame.f_locals.get("self")
            is_ours = type(instance).__module__.startswith("videopro")
            if is_ours and hasattr(instance, "__dataclass_fields__"):
                self._instances[id(instance)] = instance
        elif event == "return" and code.co_name == self._function:
            self._files, self._is_written = None, True
            sys.setprofile(None)
            threading.setprofile(None)
            self._write(files)

    def _write(self, names: set[str]) -> None:
        files = {Path(name).resolve() for name in names if name.endswith(".py")}
        inside = sorted(
            str(file.relative_to(self._root)) for file in files if file.is_relative_to(self._root)
        )
        texts: dict[str, set[str]] = {}
        for instance in self._instances.values():
            kind = type(instance)
            texts.setdefault(f"{kind.__module__}.{kind.__qualname__}", set()).update(_texts(instance, _DEPTH))
        record = {"files": inside, "texts": {kind: sorted(parts) for kind, parts in sorted(texts.items())}}
        self._output.write_text(json.dumps(record), encoding="utf-8")


def _texts(value: Any, depth: int) -> set[str]:
    """The texts that a value holds, in its fields and their items too."""
    if isinstance(value, str):
        return {value}
    if not depth:
        return set()
    if isinstance(value, dict):
        parts = [*value.values()]
    elif isinstance(value, tuple | list | set | frozenset):
        parts = [*value]
    elif type(value).__module__.startswith("videopro"):
        slots = [name for kind in type(value).__mro__ for name in kind.__dict__.get("__slots__", ())]
        parts = [*getattr(value, "__dict__", {}).values()]
        parts += [getattr(value, name, None) for name in slots]
    else:
        return set()
    return set().union(*(_texts(part, depth - 1) for part in parts)) if parts else set()


if "HOUSE_FUNCTION" in os.environ:
    CallTrace(
        os.environ["HOUSE_FUNCTION"],
        Path(os.environ["HOUSE_ROOT"]),
        Path(os.environ["HOUSE_OUTPUT"]),
    ).start()
