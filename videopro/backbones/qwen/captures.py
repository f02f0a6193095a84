"""Captures the steps of a model as CUDA graphs, which replay thousands of kernels without Python."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

_one_at_a_time = threading.Lock()
"""torch captures one graph at a time in a process. Two threads write replies where a policy is sampled while
its base answers programs."""


class Captures:
    """Captured steps of a model on `device`, which share the memory of their intermediate values. The device
    has to be the current one of a thread that uses them. Made where the stream is current on which the steps
    are replayed."""

    def __init__(self, device: torch.device) -> None:
        # torch's own stream for captures is on the GPU that was current when it was first needed. A graph's
        # kernels keep the priority with which they were captured, wherever it is replayed.
        priority = torch.cuda.current_stream(device).priority
        self._stream: Any = torch.cuda.Stream(device, priority=priority)
        self._alive: weakref.WeakSet[Any] = weakref.WeakSet()
        self._pool: Any = None

    def warm_up(self, step: Callable[[], None]) -> None:
        """Run a step as it will be captured: libraries allocate what they need in the first."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream), _without_autocast_cache():
            step()
        torch.cuda.current_stream().wait_stream(self._stream)

    def capture(self, step: Callable[[], None]) -> Any:
        """A graph of the step, which is not run."""
        graph = torch.cuda.CUDAGraph()
        with _one_at_a_time:
            if not self._alive:
                # With the last graph in it a pool is given up: torch takes its handle for no other graph.
                self._pool = torch.cuda.graph_pool_handle()
            with (
                # Other threads of this process decode videos and run other models meanwhile.
                torch.cuda.graph(
                    graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
                ),
                _without_autocast_cache(),
            ):
                step()
            self._alive.add(graph)
        return graph


@contextlib.contextmanager
def _without_autocast_cache() -> Iterator[None]:
    """Within, autocast keeps no casts: a captured step would read one that is gone when it is replayed."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)
