"""Threads of a pool and the GPU that their process computes on."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from videopro.backbones import sharing_gpu
from videopro.methods.program import run_parallel


@pytest.fixture
def second_gpu(monkeypatch: pytest.MonkeyPatch) -> threading.local:
    """A process on the second of two GPUs; as in CUDA, a new thread's current one is the first."""
    current = threading.local()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: getattr(current, "device", 0))
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: setattr(current, "device", device))
    torch.cuda.set_device(1)
    return current


@pytest.mark.usefixtures("second_gpu")
def test_programs_that_run_at_once_use_their_processs_gpu() -> None:
    meeting = threading.Barrier(2, timeout=30)

    def work(number: int) -> tuple[int, int]:
        meeting.wait()
        return threading.get_ident(), torch.cuda.current_device()

    first, second = run_parallel([0, 1], work, 2)
    assert isinstance(first, tuple)
    assert isinstance(second, tuple)
    assert len({first[0], second[0], threading.get_ident()}) == 3
    assert (first[1], second[1]) == (1, 1)


def test_a_gpu_that_nobody_uses_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object) -> int:
        raise AssertionError("it was opened")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_device", opened)
    monkeypatch.setattr(torch.cuda, "set_device", opened)
    with ThreadPoolExecutor(1, initializer=sharing_gpu()) as threads:
        assert threads.submit(int, "7").result() == 7
