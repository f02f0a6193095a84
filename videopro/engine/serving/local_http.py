"""Requests to engines on this machine, by the standard library alone: short ones, outside of any client."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any

from videopro.storage import InvalidJson, parse_json

HOST = "127.0.0.1"
_REQUEST_SECONDS = 10.0

# No proxy stands between us and this machine.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def json_request(url: str, content: Mapping[str, Any]) -> urllib.request.Request:
    """A request that sends JSON."""
    return urllib.request.Request(url, json.dumps(content).encode(), {"Content-Type": "application/json"})


def sent(request: urllib.request.Request, timeout: float) -> tuple[int, bytes]:
    """The status and the body of the reply. Raises OSError or HTTPException if there is none."""
    try:
        with _OPENER.open(request, timeout=timeout) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def parsed(body: bytes) -> Any:
    """The JSON in a reply; what is none as text."""
    try:
        return parse_json(body, infinite=True)
    except InvalidJson:
        return body.decode("utf-8", "replace")


def answers(url: str) -> bool:
    """Whether an engine answers now. `url`: of its endpoint, which ends in /v1."""
    try:
        health = urllib.request.Request(f"{url.removesuffix('/v1')}/health")
        return sent(health, _REQUEST_SECONDS)[0] == 200
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
