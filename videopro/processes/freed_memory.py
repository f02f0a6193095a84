"""Freed memory, handed back to the system.

glibc keeps what is freed for the next who asks. In a process that lives long, what is kept for hours (frames)
comes to lie between what is needed for moments (pictures being decoded, a model's activations), and the gaps
add up: a worker whose kept frames stayed within 512 MiB held another 1,100 MiB that nobody used after 1,122
questions, and more with every further one (`perf/memory.py`). Knows the C library, and nothing else.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


@cache
def _malloc_trim() -> Any:
    """glibc's function; None with another C library."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def trim_heap() -> None:
    """Give every free page back: some 50 ms for a GiB. For between two videos, not between two questions."""
    trim = _malloc_trim()
    if trim is not None:
        trim(ctypes.c_size_t(0))
