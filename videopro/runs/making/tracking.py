"""Logs the metrics of a run's summary to wandb, trackio or tensorboard, during the run and at its end.

accelerate's trackers do the same, but need a `PartialState`, which joins torchrun's process group. The ranks
of a run do not form a process group, so the first one would wait for the others.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from videopro.cli import did_you_mean
from videopro.errors import ConfigError, RunError
from videopro.runs.folder import RunFolder
from videopro.runs.following import RunTail

SECONDS = 30.0
"""Time between two updates of a run in progress."""
_PROJECT = "videopro"


def flat(numbers: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of a summary, with names such as "groups/family/count/accuracy". Other values are
    skipped."""
    if isinstance(numbers, Mapping):
        for key, value in numbers.items():
            yield from flat(value, f"{name}/{key}" if name else str(key))
    elif isinstance(numbers, list | tuple):
        for index, value in enumerate(numbers):
            yield from flat(value, f"{name}/{index}")
    elif isinstance(numbers, int | float) and not isinstance(numbers, bool):
        yield name, float(numbers)


class _Wandb:
    """wandb, or trackio, which has the same API."""

    def __init__(self, name: str, folder: RunFolder, settings: Mapping[str, Any]) -> None:
        package: Any = importlib.import_module(name)
        text = f"{settings['run_key']}\0{folder.path.resolve()}"
        own = hashlib.sha256(text.encode()).hexdigest()[:16]
        shown = folder.path.resolve().name
        # A resumed run continues as the same run: that of its id, or in trackio, which has none, of its name.
        more: dict[str, Any] = {"name": f"{shown}-{own[:6]}"}
        if name == "wandb":
            quiet = package.Settings(console="off")
            more = {"name": shown, "id": own, "dir": folder.work, "settings": quiet}
        projects = {
            "wandb": os.environ.get("WANDB_PROJECT", _PROJECT),
            "trackio": os.environ.get("TRACKIO_PROJECT", _PROJECT),
        }
        self._run = package.init(project=projects[name], resume="allow", config=dict(settings), **more)

    def send(self, numbers: Mapping[str, float], step: int) -> None:
        """Send the numbers after `step` questions."""
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        """Send what is buffered, and close."""
        self._run.finish()


class _TensorBoard:
    def __init__(self, name: str, folder: RunFolder, settings: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder.work / name))

    def send(self, numbers: Mapping[str, float], step: int) -> None:
        """As for wandb."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """As for wandb."""
        self._writer.close()


_Tracker = _Wandb | _TensorBoard
TRACKERS: dict[str, type[_Wandb] | type[_TensorBoard]] = {
    "wandb": _Wandb,
    "trackio": _Wandb,
    "tensorboard": _TensorBoard,
}


def check_trackers(names: Sequence[str]) -> None:
    """Raise ConfigError for an unknown tracker; their packages are checked in `videopro.cli.needs`."""
    for name in names:
        if name not in TRACKERS:
            raise ConfigError(f"report_to: unknown tracker {name!r}; {did_you_mean(name, list(TRACKERS))}")


class Tracking:
    """The trackers of a run; without names it does nothing. Call `open` once the run's folder exists. If
    a tracker fails later, it is reported and no longer used; the run continues."""

    def __init__(self, names: Sequence[str], folder: RunFolder) -> None:
        # A tracker that is named twice would get every number twice.
        self._names = tuple(dict.fromkeys(names))
        self._folder = folder
        self._trackers: dict[str, _Tracker] | None = None
        self._tail: RunTail | None = None
        self._sent = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._tail is not None:
            self._tail.close()
        self._each(lambda tracker: tracker.close())

    def open(self, settings: Mapping[str, Any], tail: RunTail | None = None) -> None:
        """Start the trackers, unless already started. `settings`: of the run, with its "run_key"; `tail`: the
        tail of a run in progress. Raises RunError for a tracker that cannot start, such as wandb without an
        account."""
        self._tail = tail or self._tail
        if self._trackers is not None:
            return
        self._trackers = {}
        for name in self._names:
            try:
                self._trackers[name] = TRACKERS[name](name, self._folder, _plain(settings))
            except Exception as error:  # Whatever its package raises.
                raise RunError(
                    f"report_to: {name} cannot start ({error}); fix this, or leave {name} out"
                ) from error

    def update(self) -> None:
        """Send the headline of the run so far, if SECONDS have passed since the last time."""
        if self._trackers and self._tail is not None and time.monotonic() - self._sent >= SECONDS:
            self._sent = time.monotonic()
            if self._tail.refresh():
                self.send(self._tail.headline(), len(self._tail.traces))

    def send(self, summary: Mapping[str, Any], questions: int) -> None:
        """Send the summary after this many questions."""
        numbers = dict(flat(summary))
        self._each(lambda tracker: tracker.send(numbers, questions))

    def _each(self, act: Callable[[_Tracker], None]) -> None:
        trackers = self._trackers or {}
        # A copy, since a tracker that fails is taken out.
        for name, tracker in list(trackers.items()):
            try:
                act(tracker)
            except Exception as error:  # Whatever its package raises.
                del trackers[name]
                print(f"report_to: {name} failed and is no longer used ({error})", file=sys.stderr)


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: str(value) if isinstance(value, Path) else value for name, value in settings.items()}
