"""Code shared by the rows of all kinds of training: reading their file, its digest, unreadable videos."""

from __future__ import annotations

import hashlib
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from videopro.cli import did_you_mean
from videopro.errors import DatasetError, failure_lines
from videopro.storage import read_json_lines
from videopro.traces import REFERENCE_FORMS, ReferenceForm


def digest(path: Path) -> str:
    """16 hex digits that identify a file's content."""
    # A part of the hash is enough: it distinguishes one user's files, not forgeries.
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


class TrainingRow(Protocol):
    """A row to train on, of any kind of training."""

    @property
    def id(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def video(self) -> Path | None: ...

    @property
    def reference(self) -> ReferenceForm:
        """What its prompt says of the modules."""

    @property
    def where(self) -> str:
        """Its file and line, for messages."""


R = TypeVar("R", bound=TrainingRow)


@dataclass(frozen=True)
class RowsOfFile(Generic[R]):
    """The usable rows of a file, and why the others are skipped."""

    path: Path
    rows: list[R]
    left_out: Mapping[int, str]
    """The reason, by the number of the line."""

    def summary(self) -> str:
        """How many rows were read and left out, and the first of those with their reasons."""
        if not self.left_out:
            return f"{self.path}: {len(self.rows)} rows"
        return f"{self.path}: {len(self.rows)} rows, {len(self.left_out)} skipped:\n{self.reasons()}"

    def reasons(self) -> str:
        """Why rows are skipped."""
        left_out = sorted(self.left_out.items())
        return "\n".join(failure_lines((f"line {number}", "", reason) for number, reason in left_out))


def read_rows_of_file(
    path: Path, give: str, read: Callable[[Mapping[str, Any], str, int], R]
) -> RowsOfFile[R]:
    """Read a file of JSON lines: `read(record, where, line number)` makes a row, or raises DatasetError,
    which begins with `where`, for one that cannot be used. `give`: what the file should be, for messages.
    Raises DatasetError for a file that cannot be read, and for one without any row that can be used."""
    left_out: dict[int, str] = {}
    rows = []
    # One broken row of a million must not end a run, nor vanish without a word.
    for number, where, record in read_json_lines(path, give, left_out=left_out):
        try:
            rows.append(read(record, where, number))
        except DatasetError as error:
            left_out[number] = str(error).removeprefix(f"{where}: ")
    rows_of_file = RowsOfFile(path, rows, left_out)
    if not rows and not left_out:
        raise DatasetError(f"{path}: has no rows")
    if not rows:
        raise DatasetError(f"{path}: all {len(left_out)} rows are unusable:\n{rows_of_file.reasons()}")
    return rows_of_file


_PICKLED = "pickled_row"


def as_column(row: TrainingRow) -> dict[str, bytes]:
    """A row as a column of a dataset, which `row_of` reads."""
    # TRL takes an Arrow dataset alone, which has no type for a row. It was checked when it was read, and need
    # not be taken apart and put together again.
    return {_PICKLED: pickle.dumps(row)}


def row_of(columns: Mapping[str, Any]) -> Any:
    """The row of an item of a dataset."""
    return pickle.loads(columns[_PICKLED])


def drop_unreadable(rows: Sequence[R], failures: Mapping[Path, str]) -> tuple[list[R], list[R]]:
    """The rows whose video can be read (or that have none), and the dropped ones. Raises DatasetError if no
    row is left."""
    readable = [row for row in rows if row.video not in failures]
    dropped = [row for row in rows if row.video in failures]
    if not readable:
        lines = unreadable_lines(dropped, failures)
        raise DatasetError("\n".join((f"no readable video in {len(rows)} rows:", *lines)))
    return readable, dropped


def unreadable_lines(
    rows: Iterable[TrainingRow], failures: Mapping[Path, str], all_in: str = ""
) -> list[str]:
    """Lines for rows whose video is in `failures`; see `failure_lines`."""
    failed = ((row.video, row.id) for row in rows)
    return failure_lines(((str(video), name, failures[video]) for video, name in failed if video), all_in)


@dataclass(frozen=True)
class RowReference:
    """How a row's prompt describes the modules, and which ones."""

    reference: ReferenceForm = "none"
    modules: tuple[str, ...] = ()


def read_reference(record: Mapping[str, Any], where: str) -> RowReference:
    """The columns of a record. Raises DatasetError, which begins with `where`."""
    form, names = record.get("reference"), record.get("modules")
    if form is None:
        return RowReference()
    if form not in REFERENCE_FORMS:
        raise DatasetError(f"{where}: reference is {form!r}; {did_you_mean(str(form), REFERENCE_FORMS)}")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DatasetError(f"{where}: modules is {names!r}; with reference, it must be a list of names")
    return RowReference(form, tuple(names))


def reference_of(rows: Iterable[TrainingRow]) -> ReferenceForm:
    """How all rows describe the modules. Raises DatasetError for rows that differ: a planner is prompted in
    one way."""
    forms = Counter(row.reference for row in rows)
    if len(forms) > 1:
        counts = ", ".join(f"{count} with reference={form}" for form, count in forms.most_common())
        raise DatasetError(
            f"rows describe the modules in different ways ({counts}), but a planner is prompted in one; make "
            "rows of one kind with videopro synthesize --assemble-only --reference FORM"
        )
    return next(iter(forms), "none")


PLACEHOLDER = "<video>"


@dataclass(frozen=True)
class ChatRow:
    """One user turn, with the system turn and the reply."""

    system: str | None
    """The system turn; None: the row has none, and the chat template's own applies, if it has one."""
    before: str
    """The user's text before the video; empty without a video."""
    prompt: str
    """The user's text after the video; all of it without a video."""
    video: str | None
    """As written in the row."""
    reply: str | None


def read_chat(record: Mapping[str, Any], where: str) -> ChatRow:
    """The chat of a row; other fields are ignored. Raises DatasetError, which begins with `where`, for a row
    that has several turns of a user, several videos, or other media."""
    system, text, reply = _turns(record, where)
    video = _video(record, where)
    # Chat templates put a video where the mark is; a second mark would have no pixels.
    marks = text.count(PLACEHOLDER)
    if PLACEHOLDER in (system or "") or PLACEHOLDER in (reply or ""):
        raise DatasetError(
            f"{where}: {PLACEHOLDER} is outside the user's turn; only the user's turn may show the video"
        )
    if marks > (video is not None):
        raise DatasetError(
            f"{where}: {marks} {PLACEHOLDER} but {int(video is not None)} videos; write one {PLACEHOLDER} "
            "per video"
        )
    before, _, prompt = text.partition(PLACEHOLDER) if marks else ("", "", text)
    return ChatRow(system, before, prompt, video, reply)


def _turns(record: Mapping[str, Any], where: str) -> tuple[str | None, str, str | None]:
    """The texts of the system, the user and the assistant."""
    system = _string(record["system"], "system", where) if record.get("system") is not None else None
    if "messages" not in record and "query" in record:
        if record.get("history"):
            raise DatasetError(f"{where}: the row has a history; only rows with one user turn are supported")
        response = record.get("response")
        return (
            system,
            _string(record["query"], "query", where),
            _string(response, "response", where) if response is not None else None,
        )
    messages = record.get("messages")
    if messages is None:
        raise DatasetError(f"{where}: neither 'messages' nor 'query' in the row; add one of them")
    if not isinstance(messages, list) or not messages:
        raise DatasetError(f"{where}: 'messages' is {messages!r}; it must be a list of turns")
    turns = [(_field(turn, "role", where), _field(turn, "content", where)) for turn in messages]
    roles = [role for role, _ in turns]
    if roles not in (
        ["user"],
        ["user", "assistant"],
        ["system", "user"],
        ["system", "user", "assistant"],
    ):
        raise DatasetError(
            f"{where}: 'messages' must be an optional system turn, one user turn and an optional assistant "
            f"turn, not {roles}"
        )
    texts = dict(turns)
    return texts.get("system", system), texts["user"], texts.get("assistant")


def _video(record: Mapping[str, Any], where: str) -> str | None:
    """The path of the row's video, if it has one."""
    # Datasets of ms-swift may mix media; a planner sees videos alone.
    if any(record.get(name) for name in ("image", "images", "audio", "audios")):
        raise DatasetError(f"{where}: the row has images or audio; only videos are supported")
    videos = record.get("videos")
    # Some exports have one path and no list.
    videos = record.get("video") if videos is None else videos
    if videos is None:
        return None
    paths = [videos] if isinstance(videos, str) else videos
    if not isinstance(paths, list) or not all(isinstance(video, str) and video for video in paths):
        raise DatasetError(f"{where}: field 'videos' must be a list of paths, not {videos!r}")
    if len(paths) > 1:
        raise DatasetError(f"{where}: {len(paths)} videos in one row; only one is supported")
    return paths[0] if paths else None


def _field(message: Any, name: str, where: str) -> str:
    value = message.get(name) if isinstance(message, Mapping) else None
    if not isinstance(value, str):
        raise DatasetError(f"{where}: no text in {name!r} of a message: {message!r}")
    return value


def _string(value: Any, name: str, where: str) -> str:
    if not isinstance(value, str):
        raise DatasetError(f"{where}: field {name!r} is {value!r}; it must be a string")
    return value
