"""Writes the pages of a run: the viewer's own files, an index of all questions, a file for each question, and
the pictures.

Text first and pictures last: the pages open while pictures are still being made, and a call that was stopped
goes on where it was. Knows run folders and files; what is shown is `videopro.view.content`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from videopro.benchmarks.metrics import JudgeGrade
from videopro.benchmarks.protocol import Protocol
from videopro.errors import ConfigError
from videopro.runs import RunFolder, read_grades, recorded_protocol, summarize
from videopro.settings import read_yaml
from videopro.storage import write_atomically
from videopro.traces import Trace
from videopro.view.content import page, page_name, row
from videopro.view.pictures import VideoPictures
from videopro.view.script import assignment
from videopro.view.thumbnails import make_sheets

ASSETS = (
    "index.html",
    "style.css",
    "view.js",
    "list.js",
    "filters.js",
    "question.js",
    "program.js",
    "strip.js",
)
# How `index.html` says that a folder is a viewer's, and may be written over.
_MARK = '<meta name="generator" content="videopro.view">'


@dataclass(frozen=True)
class Site:
    """A written folder of pages."""

    path: Path
    questions: int
    videos: tuple[VideoPictures, ...]
    """What pictures its pages show."""

    @property
    def index(self) -> Path:
        """The page to open."""
        return self.path / "index.html"

    @property
    def pictures(self) -> Path:
        """The folder of the pictures."""
        return self.path / "pictures"


def write_pages(
    run: Path,
    output: Path,
    *,
    most_frames: int,
    told: Callable[[int, int], None] = lambda done, total: None,
) -> Site:
    """Write everything but the pictures. `told(done, total)` is called as questions are written. Raises
    RunError for what is no run, ConfigError for an output that holds something else or cannot be written."""
    folder = RunFolder(run)
    protocol = recorded_protocol(folder)
    traces = folder.read()
    grades = read_grades(folder.grades, protocol.judge)
    _check(output)
    try:
        return _write(folder, protocol, traces, grades, output, most_frames, told)
    except OSError as error:
        raise ConfigError(f"{output}: cannot be written ({error.strerror}); give another --output") from error


def _check(output: Path) -> None:
    index = output / "index.html"
    if output.exists() and not output.is_dir():
        raise ConfigError(f"{output}: is no folder; give another --output")
    is_ours = index.exists() and _MARK in index.read_text(encoding="utf-8", errors="replace")
    if output.exists() and any(output.iterdir()) and not is_ours:
        raise ConfigError(
            f"{output}: holds files that are not of a viewer; give an empty or new folder as --output"
        )


def _write(
    folder: RunFolder,
    protocol: Protocol,
    traces: Sequence[Trace],
    grades: Mapping[str, JudgeGrade],
    output: Path,
    most_frames: int,
    told: Callable[[int, int], None],
) -> Site:
    pages = output / "data" / "questions"
    # First the file by which a later call knows the folder again.
    output.mkdir(parents=True, exist_ok=True)
    for name in ASSETS:
        text = files("videopro.view").joinpath("assets", name).read_text(encoding="utf-8")
        write_atomically(output / name, text)
    pages.mkdir(parents=True, exist_ok=True)
    (output / "pictures").mkdir(exist_ok=True)
    videos: dict[str, VideoPictures] = {}
    for done, trace in enumerate(traces, 1):
        content, pictures = page(trace, most_frames, grades.get(trace.question_id))
        name = page_name(trace.question_id)
        # Not synced to the disk one by one: what is lost with the power is made again.
        (pages / f"{name}.js").write_text(assignment("page", name, content), encoding="ascii")
        wanted = VideoPictures(trace.video.path, trace.video.id)
        videos.setdefault(wanted.name, wanted).add(pictures)
        told(done, len(traces))
    content = _index(folder, protocol, traces, grades)
    write_atomically(output / "data" / "index.js", assignment("index", "", content))
    return Site(output, len(traces), tuple(one for one in videos.values() if one.pictures))


def _index(
    folder: RunFolder, protocol: Protocol, traces: Sequence[Trace], grades: Mapping[str, JudgeGrade]
) -> dict[str, Any]:
    """The run and its list. Rows are lists under one head: 5,000 questions are read at once."""
    settings = read_yaml(folder.config)
    rows = [row(trace) for trace in traces]
    columns = list(rows[0]) if rows else []
    return {
        "name": folder.path.resolve().name,
        "run": {
            "method": settings.get("method"),
            "model": settings.get("model"),
            "run key": settings.get("run_key"),
            **{key: settings.get(key) for key in ("benchmark", "split")},
        },
        "breakdowns": list(protocol.groups),
        "numbers": summarize(traces, protocol, {}, grades),
        "columns": columns,
        "rows": [[one[column] for column in columns] for one in rows],
    }


def make_pictures(site: Site, told: Callable[[int, int], None] = lambda done, total: None) -> list[str]:
    """Make the pictures that are missing, video by video; `told(done, total)` after each. Returns why some
    cannot be had, a line for each such video. Raises ConfigError when they cannot be written."""
    errors = []
    for done, wanted in enumerate(site.videos, 1):
        try:
            made = make_sheets(wanted, site.pictures)
        except OSError as error:
            raise ConfigError(
                f"{site.pictures}: cannot be written ({error.strerror}); mend this and give the same command "
                "again"
            ) from error
        if made.error:
            errors.append(made.error)
        told(done, len(site.videos))
    return errors
