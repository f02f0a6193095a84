"""A discrete-event simulation of a run on a cluster: nodes with workers, a shared disk, and one driver.

Assumptions, all of them simple:

- A worker has one GPU, some CPUs and some videos in flight. Its GPU serves one request after the other,
  each with the time that one takes of a full batch. Its CPUs serve one part of a video each.
- A video has parts (its questions, or pieces to embed). Each part takes a CPU first and then the GPU. The
  parts of an index follow each other on one CPU, as a file is decoded in order.
- The disk is shared: its bandwidth serves one reader after the other, weights in pieces. A node reads the
  model's weights once.
- The driver hands out a video, receives results and writes them, one thing after the other.
- The time of a part varies from video to video (log-normal), with a mean of its cost.
- Nothing fails, and the network takes no time.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

# Of a model's weights.
_PIECES = 50


@dataclass(frozen=True)
class Machine:
    """A node, the disk that all share, and the driver. Seconds, bytes a second."""

    gpus: int
    cpus_per_gpu: int
    disk_bandwidth: float
    weights: float
    """Bytes of the model that a node reads."""
    start_s: float
    """From the weights' arrival until a worker can answer."""
    give_s: float
    """The driver's time to hand out a video."""
    receive_s: float
    """The driver's time for a result: receive it, write it, count it."""


@dataclass(frozen=True)
class Stage:
    """What a video costs: its own CPU time and bytes, then the CPU and GPU time of each of its parts."""

    parts: int
    video_cpu_s: float
    part_cpu_s: float
    part_gpu_s: float
    bytes_read: float
    results: int
    """What the driver receives of a video."""
    in_order: bool
    """Whether the parts follow each other on one CPU."""
    in_flight: int
    spread: float
    """Standard deviation of the logarithm of a video's factor."""


@dataclass
class Server:
    """Serves requests in order, `places` at a time."""

    clock: Clock
    places: int = 1
    busy_s: float = 0.0
    _free: int = field(init=False)
    _queue: deque[tuple[float, Callable[[], None]]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._free = self.places

    def ask(self, seconds: float, then: Callable[[], None]) -> None:
        """Serve a request of so many seconds, and go on with `then`."""
        self._queue.append((seconds, then))
        self._serve()

    def _serve(self) -> None:
        while self._free and self._queue:
            seconds, then = self._queue.popleft()
            self._free -= 1
            self.busy_s += seconds
            self.clock.after(seconds, self._finished(then))

    def _finished(self, then: Callable[[], None]) -> Callable[[], None]:
        def done() -> None:
            self._free += 1
            then()
            self._serve()

        return done


class Clock:
    """Simulated time, in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, seconds: float, then: Callable[[], None]) -> None:
        """Call `then` so many seconds from now."""
        self._count += 1
        heapq.heappush(self._events, (self.now + seconds, self._count, then))

    def run(self) -> None:
        """Until nothing is left to happen."""
        while self._events:
            self.now, _, then = heapq.heappop(self._events)
            then()


@dataclass(frozen=True)
class Outcome:
    """How a run went. Shares are of the time from the first to the last event."""

    seconds: float
    start_s: float
    """Until half of the workers were ready."""
    tail_s: float
    """From the moment when nothing was left to hand out to the end."""
    gpu_share: float
    cpu_share: float
    disk_share: float
    driver_share: float

    @property
    def limit(self) -> str:
        """What is busiest; "start" or "tail" if these take more than a quarter of the time."""
        if self.start_s > self.seconds / 4:
            return "start"
        shares = {
            "GPU": self.gpu_share,
            "CPUs": self.cpu_share,
            "disk": self.disk_share,
            "driver": self.driver_share,
        }
        busiest = max(shares, key=lambda name: shares[name])
        if shares[busiest] < 0.75 and self.tail_s > self.seconds / 4:
            return "tail"
        return busiest


def simulate(nodes: int, videos: int, machine: Machine, stage: Stage, seed: int = 0) -> Outcome:
    """A run over so many videos on so many nodes."""
    return _Run(nodes, videos, machine, stage, seed).outcome()


class _Run:
    def __init__(self, nodes: int, videos: int, machine: Machine, stage: Stage, seed: int) -> None:
        self._machine, self._stage = machine, stage
        self._clock = Clock()
        self._disk, self._driver = Server(self._clock), Server(self._clock)
        workers = nodes * machine.gpus
        self._gpus = [Server(self._clock) for _ in range(workers)]
        self._cpus = [Server(self._clock, machine.cpus_per_gpu) for _ in range(workers)]
        random = np.random.default_rng(seed)
        # A mean of 1.
        self._factors = random.lognormal(-(stage.spread**2) / 2, stage.spread, videos).tolist()
        self._left = videos
        self._ready: list[float] = []
        self._drained: float | None = None
        for node in range(nodes):
            self._load(node, _PIECES)

    def outcome(self) -> Outcome:
        self._clock.run()
        end = self._clock.now
        workers = len(self._gpus)
        drained = end if self._drained is None else self._drained
        return Outcome(
            end,
            sorted(self._ready)[workers // 2],
            end - drained,
            sum(gpu.busy_s for gpu in self._gpus) / workers / end,
            sum(cpu.busy_s for cpu in self._cpus) / workers / self._machine.cpus_per_gpu / end,
            self._disk.busy_s / end,
            self._driver.busy_s / end,
        )

    def _load(self, node: int, pieces: int) -> None:
        """Read the rest of the weights, so many pieces of them."""
        seconds = self._machine.weights / _PIECES / self._machine.disk_bandwidth
        then = partial(self._load, node, pieces - 1) if pieces > 1 else partial(self._loaded, node)
        self._disk.ask(seconds, then)

    def _loaded(self, node: int) -> None:
        for worker in range(node * self._machine.gpus, (node + 1) * self._machine.gpus):
            self._clock.after(self._machine.start_s, partial(self._begin, worker))

    def _begin(self, worker: int) -> None:
        self._ready.append(self._clock.now)
        for _ in range(self._stage.in_flight):
            self._next(worker)

    def _next(self, worker: int) -> None:
        if not self._left:
            self._drained = self._clock.now if self._drained is None else self._drained
            return
        self._left -= 1
        factor = self._factors[self._left]
        seconds = self._stage.bytes_read / self._machine.disk_bandwidth

        def read() -> None:
            self._disk.ask(seconds, lambda: _Video(self, worker, factor).open())

        self._driver.ask(self._machine.give_s, read)


class _Video:
    def __init__(self, run: _Run, worker: int, factor: float) -> None:
        self._run, self._worker, self._factor = run, worker, factor
        self._left = run._stage.parts

    def open(self) -> None:
        run, stage = self._run, self._run._stage
        own = stage.video_cpu_s * self._factor
        run._cpus[self._worker].ask(own, self._part if stage.in_order else self._all_parts)

    def _all_parts(self) -> None:
        for _ in range(self._run._stage.parts):
            self._cpu(self._gpu)

    def _part(self) -> None:
        self._decoded = getattr(self, "_decoded", 0) + 1
        last = self._decoded == self._run._stage.parts

        def then() -> None:
            self._gpu()
            if not last:
                self._part()

        self._cpu(then)

    def _cpu(self, then: Callable[[], None]) -> None:
        self._run._cpus[self._worker].ask(self._run._stage.part_cpu_s * self._factor, then)

    def _gpu(self) -> None:
        self._run._gpus[self._worker].ask(self._run._stage.part_gpu_s * self._factor, self._done)

    def _done(self) -> None:
        run, stage = self._run, self._run._stage
        self._left -= 1
        seconds = run._machine.receive_s * stage.results / stage.parts
        if self._left:
            run._driver.ask(seconds, lambda: None)
        else:
            # The driver knows of the video's end when it has read what came before.
            run._driver.ask(seconds, lambda: run._next(self._worker))
