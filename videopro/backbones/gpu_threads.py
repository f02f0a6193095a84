"""What the threads of a pool take over from the one that starts them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any


def sharing_gpu() -> Callable[[], None]:
    """An initializer for the threads of a pool: their current GPU is that of this thread. That of a new
    thread is the machine's first, whichever one the process computes on."""
    torch: Any = sys.modules.get("torch")
    # Before a GPU is used the first is everyone's, and to ask for it would open it.
    if torch is None or not torch.cuda.is_initialized():
        return _nothing
    return partial(torch.cuda.set_device, torch.cuda.current_device())


def _nothing() -> None:
    pass
