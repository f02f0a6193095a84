"""Return freed memory to the system.

glibc keeps freed memory for later allocations. In a long-lived process, memory kept for hours (frames) is
interleaved with memory needed for moments (pictures being decoded, a model's activations), and the gaps add
up: a worker whose frames stayed within 512 MiB held another 1,100 MiB of unused memory after 1,122 questions,
and more with each further one (`perf/memory.py`).
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


@cache
def _malloc_trim() -> Any:
    """glibc's function; None with another C library."""
    # Another C library, such as musl, has no such function.
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def trim_heap() -> None:
    """Return all free pages: about 50 ms per GiB. Call it between two videos, not between two questions."""
    trim = _malloc_trim()
    if trim is not None:
        trim(ctypes.c_size_t(0))
