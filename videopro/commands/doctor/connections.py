"""Connections: proxies, certificates, and keys by name. A key's value, or a part of it, is never shown."""

from __future__ import annotations

import os
from collections.abc import Iterator

from videopro.cli import (
    CERTIFICATES,
    REQUESTS_CERTIFICATES,
    certificates_problem,
    key_problem,
    proxies,
    wandb_problem,
)
from videopro.commands.doctor.findings import Finding

_KEYS = ("OPENAI_API_KEY", "HF_TOKEN", "WANDB_API_KEY")
_ENDINGS = ("_API_KEY", "_KEY", "_TOKEN")


def connections() -> Iterator[Finding]:
    """What the environment says. Nothing is connected to."""
    configured = proxies()
    for proxy in configured:
        text = f"{proxy.address}" + (f": {proxy.problem}" if proxy.problem else "")
        yield Finding("connections", proxy.variable, "wrong" if proxy.problem else "ok", text)
    if configured and (exempt := os.environ.get("no_proxy") or os.environ.get("NO_PROXY")):
        yield Finding("connections", "NO_PROXY", "ok", exempt)
    if not configured:
        yield Finding("connections", "proxy", "ok", "none")
    for variables in (CERTIFICATES, REQUESTS_CERTIFICATES):
        name = next((name for name in variables if os.environ.get(name)), None)
        if name is not None:
            problem = certificates_problem(variables)
            yield Finding("connections", name, "wrong" if problem else "ok", problem or os.environ[name])
    for name in ("HF_ENDPOINT", "HF_HUB_OFFLINE"):
        if os.environ.get(name):
            # Without a user and password before the host.
            yield Finding("connections", name, "ok", os.environ[name].rpartition("@")[2])
    yield from _keys()


def _keys() -> Iterator[Finding]:
    named = [*_KEYS, *sorted(name for name in os.environ if name.endswith(_ENDINGS) and name not in _KEYS)]
    for name in named:
        key = os.environ.get(name, "")
        if key:
            problem = key_problem(key)
            yield Finding("keys", name, "wrong" if problem else "ok", problem or "set")
    if not os.environ.get("WANDB_API_KEY"):
        problem = wandb_problem()
        yield Finding("keys", "wandb", "missing" if problem else "ok", problem or "logged in, or offline")
