"""Engines as seen by their clients, engines started by another process of this machine, and short requests to
them."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Protocol

from videopro.errors import BackboneError
from videopro.storage import InvalidJson, parse_json

HOST = "127.0.0.1"
_REQUEST_SECONDS = 10.0

# No proxy stands between us and this machine.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask_engine(url: str, content: Mapping[str, Any] | None, timeout: float) -> tuple[int, Any]:
    """The status and the JSON of the reply to a short request, outside of any client; what is no JSON as
    text. `content`: the JSON that is sent. Raises OSError or HTTPException if there is no reply."""
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with _OPENER.open(request, timeout=timeout) as reply:
            status, body = reply.status, reply.read()
    except urllib.error.HTTPError as error:
        status, body = error.code, error.read()
    try:
        return status, parse_json(body, infinite=True)
    except InvalidJson:
        return status, body.decode("utf-8", "replace")


def answers(url: str) -> bool:
    """Whether an engine responds now. `url`: its endpoint, which ends in /v1."""
    try:
        return ask_engine(f"{url.removesuffix('/v1')}/health", None, _REQUEST_SECONDS)[0] == 200
    except (OSError, HTTPException):
        return False


def exempt_from_proxies() -> None:
    """Have the clients of this process, and of those that it starts, reach engines without a proxy."""
    names = ("no_proxy", "NO_PROXY")
    # Where only one is set, the other has to name the same hosts: Python's clients read no_proxy alone then.
    before = next((os.environ[name] for name in names if os.environ.get(name)), "")
    for name in names:
        hosts = [host for host in (os.environ.get(name) or before).split(",") if host]
        if "*" not in hosts and HOST not in hosts:
            os.environ[name] = ",".join([*hosts, HOST])


class Engine(Protocol):
    """A running engine."""

    @property
    def url(self) -> str:
        """The address of its OpenAI-compatible endpoint, which it keeps when it is started again."""

    def answers(self) -> bool:
        """Whether it responds now."""

    def check(self) -> None:
        """Raise BackboneError if it was given up."""


class AttachedEngine:
    """One that another process started, watches and ends. `failure`: the file that says why it was given up,
    as that process's `EngineProcess` has it."""

    def __init__(self, url: str, failure: Path) -> None:
        self.url = url
        self._failure = failure
        exempt_from_proxies()

    def answers(self) -> bool:
        """See `Engine`."""
        return answers(self.url)

    def check(self) -> None:
        """See `Engine`."""
        try:
            reason = self._failure.read_text(encoding="utf-8")
        except OSError:
            return
        raise BackboneError(reason)
