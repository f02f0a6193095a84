"""The load of a live engine over some work, from its /metrics."""

from __future__ import annotations

import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import psutil

# Of vLLM: the time from a request to the end of its reply. What it counts as running and waiting leaves out
# requests that are answered within one step, as those for one token are.
_LATENCY = "e2e_request_latency_seconds"
# Seconds between two looks at a live engine.
_EVERY = 0.1


@dataclass(frozen=True)
class Load:
    """What an engine did from the first request to the last reply."""

    seconds: float
    request_s: float
    """The sum of the times of all requests in the engine."""
    requests: int
    prompt_tokens: int
    reply_tokens: int
    cpu_s: float | None = None
    """Processor time of an engine on this machine, with its HTTP server."""

    def figures(self, questions: int) -> dict[str, float]:
        """What a row says of it; `questions` were answered."""
        figures = {
            "questions_per_s": round(questions / self.seconds, 2),
            "mean_requests": round(self.request_s / self.seconds, 1),
            "requests_a_question": round(self.requests / questions, 2),
            "prompt_tokens_a_question": round(self.prompt_tokens / questions),
            "reply_tokens_a_question": round(self.reply_tokens / questions),
        }
        if self.cpu_s is not None:
            figures["engine_cpu_s_a_question"] = round(self.cpu_s / questions, 4)
        return figures


class EngineLoad:
    """Watches the vLLM at `url` (without /v1)."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._looks: list[tuple[float, float, float]] = []
        """(time, requests that were answered, the sum of their times)."""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._before: dict[str, float] = {}
        self._cpu_before: float | None = None

    def start(self) -> None:
        """A piece of work begins, and the engine forgets earlier prompts if it can."""
        # Only offered by a server in development mode; without it, prompts that were seen are cheaper.
        with suppress(HTTPError):
            for cache in ("prefix", "mm", "encoder"):
                with urlopen(Request(f"{self._url}/reset_{cache}_cache", b"{}", method="POST")):
                    pass
        self._before, self._looks = self._metrics(), []
        self._cpu_before = self._cpu_s()
        self._ended.clear()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> Load:
        """What the engine did since `start`. Raises RuntimeError if it answered no request."""
        self._end()
        self._look()
        after, cpu_s = self._metrics(), self._cpu_s()
        done = {name: after[name] - self._before.get(name, 0.0) for name in after}
        return Load(
            self._seconds(),
            done.get(f"{_LATENCY}_sum", 0.0),
            round(done.get("request_success_total", 0)),
            round(done.get("prompt_tokens_total", 0)),
            round(done.get("generation_tokens_total", 0)),
            cpu_s=None if cpu_s is None or self._cpu_before is None else cpu_s - self._cpu_before,
        )

    def _seconds(self) -> float:
        """From the first request to the last reply, to a tenth of a second."""
        answered = [look for look in self._looks if look[1]]
        if not answered:
            raise RuntimeError(f"{self._url}: its metrics count no request")
        # The first ones came about as long before they were answered as they took.
        time_of_first, count, latency = answered[0]
        time_of_last = next(time for time, done, _ in answered if done == answered[-1][1])
        return time_of_last - time_of_first + latency / count

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY):
            self._look()

    def _look(self) -> None:
        metrics = self._metrics()
        count, latency = (
            metrics.get(f"{_LATENCY}_{part}", 0.0) - self._before.get(f"{_LATENCY}_{part}", 0.0)
            for part in ("count", "sum")
        )
        self._looks.append((time.perf_counter(), count, latency))

    def _cpu_s(self) -> float | None:
        """Processor time of what listens at the address, and of its children; None on another machine."""
        address = urlsplit(self._url)
        if address.hostname not in ("127.0.0.1", "localhost"):
            return None
        pids = {
            each.pid
            for each in psutil.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN and each.laddr.port == address.port and each.pid is not None
        }
        parents = [psutil.Process(pid) for pid in pids]
        processes = {each for parent in parents for each in (parent, *parent.children(recursive=True))}
        return sum(sum(each.cpu_times()[:2]) for each in processes) if processes else None

    def _end(self) -> None:
        self._ended.set()
        assert self._thread is not None
        self._thread.join()

    def _metrics(self) -> dict[str, float]:
        """vLLM's counters and gauges, each summed over its labels, without the prefix "vllm:"."""
        metrics: dict[str, float] = {}
        with urlopen(f"{self._url}/metrics") as reply:
            for line in reply.read().decode().splitlines():
                parts = re.fullmatch(r"vllm:(\w+)(?:\{.*\})? (\S+)", line)
                if parts:
                    metrics[parts[1]] = metrics.get(parts[1], 0.0) + float(parts[2])
        return metrics
