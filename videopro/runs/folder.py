"""A run's folder: config.yaml, traces.jsonl, summary.json, grades.jsonl, work/. It decides whether a command
can resume the run: only if the identity, an opaque mapping here, is the same.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import cache, cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from videopro.backbones import Backbone, has_files_of, identify, load_backbone, read_spec
from videopro.benchmarks import Benchmark, Item
from videopro.cli import read_yaml
from videopro.errors import ConfigError, RunError, VideoProError, cannot_write, first_of, writing_file
from videopro.methods import other_file
from videopro.storage import SetAside, lock_soon, parse_json, write_atomically
from videopro.traces import NO_REDO, OTHER_FILES, Redo, Trace, TraceLog, read_traces, set_aside_traces
from videopro.video import content_if_readable

# Keys that a run writes into config.yaml in addition to its settings; ignored when the file is used as
# --config.
RUN_FIELDS = ("run_key", "identity")
_ELSEWHERE = "set another --output"
_LONG = 100
"""Longer texts, such as prompts, are cut in messages."""


def run_key(identity: Mapping[str, Any]) -> str:
    """16 hex digits that identify everything that an answer depends on: method, model, protocol,
    generation."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def identity_difference(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    names: tuple[str, str] = ("the run has", "this command"),
) -> list[str]:
    """The differences between two identities, one line per key: "model.dtype: the run has 'fp32', this
    command 'bf16'"; "nothing" marks a key that one of them lacks. Another method, or another model, is one
    line: its settings differ too."""
    before, now = _flat(old), _flat(new)

    def value_text(values: Mapping[str, Any], other_values: Mapping[str, Any], key: str) -> str:
        return repr(_from_difference(values[key], other_values.get(key))) if key in values else "nothing"

    differing = [key for key in sorted({*before, *now}) if before.get(key, ...) != now.get(key, ...)]
    names_differ = {"method.name", "model.model"}.intersection(differing)
    parts = {name.partition(".")[0] for name in names_differ}
    return [
        f"{key}: {names[0]} {value_text(before, now, key)}, {names[1]} {value_text(now, before, key)}"
        for key in differing
        if key in names_differ or key.partition(".")[0] not in parts
    ]


def _from_difference(text: Any, other: Any) -> Any:
    """The part of a long text, such as a prompt, where it starts to differ from the other."""
    if not isinstance(text, str) or len(text) <= _LONG:
        return text
    pairs = zip(text, other if isinstance(other, str) else "", strict=False)
    start = max(0, len(list(takewhile(lambda pair: pair[0] == pair[1], pairs))) - 20)
    part = text[start : start + _LONG]
    return ("…" if start else "") + part + ("…" if start + _LONG < len(text) else "")


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {name: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flat(inner, f"{name}.{key}" if name else str(key))
    return flat


class RunFolder:
    """The folder of a run. Nothing is created before `open`, so that a command that fails early leaves no
    files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.traces = path / "traces.jsonl"
        self.summary = path / "summary.json"
        self.grades = path / "grades.jsonl"
        self.work = path / "work"
        self.leases = self.work / "leases"
        self.logs = self.work / "logs"
        self.crashes = self.work / "deaths.jsonl"
        self.exceptions = self.work / "exceptions"
        self.requested = self.work / "asked.json"
        self.lock = self.work / "running.lock"

    def check(self) -> None:
        """Raise RunError if the folder cannot be written or contains something other than a run. Writes
        nothing."""
        if self.path.exists():
            if not self.path.is_dir():
                raise RunError(f"{self.path}: is not a directory; set another --output")
            other = self.foreign_entry()
            if other is not None:
                raise RunError(
                    f"{self.path}: contains {other!r} but no config.yaml, so it is not a run folder; "
                    "set another --output"
                )
        # The nearest folder that exists: those below it would be made.
        parent = self.path
        while not parent.exists():
            parent = parent.parent
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            raise RunError(
                f"{self.path}: cannot be written, as {parent} is not a writable directory; set another "
                "--output"
            )

    def foreign_entry(self) -> str | None:
        """The name of a file that does not belong in a run folder; None if there is none."""
        if self.config.exists() or not self.path.exists():
            return None
        # A run killed between creating its folder and writing its config leaves work/ alone.
        names = {path.name for path in self.path.iterdir()} - {"work", ".config.yaml.new"}
        return min(names, default=None)

    def recorded_identity(self) -> dict[str, Any] | None:
        """The identity of the run in the folder; None for a new folder. Raises RunError for an invalid
        config."""
        if not self.config.exists():
            return None
        try:
            identity = read_yaml(self.config).get("identity")
        except ConfigError as error:
            raise RunError(str(error)) from error
        if not isinstance(identity, dict):
            raise RunError(
                f"{self.config}: has no 'identity', so the run cannot be resumed; set another --output"
            )
        return identity

    def key(self) -> str | None:
        """The key of the run in the folder; None for a new folder and for traces without a config. Raises
        RunError for an invalid config."""
        identity = self.recorded_identity()
        if identity is None:
            return None
        written = read_yaml(self.config).get("run_key")
        return written if isinstance(written, str) else run_key(identity)

    def read(self) -> list[Trace]:
        """The run's traces, one per question, in the order they were written; invalid lines are reported
        once. Raises RunError if there is no file, and for a line of another run or of a later version."""
        traces = read_traces(self.traces, self.key(), set_aside=self.set_aside)
        return [self.with_video(trace) for trace in traces]

    def with_video(self, trace: Trace) -> Trace:
        """The trace with relative video paths resolved against the run's folder: a run from the hub has them,
        because absolute paths are only valid on the machine that made it."""
        beside = self.path / trace.video.path
        if Path(trace.video.path).is_absolute() or not beside.is_file():
            return trace
        return replace(trace, video=replace(trace.video, path=str(beside.absolute())))

    def log(self, *, writable: bool = True, redo: Redo = NO_REDO) -> TraceLog:
        """The run's log of traces; see `TraceLog`. Raises RunError."""
        return TraceLog(
            self.traces,
            run_key=self.key(),
            writable=writable,
            redo=redo,
            set_aside=self.set_aside,
        )

    @cached_property
    def set_aside(self) -> SetAside:
        """The invalid lines among the traces read so far."""
        return set_aside_traces(self.traces)

    def check_same(self, identity: Mapping[str, Any]) -> None:
        """Check that `identity` matches the folder's run; keys that it lacks are not compared.

        Raises RunError with the differences, key by key.
        """
        recorded = self.recorded_identity()
        if recorded is None:
            return
        # Through JSON, as the identity was stored: tuples become lists.
        current = json.loads(json.dumps(identity))
        lines = [
            line.replace("protocol.version:", "protocol.version (of the benchmark's files):", 1)
            for line in identity_difference({key: recorded.get(key) for key in current}, current)
        ]
        if lines:
            raise RunError(
                f"{self.path}: contains another run; set another --output, or use the settings of "
                "that run:\n  " + "\n  ".join(lines)
            )

    def open(self, settings: Mapping[str, Any], identity: Mapping[str, Any]) -> str:
        """Create the folder, or check that it belongs to this run, and write config.yaml. Returns the run
        key.

        Several ranks can call it at once. Raises RunError.
        """
        key = run_key(identity)
        try:
            for folder in (self.leases, self.logs):
                folder.mkdir(parents=True, exist_ok=True)
            with self.locked("config.lock"):
                self.check_same(identity)
                content = {**settings, "run_key": key, "identity": json.loads(json.dumps(identity))}
                write_atomically(self.config, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        except OSError as error:
            raise RunError(cannot_write(error.filename or self.path, error, _ELSEWHERE)) from error
        return key

    @contextmanager
    def running(self, ids: Sequence[str], *, alone: bool = False) -> Iterator[None]:
        """Mark the run as running while this rank answers `ids`. Readers see the ids, and a lock that the
        kernel releases however the process ends. `alone`: no other command may answer questions of the run
        meanwhile. Raises RunError, also if another command prevents this one from running."""
        try:
            with self.locked("config.lock"):
                write_atomically(self.requested, json.dumps(list(ids)))
            file = self.lock.open("w")
        except OSError as error:
            raise RunError(cannot_write(error.filename or self.path, error, _ELSEWHERE)) from error
        with file:
            # Readers lock it for a moment, to see whether a command is running.
            if not lock_soon(file.fileno(), fcntl.LOCK_EX if alone else fcntl.LOCK_SH):
                raise RunError(
                    f"{self.path}: another command is answering questions of this run, and one of "
                    "the two uses --engine ray, which must run alone; wait for the other, or stop it"
                )
            yield

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Let one process at a time into the block, with a lock file of this name. Raises RunError."""
        path = self.work / name
        with ExitStack() as stack:
            with writing_file(path, _ELSEWHERE):
                self.work.mkdir(parents=True, exist_ok=True)
                fcntl.flock(stack.enter_context(path.open("w")), fcntl.LOCK_EX)
            yield

    def is_running(self) -> bool:
        """Whether a command is currently answering questions of this run."""
        try:
            with self.lock.open("r") as file:
                # A command holds the lock shared or alone, and either refuses an exclusive one.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # No such file, or a file system without locks, where no run could work.
            return False
        return False

    def requested_ids(self) -> list[str]:
        """The ids that the last command was asked to answer; empty if unknown."""
        try:
            ids = parse_json(self.requested.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []
        return [name for name in ids if isinstance(name, str)] if isinstance(ids, list) else []

    def clear_leases(self) -> None:
        """Remove the leases of a finished run."""
        shutil.rmtree(self.leases, ignore_errors=True)


def identity_unloaded(
    model: str, backbone: Mapping[str, Any], recorded: Mapping[str, Any], load: Callable[..., Backbone]
) -> dict[str, object]:
    """The identity of a model, read from its files. `recorded` as in `identify`, `load` as in `RunRequest`.
    Raises VideoProError."""
    # Another loader, as of a test, has to make its model.
    if load is load_backbone:
        return identify(read_spec(model, **backbone), recorded)
    with closing(load(model, **backbone)) as loaded:
        return dict(loaded.identity())


def check_model(
    folder: RunFolder,
    identity: Mapping[str, Any],
    model: str,
    backbone: Mapping[str, Any],
    load: Callable[..., Backbone],
) -> None:
    """Compare the model with the model of the folder's run, for a command that will not load it.

    Under the same name and settings, files are enough: what this machine's libraries make of them matters to
    no answer. A model that is no longer available is compared by name and settings only. Raises RunError if
    the model differs.
    """
    recorded = (folder.recorded_identity() or {}).get("model") or {}
    settings = read_yaml(folder.config)
    is_named_alike = (settings.get("model"), settings.get("backbone") or {}) == (model, dict(backbone))
    if is_named_alike and load is load_backbone and has_files_of(read_spec(model, **backbone), recorded):
        return
    try:
        now = identity_unloaded(model, backbone, recorded, load)
    except VideoProError as error:
        if not is_named_alike:
            raise RunError(
                f"{folder.path}: is a run of {settings.get('model')!r}, which cannot be compared with "
                f"{model!r} ({error}); fix this, or set --model and --backbone as in its config.yaml"
            ) from error
        print(f"{model!r} was compared with the run's model by name only: {error}", file=sys.stderr)
        return
    folder.check_same({**identity, "model": now})


def check_questions(recorded: Sequence[Trace], benchmark: Benchmark, folder: RunFolder) -> None:
    """Check that the benchmark's questions are the same as when the run started. Raises RunError."""
    items = {item.id: item for item in benchmark.items}
    for trace in recorded:
        item = items.get(trace.question_id)
        if item is None:
            raise RunError(
                f"{folder.traces}: question {trace.question_id!r} is no longer in {benchmark.name}, split "
                f"{benchmark.split!r}; set the --root of that run, or another --output"
            )
        now = (item.question.text, item.question.choices, item.answer)
        if now != (trace.question, trace.choices, trace.gold):
            raise RunError(
                f"{folder.traces}: question {trace.question_id!r} now has another text, options or answer in "
                f"{benchmark.name}; set the --root of that run, or another --output"
            )


def check_files(
    recorded: Sequence[Trace],
    benchmark: Benchmark,
    items: Sequence[Item],
    folder: RunFolder,
    *,
    errors: bool,
    changed: bool,
) -> Redo:
    """Compare the videos, subtitles and transcripts of `items`, the questions of this command, with the files
    of the recorded answers; files that are not on this machine are not compared. Returns what to answer
    again: `errors`, and with `changed` the questions whose files changed. Raises RunError for changed files
    without `changed`, and if their questions are not among `items`."""
    video_keys, known = {item.video_key for item in items}, {item.id: item for item in benchmark.items}
    content = cache(content_if_readable)
    others: defaultdict[str, list[Trace]] = defaultdict(list)
    for trace in recorded:
        item = known[trace.question_id]
        if item.video_key in video_keys and (name := other_file(trace, item, content)):
            others[name].append(trace)
    asked = {item.id for item in items} if changed else set()
    lines = [
        f"\n  {name}: changed since these questions were answered: {first_of(left, 3)}"
        for name, traces in others.items()
        if (left := [trace.question_id for trace in traces if trace.question_id not in asked])
    ]
    if lines:
        fix = "--redo-changed must include these questions; raise --limit" if changed else OTHER_FILES
        raise RunError(f"{folder.path}: files changed since the run answered; {fix}{''.join(lines)}")
    stale = [trace for traces in others.values() for trace in traces]
    return Redo(errors, frozenset((each.question_id, each.video.id, each.video.text_id) for each in stale))
