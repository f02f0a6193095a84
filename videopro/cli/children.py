"""Child processes that run functions of this package alone.

multiprocessing's spawn imports the caller's script in each child, so a script without `if __name__ ==
"__main__"` would start again there: a model loaded twice, and a child that waits for its parent's locks.
"""

from __future__ import annotations

import threading
from multiprocessing import spawn
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

_starting = threading.local()
_of_multiprocessing = spawn.get_preparation_data


def _preparation_data(name: str) -> dict[str, Any]:
    data = _of_multiprocessing(name)
    if getattr(_starting, "is_ours", False):
        data.pop("init_main_from_name", None)
        data.pop("init_main_from_path", None)
    return data


# multiprocessing has no option for it.
spawn.get_preparation_data = _preparation_data


class _Child(SpawnProcess):
    def start(self) -> None:
        _starting.is_ours = True
        try:
            super().start()
        finally:
            _starting.is_ours = False


class OwnFunctions(SpawnContext):
    """A context for pools whose functions and arguments are of installed packages, not of the caller's
    script."""

    Process = _Child
