"""Steps captured as CUDA graphs, with a stand-in for CUDA that keeps its rules."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from videopro.backbones.qwen.static_batch import Captures

SECOND = torch.device("cuda", 1)


class Graph(SimpleNamespace):
    """A graph, which keeps its pool alive."""

    __hash__ = object.__hash__


class Cuda:
    """Two GPUs. A pool dies with the last graph in it, and its handle is taken for no other graph
    (c10/cuda/CUDACachingAllocator.cpp, create_or_incref_pool); only one capture may be underway in a process
    (the note in torch.cuda.graph)."""

    def __init__(self) -> None:
        self.pools = 0
        self.begun: set[Any] = set()
        self.underway = 0
        self.alive: weakref.WeakSet[Graph] = weakref.WeakSet()

    def graph_pool_handle(self) -> object:
        self.pools += 1
        return (0, self.pools)

    def current_stream(self, device: torch.device) -> Any:
        return SimpleNamespace(device=device, priority=-1)

    def Stream(self, device: torch.device, *, priority: int) -> Any:
        return SimpleNamespace(device=device, priority=priority)

    @contextmanager
    def graph(self, graph: Graph, *, pool: Any, stream: Any, capture_error_mode: str) -> Iterator[None]:
        assert capture_error_mode == "thread_local"
        if pool in self.begun:
            assert pool in [each.pool for each in self.alive], "use_count > 0 INTERNAL ASSERT FAILED"
        assert self.underway == 0, "only one capture may be underway at a time in the process"
        self.underway += 1
        yield
        self.underway -= 1
        graph.pool, graph.stream = pool, stream
        self.begun.add(pool)
        self.alive.add(graph)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    made = Cuda()
    for name in ("graph_pool_handle", "current_stream", "Stream", "graph"):
        monkeypatch.setattr(torch.cuda, name, getattr(made, name))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    return made


def nothing() -> None:
    pass


def test_graphs_share_a_pool_while_one_of_them_is_kept(cuda: Cuda) -> None:
    captures = Captures(SECOND)
    first, second = captures.capture(nothing), captures.capture(nothing)
    assert first.pool == second.pool
    # Kernels keep the priority of the stream on which they were captured.
    assert (first.stream.device.index, first.stream.priority) == (1, -1)
    del first
    assert captures.capture(nothing).pool == second.pool
    # Kept by nobody, as after memory ran out.
    before = second.pool
    del second
    assert captures.capture(nothing).pool != before


def test_two_threads_capture_one_after_the_other(cuda: Cuda) -> None:
    begun, other = threading.Event(), threading.Event()

    def until_the_other_waits() -> None:
        begun.set()
        # It cannot begin, so that this ends without it; in vain if it could.
        assert not other.wait(0.2)

    def capture_beside() -> None:
        begun.wait(10)
        Captures(SECOND).capture(other.set)

    with ThreadPoolExecutor(1) as threads:
        beside = threads.submit(capture_beside)
        Captures(SECOND).capture(until_the_other_waits)
        beside.result(10)
    assert other.is_set()
