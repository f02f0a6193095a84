"""Decodes parts of long videos in separate processes, so that the process with a model does not share its
interpreter with decoding.

Pictures come back in memory that both processes map. A process that is killed is replaced, and its parts are
decoded once more.
"""

from __future__ import annotations

import atexit
import mmap
import multiprocessing
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np

from videopro.errors import Cancellation, Cancelled, VideoError, cancellable, result_of
from videopro.startup import OwnFunctions, exit_with_parent
from videopro.video.decoding.exact import DecodedPictures, pictures_at, processors
from videopro.video.decoding.probe import Probe

_CORES_EACH = 4
"""Cores for each process; with fewer, threads of the calling process decode."""
_FEWEST_PICTURES = 512
"""Fewer pictures are decoded sooner than processes start."""
_ATTEMPTS = 2

_Decoded = tuple[dict[int, int], list[int], set[int]]
"""Of what was decoded: what is shown at which tick, the timestamps of the pictures in order, and the ticks at
which one is damaged."""


class PartInProcess:
    """A part of a video that a process decodes."""

    def __init__(
        self, pool: DecodingProcesses, probe: Probe, ticks: list[int], size: tuple[int, int], timeout: float
    ) -> None:
        self.ticks = ticks
        self._pool = pool
        self._probe = probe
        self._size = size
        self._timeout = timeout
        self._attempts = 0
        self._submit()

    def _submit(self) -> None:
        self._attempts += 1
        shape = (len(self.ticks), *self._size, 3)
        # Not a file in /dev/shm, which containers often limit to 64 MiB.
        memory = os.memfd_create("videopro-pictures")
        try:
            os.ftruncate(memory, int(np.prod(shape)) + 1)
            self._is_cancelled, self._pictures = _parts_of(mmap.mmap(memory, 0), shape)
            self._pictures.flags.writeable = False
            self._executor, self._future = self._pool.submit(
                self._probe, self.ticks, self._size, self._timeout, memory
            )
        except BaseException:
            os.close(memory)
            raise
        # Not earlier: the process opens it by its number.
        self._future.add_done_callback(lambda _: os.close(memory))

    def result(self) -> DecodedPictures:
        """The pictures, once they are decoded. Raises VideoError, also if the process died twice, and
        Cancelled."""
        while True:
            try:
                at, order, damaged = result_of(self._future)
            except BrokenProcessPool as error:
                self._pool.replace(self._executor)
                if self._attempts == _ATTEMPTS:
                    raise VideoError(
                        f"{self._probe.path}: its decoding processes were killed {_ATTEMPTS} times, as the "
                        "system does when memory runs out; free some memory, or limit this process to fewer "
                        f"than {_CORES_EACH} cores (taskset), so that it decodes in-process"
                    ) from error
                self._submit()
                continue
            return DecodedPictures(at, dict(zip(order, self._pictures, strict=False)), damaged)

    def cancel(self) -> None:
        """Do not decode it; a process that has begun ends at its next packet."""
        self._future.cancel()
        self._is_cancelled[0] = 1


class DecodingProcesses:
    """A pool of processes that decode. Thread-safe."""

    def __init__(self, cores: int) -> None:
        self.count = max(1, cores // _CORES_EACH)
        self._threads = cores // self.count
        self._lock = threading.Lock()
        self._executor: ProcessPoolExecutor | None = None

    def decode(self, probe: Probe, ticks: list[int], size: tuple[int, int], timeout: float) -> PartInProcess:
        """Begin to decode the pictures at `ticks`. See `pictures_at`."""
        return PartInProcess(self, probe, ticks, size, timeout)

    def submit(
        self, probe: Probe, ticks: Sequence[int], size: tuple[int, int], timeout: float, memory: int
    ) -> tuple[ProcessPoolExecutor, Future[_Decoded]]:
        """Used by `PartInProcess`."""
        arguments = (probe, ticks, size, timeout, self._threads, os.getpid(), memory)
        refused = 0
        while True:
            executor = self._running()
            try:
                return executor, executor.submit(_decode, *arguments)
            except (BrokenProcessPool, OSError) as error:
                self.replace(executor)
                # A pool that breaks while it starts a process raises OSError: its handles are closed by then.
                refused += isinstance(error, OSError)
                if refused == _ATTEMPTS:
                    raise

    def _running(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._executor is None:
                # Spawned: a forked process would hold copies of this one's locks, and of its use of a GPU.
                self._executor = ProcessPoolExecutor(
                    self.count,
                    mp_context=OwnFunctions(),
                    initializer=_begin,
                    initargs=(os.getpid(),),
                )
            return self._executor

    def replace(self, broken: ProcessPoolExecutor) -> None:
        """Start other processes at the next part, unless that was done."""
        with self._lock:
            if self._executor is broken:
                self._executor = None
        broken.shutdown(wait=False)

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(cancel_futures=True)


_shared: DecodingProcesses | None = None
_sharing = threading.Lock()


def decoding_processes(pictures: int) -> DecodingProcesses | None:
    """The processes of this one for a stream of so many pictures; None if its own threads decode them: few
    pictures, few cores, or a process that may have no children."""
    global _shared
    cores = processors()
    if pictures < _FEWEST_PICTURES or cores < _CORES_EACH or multiprocessing.current_process().daemon:
        return None
    with _sharing:
        if _shared is None:
            _shared = DecodingProcesses(cores)
            atexit.register(_shared.close)
        return _shared


def _after_fork() -> None:
    """A forked child has none of the threads that wait for the processes."""
    global _shared, _sharing
    _shared, _sharing = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _begin(parent: int) -> None:
    # Ctrl-C reaches every process of a terminal; the parent decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    exit_with_parent(parent)


def _decode(
    probe: Probe,
    ticks: Sequence[int],
    size: tuple[int, int],
    timeout: float,
    threads: int,
    parent: int,
    memory: int,
) -> _Decoded:
    """Write the pictures into the parent's memory."""
    descriptor = os.open(f"/proc/{parent}/fd/{memory}", os.O_RDWR)
    try:
        mapped = mmap.mmap(descriptor, 0)
    finally:
        os.close(descriptor)
    is_cancelled, target = _parts_of(mapped, (len(ticks), *size, 3))
    with cancellable(_ParentsCancellation(is_cancelled)):
        pictures = pictures_at(probe, ticks, size, lambda pts: False, timeout, threads=threads)
    for row, image in zip(target, pictures.images.values(), strict=False):
        row[:] = image
    return pictures.at, list(pictures.images), pictures.damaged


def _parts_of(mapped: mmap.mmap, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The two parts of the memory that the processes share: a byte in which the parent says that nobody waits
    for the pictures any more, and the pictures before it."""
    data = np.frombuffer(mapped, np.uint8)
    return data[-1:], data[:-1].reshape(shape)


class _ParentsCancellation(Cancellation):
    """Whether the parent has cancelled the work of this process."""

    def __init__(self, is_cancelled: np.ndarray) -> None:
        super().__init__()
        self._flag = is_cancelled

    @property
    def is_cancelled(self) -> bool:
        return bool(self._flag[0])

    def check(self) -> None:
        if self.is_cancelled:
            raise Cancelled
