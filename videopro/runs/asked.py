"""A run of questions outside a benchmark, from `videopro ask --output` and `videopro serve`.

It is a regular run folder of the benchmark "asked", which `videopro view` and `videopro report` can open.
Questions are added one by one, if needed by several processes, under the same rule as in `videopro infer`:
another method, model or setting is another run, in another folder.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from videopro.benchmarks import Protocol
from videopro.errors import RunError
from videopro.runs.folder import RunFolder
from videopro.traces import Trace, TraceLog, remove_traces

ASKED = "asked"
"""The name of the benchmark in such a run."""


def generation_identity(seed: int, nearest_intact: float) -> dict[str, Any]:
    """What a run's key hashes in addition to its method, model and protocol."""
    return {"seed": seed, "nearest_intact": nearest_intact}


def asked_identity(
    protocol: Protocol, *, method: Mapping[str, Any], seed: int, nearest_intact: float = 0.0
) -> dict[str, Any]:
    """What the key of such a run hashes, except the model ("model"). `method`: its part of the identity
    (`PreparedRun.identity`)."""
    return {
        "method": dict(method),
        "protocol": {"benchmark": ASKED, "split": "", "version": "", **protocol.identity()},
        "generation": generation_identity(seed, nearest_intact),
    }


class AskedRun:
    """The run in a folder, which exists after `open`. Threads can share it; close it after use."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder(path)
        self._lock = threading.Lock()
        self._key = ""
        self._log: TraceLog | None = None

    def check(self, identity: Mapping[str, Any]) -> None:
        """Check that the folder is new or belongs to this run, before anything is loaded; keys that
        `identity` lacks, such as the model, are not compared. Writes nothing. Raises RunError."""
        self.folder.check()
        self.folder.check_same(identity)

    def open(self, settings: Mapping[str, Any], identity: Mapping[str, Any]) -> str:
        """Create the folder, or open an existing one of this run. `settings` are for readers of the folder,
        at least "method" and "model". Returns the run's key. Raises RunError."""
        with self._lock:
            if self._log is not None:
                return self._key
        self.folder.check()
        key = self.folder.open({"benchmark": ASKED, "split": "", **settings}, identity)
        with self._lock:
            self._key = key
            if self._log is None:
                self._log = self.folder.log()
        return key

    def add(self, trace: Trace) -> bool:
        """Add an answered question, under this run's key. Returns False, and writes nothing, if its id is
        taken. Raises RunError."""
        with self._lock:
            if self._log is None:
                raise RunError(f"{self.folder.path}: the run is not open")
            return self._log.append(replace(trace, run_key=self._key))

    def add_numbered(self, trace: Trace) -> Trace:
        """Add an answered question under the next free number. Returns the added trace. Raises RunError."""
        # Another process may take a number first, so each is tried until one is free.
        numbered = (replace(trace, question_id=str(number), run_key=self._key) for number in count(1))
        return next(added for added in numbered if self.add(added))

    def remove(self, question_ids: Collection[str]) -> None:
        """Close the run, and remove answered questions from its files. Raises RunError."""
        self.close()
        remove_traces(self.folder.traces, question_ids)

    def read(self) -> list[Trace]:
        """The questions so far, in the order in which they were added. Raises RunError."""
        return self.folder.read() if self.folder.traces.exists() else []

    def close(self) -> None:
        """Close the folder. Raises RunError if a question did not reach the disk."""
        with self._lock:
            log, self._log = self._log, None
        if log is not None:
            log.close()
