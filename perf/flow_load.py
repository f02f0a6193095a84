"""The load of an engine over some work, from the engine of known speed or from a live one's /metrics."""

from __future__ import annotations

import json
import re
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

# Seconds between two looks at a live engine.
_EVERY = 0.1


@dataclass(frozen=True)
class Load:
    """What an engine did from the first request to the last reply."""

    seconds: float
    busy_s: float
    """Time with a request in the engine."""
    request_s: float
    """The sum of the times of all requests in the engine."""
    requests: int
    prompt_tokens: int
    reply_tokens: int


class EngineLoad:
    """Watches the engine at `url` (without /v1). `is_live`: it is vLLM, and not perf/flow_server.py."""

    def __init__(self, url: str, *, is_live: bool) -> None:
        self._url = url
        self._is_live = is_live
        self._looks: list[tuple[float, float]] = []
        """(time, requests in the engine)."""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._before: dict[str, float] = {}

    def start(self, *, speed: float) -> None:
        """A piece of work begins, and the engine forgets earlier prompts if it can. `speed`: 0 makes the
        engine of known speed answer at once."""
        if not self._is_live:
            _post(f"{self._url}/reset", {"speed": speed})
            return
        self._end()
        # Only offered by a server in development mode; without it, prompts that were seen are cheaper.
        with suppress(HTTPError):
            _post(f"{self._url}/reset_prefix_cache", {})
        self._before, self._looks = self._metrics(), []
        self._ended.clear()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> Load:
        """What the engine did since `start`."""
        if not self._is_live:
            with urlopen(f"{self._url}/stats") as reply:
                stats: dict[str, Any] = json.load(reply)
            return Load(
                stats["last"] - stats["first"],
                *(
                    stats[name]
                    for name in ("busy_s", "request_s", "requests", "prompt_tokens", "reply_tokens")
                ),
            )
        self._end()
        after = self._metrics()
        inside = [place for place, (_, count) in enumerate(self._looks) if count]
        looks = self._looks[inside[0] : inside[-1] + 2] if inside else []
        steps = [(b[0] - a[0], a[1]) for a, b in pairwise(looks)]
        done = {name: after[name] - self._before.get(name, 0.0) for name in after}
        return Load(
            sum(seconds for seconds, _ in steps),
            sum(seconds for seconds, count in steps if count),
            sum(seconds * count for seconds, count in steps),
            round(done.get("request_success_total", 0)),
            round(done.get("prompt_tokens_total", 0)),
            round(done.get("generation_tokens_total", 0)),
        )

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY):
            found = self._metrics()
            inside = found["num_requests_running"] + found["num_requests_waiting"]
            self._looks.append((time.perf_counter(), inside))

    def _end(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _metrics(self) -> dict[str, float]:
        """vLLM's counters and gauges, each summed over its labels, without the prefix "vllm:"."""
        found: dict[str, float] = {}
        with urlopen(f"{self._url}/metrics") as reply:
            for line in reply.read().decode().splitlines():
                parts = re.fullmatch(r"vllm:(\w+)(?:\{.*\})? (\S+)", line)
                if parts:
                    found[parts[1]] = found.get(parts[1], 0.0) + float(parts[2])
        return found


def _post(url: str, body: dict[str, Any]) -> None:
    data = json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"}, method="POST")):
        pass
