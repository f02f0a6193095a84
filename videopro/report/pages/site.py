"""Write the pages of a run: the viewer's files, an index of all questions, a file per question, and
thumbnails.

Thumbnails come last: the pages can be opened while thumbnails are being made, and an interrupted command
resumes where it stopped. The content comes from `videopro.report.pages.content`.
"""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from videopro.benchmarks import JudgeGrade
from videopro.cli import read_yaml
from videopro.errors import ConfigError
from videopro.report.pages.content import StoredPrompts, page, page_name, row
from videopro.report.pages.script import assignment
from videopro.report.pages.thumbnails import SIDE, VideoPictures, make_sheets
from videopro.runs import RunFolder, headline, read_grades, recorded_protocol
from videopro.storage import write_atomically
from videopro.traces import Trace, read_heads

_FOLDER = files("videopro.report.pages").joinpath("assets")
_OF_SEVERAL = ("runs.html", "runs.js")
"""Of the page that lists runs."""
# index.html first: a later command recognizes the folder by it.
ASSETS = ("index.html", *sorted({file.name for file in _FOLDER.iterdir()} - {"index.html", *_OF_SEVERAL}))
# Marks `index.html` as written by the viewer: such a folder may be overwritten.
_MARK = '<meta name="generator" content="videopro.report.pages">'


@dataclass(frozen=True)
class Site:
    """A written folder of pages."""

    path: Path
    about: Mapping[str, Any]
    """What its index says about the run: name, settings, metrics."""
    videos: tuple[VideoPictures, ...]
    """The thumbnails on its pages."""

    @property
    def questions(self) -> int:
        """Number of questions."""
        return len(self.about["rows"])

    @property
    def index(self) -> Path:
        """The page to open."""
        return self.path / "index.html"

    @property
    def pictures(self) -> Path:
        """The folder of the thumbnails."""
        return self.path / "pictures"


def write_pages(
    run: Path,
    output: Path,
    *,
    max_frames: int,
    overview: str = "",
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Site:
    """Write everything except the thumbnails; `on_progress(done, total)` is called after each question.
    `overview`: the address of the page of all runs, for a link; empty: none. Raises RunError if
    `run` is not a run folder, ConfigError if `output` contains other files or is not writable."""
    folder = RunFolder(run)
    protocol = recorded_protocol(folder)
    traces = folder.read()
    grades = read_grades(folder.grades, protocol.judge)
    prompts = StoredPrompts(read_heads(folder.traces))
    check_output(output)
    with writing_to(output):
        videos = _write_questions(traces, grades, prompts, output, max_frames, on_progress)
        content = about_run(folder, overview) | questions_list([row(trace) for trace in traces])
        content |= {"numbers": headline(traces, protocol), "prompts": prompts.beginnings}
        write_atomically(output / "data" / "index.js", assignment("index", "", content))
    return Site(output, content, tuple(video for video in videos if video.pictures))


@contextmanager
def writing_to(output: Path) -> Iterator[None]:
    """Turns an OSError of the block into a ConfigError."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{output}: cannot be written ({error.strerror}); set another --output") from error


def write_assets(output: Path, names: Mapping[str, str]) -> None:
    """Copy files of the viewer: target name -> name of the asset."""
    for name, asset in names.items():
        write_atomically(output / name, _asset(asset))


def read_asset(name: str) -> str | None:
    """A file of the viewer; None for any other name."""
    return _asset(name) if name in (*ASSETS, *_OF_SEVERAL) else None


@cache
def _asset(name: str) -> str:
    return _FOLDER.joinpath(name).read_text(encoding="utf-8")


def check_output(output: Path) -> None:
    """Raise ConfigError unless the folder was written by the viewer, is empty or new."""
    index = output / "index.html"
    if output.exists() and not output.is_dir():
        raise ConfigError(f"{output}: is not a directory; set another --output")
    is_ours = index.exists() and _MARK in index.read_text(encoding="utf-8", errors="replace")
    if output.exists() and any(output.iterdir()) and not is_ours:
        raise ConfigError(
            f"{output}: contains files not written by the viewer; set --output to an empty or new folder"
        )


def _write_questions(
    traces: Sequence[Trace],
    grades: Mapping[str, JudgeGrade],
    prompts: StoredPrompts,
    output: Path,
    max_frames: int,
    on_progress: Callable[[int, int], None],
) -> Collection[VideoPictures]:
    """Write the viewer's files and a page for each question. Returns the thumbnails that they show."""
    output.mkdir(parents=True, exist_ok=True)
    write_assets(output, {name: name for name in ASSETS})
    pages, sources = output / "data" / "questions", output / "data" / "traces"
    for folder in (pages, sources, output / "pictures"):
        folder.mkdir(parents=True, exist_ok=True)
    videos: dict[str, VideoPictures] = {}
    for done, trace in enumerate(traces, 1):
        content, pictures = page(trace, max_frames, prompts, grades.get(trace.question_id))
        content["video"]["source"] = video_source(trace.video.path, output)
        name = page_name(trace.question_id)
        # Not synced to disk one by one: files lost in a power failure can be written again.
        (pages / f"{name}.js").write_text(assignment("page", name, content), encoding="ascii")
        (sources / f"{name}.js").write_text(assignment("trace", name, packed(trace)), encoding="ascii")
        video = VideoPictures(trace.video.path, trace.video.id)
        videos.setdefault(video.name, video).add(pictures)
        on_progress(done, len(traces))
    return videos.values()


def video_source(path: str, output: Path) -> dict[str, str]:
    """Where the pages in `output` find a video file: its `url`, or why it is `missing`. The URL is relative,
    so that it also works on a web server that serves the videos."""
    if not os.path.isfile(path):
        return {"missing": f"Cannot play the video: the file is missing ({path})."}
    return {"url": quote(os.fsencode(os.path.relpath(path, output)))}


def packed(trace: Trace) -> str:
    """The trace's JSON, compressed, because it would double the size of the pages."""
    return base64.b64encode(zlib.compress(trace.to_line())).decode("ascii")


def about_run(folder: RunFolder, overview: str) -> dict[str, Any]:
    """What data/index.js says of a run, but for its numbers and questions. `overview`: the address of the
    page of all runs; empty: none."""
    settings = read_yaml(folder.config)
    named = ("method", "model", "run_key", "benchmark", "split")
    return {
        "name": folder.path.resolve().name,
        "run": {key.replace("_", " "): settings.get(key) for key in named},
        "breakdowns": list(recorded_protocol(folder).groups),
        "overview": overview,
    }


def questions_list(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The list of questions (`row`) in data/index.js: lists of values in the order of `columns`, as a page
    loads thousands at once."""
    return {"columns": list(rows[0]) if rows else [], "rows": [list(each.values()) for each in rows]}


def make_pictures(
    site: Site, side: int = SIDE, on_progress: Callable[[int, int], None] = lambda done, total: None
) -> list[str]:
    """Make missing thumbnails, video by video; `side`: their longer side in pixels.
    `on_progress(done, total)` is called after each video. Returns an error message per video without
    thumbnails. Raises ConfigError if they cannot be written."""
    errors = []
    for done, video in enumerate(site.videos, 1):
        with writing_to(site.pictures):
            sheets = make_sheets(video, site.pictures, side)
        if sheets.error:
            errors.append(sheets.error)
        on_progress(done, len(site.videos))
    return errors


# Seen from the pages of a run.
OVERVIEW = "../../index.html"


def run_names(runs: Sequence[Path]) -> list[str]:
    """A distinct name for each run: its path below their common folder, as one word."""
    paths = [run.resolve() for run in runs]
    common = Path(os.path.commonpath(paths))
    names: list[str] = []
    for path in paths:
        name = "-".join(path.relative_to(common).parts)
        candidates = [name, *(f"{name}-{number}" for number in range(2, len(names) + 2))]
        names.append(next(free for free in candidates if free not in names))
    return names


def overview_row(name: str, page: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """A run in the list of runs. `page`: its address; `about`: what its data/index.js says."""
    numbers = about["numbers"]
    shown = {key: numbers[key] for key in ("accuracy", "questions", "videos")}
    unanswered = sum(numbers["errors"].values())
    return {"page": page, "name": name, "run": about["run"], **shown, "unanswered": unanswered}


def start_overview(output: Path) -> None:
    """Create the folder for several runs. Raises ConfigError if it contains other files or is not
    writable."""
    check_output(output)
    with writing_to(output):
        output.mkdir(parents=True, exist_ok=True)
        names = ("style.css", "theme.js", "view.js", "runs.js", "start.js")
        write_assets(output, {"index.html": "runs.html", **{name: name for name in names}})


def write_overview(output: Path, sites: Sequence[Site]) -> Path:
    """Write the list of the runs, whose pages are below `output`. Returns the page to open. Raises
    ConfigError if it cannot be written."""
    rows: list[dict[str, Any]] = []
    for site in sites:
        rows.append(overview_row(site.path.name, site.index.relative_to(output).as_posix(), site.about))
    with writing_to(output):
        (output / "data").mkdir(exist_ok=True)
        write_atomically(output / "data" / "runs.js", assignment("runs", "", rows))
    return output / "index.html"
