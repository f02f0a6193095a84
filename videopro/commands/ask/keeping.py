"""Keeps a question of `videopro ask --output` in a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from videopro.backbones import Backbone
from videopro.benchmarks import Item, Protocol
from videopro.errors import Failure, RunError, VideoProError
from videopro.methods import PreparedRun, make_trace, video_ref
from videopro.runs import AskedRun, asked_identity
from videopro.traces import Cost, Result
from videopro.video import Video


class QuestionFailed(VideoProError):
    """The question has no answer; `failure` says why, and `cost` what was spent on it."""

    def __init__(self, failure: Failure, cost: Cost) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.cost = cost


@dataclass(frozen=True)
class Stored:
    """A question in a run."""

    folder: Path
    question_id: str


class Keeper:
    """The run in a folder, to which a question is added. Raises RunError for a folder of another run, before
    the model is loaded as far as it can be told then."""

    def __init__(self, folder: Path) -> None:
        self._run = AskedRun(folder)
        self._run.folder.check()
        self._identity: Mapping[str, Any] = {}
        self._served: Mapping[str, str] = {}

    @property
    def recorded_method(self) -> Mapping[str, Any]:
        """The method's settings in the folder; empty in a new one."""
        return (self._run.folder.recorded_identity() or {}).get("method") or {}

    def check(self, prepared: PreparedRun, protocol: Protocol, seed: int, nearest_intact: float) -> None:
        """Compare all but the model with the folder's run."""
        recorded, name = self.recorded_method.get("name"), prepared.method.name
        if recorded not in (None, name):
            # Before the settings, all of which would differ.
            raise RunError(
                f"{self._run.folder.path}: holds questions that method {recorded!r} answered, not {name!r}; "
                f"give another --output, or --method {recorded}"
            )
        self._identity = asked_identity(
            protocol, method=prepared.identity, seed=seed, nearest_intact=nearest_intact
        )
        self._run.check(self._identity)

    def open(self, settings: Mapping[str, Any], backbone: Backbone) -> None:
        """Compare the model too, and make the folder if it is new."""
        self._run.open(settings, {**self._identity, "model": dict(backbone.identity())})
        self._served = backbone.versions

    def keep(self, item: Item, result: Result, video: Video, protocol: Protocol) -> Stored:
        """Add the question, also one that has an error in place of an answer."""
        # The folder may be opened from another one, or moved.
        reference = replace(video_ref(item, video), path=str(item.video.absolute()))
        trace = make_trace(item, result, reference, run_key="", protocol=protocol, served=self._served)
        try:
            added = self._run.add_numbered(trace)
        finally:
            self._run.close()
        return Stored(self._run.folder.path, added.question_id)
