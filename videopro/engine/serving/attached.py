"""Engines as those see them who only ask them, and one that another process of this machine started."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from videopro.engine.serving.local_http import answers, exempt_from_proxies
from videopro.errors import BackboneError


class Engine(Protocol):
    """A running engine."""

    @property
    def url(self) -> str:
        """The address of its OpenAI-compatible endpoint, which it keeps when it is started again."""

    def answers(self) -> bool:
        """Whether it answers now."""

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
