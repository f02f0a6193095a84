"""Measures `videopro serve`: many clients at a time, and clients that hang up.

    python -m perf.serving_clients [--model pocket] [--clients 50] [--hang-ups 20] [--output FILE]

Starts a server with one model in a folder of its own, uploads pocket films, and asks questions of pocket's
test split about them, with OpenAI's client. Every client has an address of its own (127.0.0.2 and on), by
which the server tells them apart.

- `each`: all clients ask one question at the same time;
- `behind`: one client has asked 12 questions; then six others ask one each;
- `hang_ups`: a client hangs up somewhere on the way, streamed or not; how long until the server, by its own
  /metrics, is at work on nothing, and that no answer is stored.

Prints the tables and writes perf/serving_clients.json.
"""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from openai import OpenAI

from perf import ROOT
from perf.command import run_command
from perf.recorded import print_tables
from perf.recording import write_record
from videopro.benchmarks import Item, load
from videopro.cli import setting
from videopro.errors import RunError

_FILMS = ("short_000", "short_008", "short_012", "short_014", "short_016")
_LEFT_OUT = "sign"
"""Reading a sign takes longer than all other steps together, and would be what is measured."""
_STEPS = ("reply", "call", "step")
_MANY, _BEHIND = 12, 6
_GOAL_SECONDS = 1.0
_START_SECONDS = 300
# Longer than it takes to ask: hang-ups are spread over the whole way of a question.
_LATEST_HANG_UP = 3.0


@dataclass(frozen=True)
class ClientSettings:
    """Measure videopro serve: many clients at a time, and clients that hang up."""

    model: str = field(default="pocket", metadata=setting("the server's model"))
    method: str = field(default="videopro", metadata=setting("the method of all questions"))
    clients: int = field(default=50, metadata=setting("clients at a time"))
    hang_ups: int = field(default=20, metadata=setting("clients that hang up"))
    output: Path = field(
        default=ROOT / "perf" / "serving_clients.json", metadata=setting("file for the results")
    )


@dataclass
class Seen:
    """What a client saw, in seconds since it asked."""

    places: list[int] = field(default_factory=list)
    """In the line, each time that it was told."""
    told: float | None = None
    """The first event of any kind."""
    step: float | None = None
    answer: float | None = None
    error: str = ""


def measure(settings: ClientSettings) -> None:
    """Measure, write the record and print it."""
    items = _questions()
    with tempfile.TemporaryDirectory() as folder, _server(settings, Path(folder)) as address:
        with _client(address, 1) as client:
            films = {
                stem: client.files.create(file=path, purpose="user_data").id
                for stem, path in {item.video.stem: item.video for item in items}.items()
            }

        def ask(number: int, client: int) -> Seen:
            item = items[number % len(items)]
            return _ask(address, settings, films[item.video.stem], item, client)

        # Models behind the modules and indexes of the films are loaded and made with the first questions.
        for number in range(0, len(items), len(items) // len(_FILMS)):
            ask(number, 1)
        each = _together([(number, number + 2) for number in range(settings.clients)], ask)
        load = os.getloadavg()[0]
        many, others = _behind(ask)
        hang_ups = [
            _hang_up(address, settings, films[items[n].video.stem], items[n], n)
            for n in range(settings.hang_ups)
        ]
    record = {
        "model": settings.model,
        "method": settings.method,
        "in_flight": 4,
        "load_average": load,
        "each": _summary(each),
        "behind": {"questions_of_one": _MANY, "one": _summary(many), "others": _summary(others)},
        "hang_ups": {
            "clients": len(hang_ups),
            "goal_s": _GOAL_SECONDS,
            "in_time": sum(seconds <= _GOAL_SECONDS for seconds, _ in hang_ups),
            "answers_stored": sum(stored for _, stored in hang_ups),
            "seconds": sorted(round(seconds, 3) for seconds, _ in hang_ups),
        },
    }
    write_record(settings.output, record)
    print_tables("perf/serving_clients.json", record)


def _questions() -> list[Item]:
    benchmark = load("pocket", split="test")
    items = [
        item
        for item in benchmark.items
        if item.video.stem in _FILMS and item.groups.get("family") != _LEFT_OUT
    ]
    assert benchmark.fetch is not None
    benchmark.fetch(items)
    return items


@contextmanager
def _server(settings: ClientSettings, folder: Path) -> Iterator[str]:
    """A server in a process of its own; yields its address. Raises RunError if it does not start."""
    words = ["--model", settings.model, "--method", settings.method, "--port", "0", "--in-flight", "4"]
    words += ["--log-level", "warning"]
    command = [sys.executable, "-m", "videopro", "serve", *words, "--output", str(folder / "serve")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            match = re.search(r"http://\S+", line)
            if match is None:
                raise RunError(f"the server did not start: {line!r}")
            yield match[0]
        finally:
            process.terminate()


def _client(address: str, number: int) -> OpenAI:
    """A client at an address of its own."""
    transport = httpx2.HTTPTransport(local_address=f"127.0.0.{number}")
    http = httpx2.Client(transport=transport, timeout=_START_SECONDS * 4)
    return OpenAI(base_url=f"{address}/v1", api_key="none", http_client=http, max_retries=0)


def _ask(address: str, settings: ClientSettings, film: str, item: Item, number: int) -> Seen:
    seen, began = Seen(), time.monotonic()
    try:
        with _client(address, number) as client:
            asked = _asked(settings, film, item)
            chunks: Any = client.chat.completions.create(
                model=asked["model"],
                messages=asked["messages"],
                extra_body={"videopro": asked["videopro"]},
                stream=True,
            )
            for chunk in chunks:
                now = time.monotonic() - began
                event = getattr(chunk.choices[0].delta, "videopro", None)
                if event is None:
                    seen.answer = now if chunk.choices[0].delta.content else seen.answer
                    continue
                seen.told = now if seen.told is None else seen.told
                if event["type"] == "queued":
                    seen.places.append(event["position"])
                elif event["type"] in _STEPS and seen.step is None:
                    seen.step = now
    except Exception as error:  # Any kind: the others go on, and it is counted.
        seen.error = f"{type(error).__name__}: {error}"
        print(seen.error, file=sys.stderr)
    return seen


def _together(asked: Sequence[tuple[int, int]], ask: Any) -> list[Seen]:
    """Ask all questions at the same time."""
    ready = threading.Barrier(len(asked))

    def one(number: int, client: int) -> Seen:
        ready.wait()
        seen: Seen = ask(number, client)
        return seen

    with ThreadPoolExecutor(len(asked)) as threads:
        return list(threads.map(lambda pair: one(*pair), asked))


def _behind(ask: Any) -> tuple[list[Seen], list[Seen]]:
    """What one client with many questions sees, and what those see who come after it with one each."""
    with ThreadPoolExecutor(_MANY + _BEHIND) as threads:
        many = [threads.submit(ask, number, 2) for number in range(_MANY)]
        # All of them are in line.
        time.sleep(2.0)
        others = [threads.submit(ask, number, number + 3) for number in range(_BEHIND)]
        return [each.result() for each in many], [each.result() for each in others]


def _hang_up(
    address: str, settings: ClientSettings, film: str, item: Item, number: int
) -> tuple[float, bool]:
    """Seconds from a hang-up to when the server is at work on nothing, and whether an answer is stored."""
    with _client(address, 101) as watcher:
        while True:
            before = _answered(watcher)
            moment = random.Random(number).uniform(0.05, _LATEST_HANG_UP)
            connection = _request(address, settings, film, item, is_streamed=number % 2 == 0)
            time.sleep(moment)
            if _answered(watcher) == before:
                break
            # It has its answer: nobody would hang up. Another moment.
            connection.close()
            number += 1000
        began = time.monotonic()
        connection.close()
        while _running(watcher):
            time.sleep(0.005)
        return time.monotonic() - began, _answered(watcher) > before


def _request(
    address: str, settings: ClientSettings, film: str, item: Item, *, is_streamed: bool
) -> socket.socket:
    """A question whose reply nobody reads. Over a socket: a client that is closed while another thread reads
    from it keeps its connection until then."""
    body = json.dumps({**_asked(settings, film, item), "stream": is_streamed}).encode()
    url = urlsplit(address)
    connection = socket.create_connection((url.hostname or "", url.port or 0))
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Length: {len(body)}\r\n"
    connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    return connection


def _asked(settings: ClientSettings, film: str, item: Item) -> dict[str, Any]:
    content = [{"type": "text", "text": item.question.text}, {"type": "file", "file": {"file_id": film}}]
    return {
        "model": settings.model,
        "messages": [{"role": "user", "content": content}],
        "videopro": {"choices": list(item.question.choices)},
    }


def _metric(client: OpenAI, name: str) -> float:
    text = client.get("/../metrics", cast_to=httpx2.Response).text
    match = re.search(rf"^{re.escape(name)} (\S+)", text, re.MULTILINE)
    return float(match[1]) if match is not None else 0.0


def _running(client: OpenAI) -> bool:
    return _metric(client, "videopro_questions_running") + _metric(client, "videopro_questions_waiting") > 0


def _answered(client: OpenAI) -> float:
    return _metric(client, 'videopro_questions_total{outcome="answered"}')


def _summary(seen: Sequence[Seen]) -> dict[str, Any]:
    placed = [each.places for each in seen if each.places]
    return {
        "clients": len(seen),
        "answered": sum(each.answer is not None for each in seen),
        "told_their_place": len(placed),
        "largest_place": max((places[0] for places in placed), default=0),
        "places_only_fall": all(places == sorted(places, reverse=True) for places in placed),
        **{name: _spread([getattr(each, name) for each in seen]) for name in ("told", "step", "answer")},
    }


def _spread(times: Sequence[float | None]) -> dict[str, float]:
    """Of the seconds: the least, the median and the most."""
    known = sorted(time for time in times if time is not None)
    if not known:
        return {}
    return {
        "least": round(known[0], 3),
        "median": round(known[len(known) // 2], 3),
        "most": round(known[-1], 3),
    }


if __name__ == "__main__":
    run_command(ClientSettings, measure)
