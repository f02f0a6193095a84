"""What a command asks of a method before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from videopro.backbones import Backbone, ServerSettings, load_backbone
from videopro.benchmarks import Protocol
from videopro.errors import ConfigError


@dataclass(frozen=True)
class Questions:
    """The questions of a run, as far as its settings depend on them."""

    protocol: Protocol
    open: int = 0
    """How many of them are to be answered in words."""
    videos: Iterable[Path] = ()
    """Their videos; without those that are made for the questions, as a benchmark's own model knows them."""
    remedy: str = ""
    """What helps if the method cannot answer open questions; unset: what the method suggests."""

    def require_whole_videos(self, method: str) -> None:
        """Raise ConfigError, for a method that looks anywhere, if only a part of each video is shown."""
        if self.protocol.shown != "video":
            raise ConfigError(
                f"method {method!r} looks anywhere in the video, but protocol {self.protocol.name!r} shows "
                "only the annotated clue; use --method native, or another --protocol"
            )

    def require_choices(self, reason: str, remedy: str) -> None:
        """Raise ConfigError, which gives the reason, if some of the questions are open."""
        if self.open:
            raise ConfigError(f"{reason}; {self.remedy or remedy}")


@dataclass(frozen=True)
class RunRequest:
    """A run as the user asks for it."""

    method: str
    options: Mapping[str, Any]
    """Of the method."""
    model: str
    backbone: Mapping[str, Any]
    """Settings of the model."""
    questions: Callable[[], Questions]
    """Reads the questions, which may take a while: a method first checks what it can without them. Called
    again, it returns the same."""
    recorded: Mapping[str, Any] = field(default_factory=dict)
    """What the run's folder has of the method's identity; empty for a new run."""
    load: Callable[..., Backbone] = load_backbone
    """Makes the model, as `load(model, **backbone)`. Tests pass their own: then the model's settings and
    needs are not checked."""

    @property
    def server(self) -> ServerSettings:
        """How requests go to the servers of the run. Raises ConfigError."""
        return ServerSettings.given_in(self.backbone)
