"""videopro view: browse a run's traces as pages, or follow the run in the terminal.

videopro view runs/videopro                 # writes runs/videopro/view; open its index.html
videopro view runs/videopro --open          # and opens it in the browser
videopro view runs                          # all runs in a folder, with an index page
videopro view --live runs/videopro          # follows a run in progress
"""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from videopro.cli import CommandLine, Counter, exit_status, option
from videopro.errors import ConfigError
from videopro.report.pages import (
    OVERVIEW,
    SIDE,
    Site,
    make_pictures,
    run_names,
    start_overview,
    watch_run,
    write_overview,
    write_pages,
)
from videopro.runs import find_runs


@dataclass(frozen=True)
class ViewConfig:
    """The settings of `videopro view`."""

    runs: tuple[str, ...] = option((), "run folders, or folders that contain runs", positional=True)
    output: Path | None = option(None, "folder for the pages; unset: view/ in the run folder, or runs/view")
    frames: int = option(16, "maximum number of thumbnails per call")
    side: int = option(SIDE, "longer side of the thumbnails in pixels")
    pictures: bool = option(True, "make thumbnails of the videos")
    open: bool = option(False, "open the pages in the browser when they are ready")
    live: bool = option(False, "follow the run in the terminal instead, until it ends")


COMMAND = CommandLine("view", ViewConfig)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, 2 for errors that the user can fix, 130 when
    interrupted."""
    argv = sys.argv[1:] if argv is None else argv
    # Before parsing, which may already be interrupted: the message depends on it.
    live = "--live" in argv
    with exit_status("stopped following; the run continues" if live else _RESUME_HINT) as status:
        config = COMMAND.parse(argv)
        if not config.runs:
            raise ConfigError(f"{COMMAND.program}: pass one or more run folders")
        for name in ("frames", "side"):
            if getattr(config, name) < 1:
                raise ConfigError(f"{name} is {getattr(config, name)}; it must be at least 1")
        if config.live:
            if len(config.runs) > 1:
                raise ConfigError(f"--live follows one run, but {len(config.runs)} were given")
            watch_run(Path(config.runs[0]), Console())
        else:
            write(config)
    return status.code


_MAX_EXAMPLES = 5
_RESUME_HINT = "stopped; the pages can be opened; re-run the same command to resume"


def write(config: ViewConfig) -> None:
    """Write the pages, then the thumbnails, and print where they are. Raises VideoProError."""
    runs = find_runs([Path(word) for word in config.runs])
    index, sites = _write_pages(config, runs)
    questions = sum(site.questions for site in sites)
    of = f" of {len(sites)} runs" if len(sites) > 1 else ""
    print(f"{questions} questions{of}: open {index}", flush=True)
    if config.pictures:
        errors: list[str] = []
        for site in sites:
            with Counter("video thumbnails") as counter:
                errors += make_pictures(site, config.side, counter.update)
        for error in errors[:_MAX_EXAMPLES]:
            print(f"no thumbnails: {error}", file=sys.stderr)
        if len(errors) > _MAX_EXAMPLES:
            more = len(errors) - _MAX_EXAMPLES
            print(f"no thumbnails for {more} more videos; their pages give the reason", file=sys.stderr)
    if config.open:
        open_in_browser(index)


def _write_pages(config: ViewConfig, runs: Sequence[Path]) -> tuple[Path, list[Site]]:
    """The page to open, and the pages of each run."""
    if len(runs) == 1:
        output = config.output if config.output is not None else runs[0] / "view"
        with Counter("pages") as counter:
            site = write_pages(runs[0], output, max_frames=config.frames, on_progress=counter.update)
        return site.index, [site]
    # The pages of all runs in one folder are written into that folder.
    beside = Path(config.runs[0]) if len(config.runs) == 1 else Path("runs")
    output = config.output if config.output is not None else beside / "view"
    start_overview(output)
    sites = []
    for run, name in zip(runs, run_names(runs), strict=True):
        with Counter(f"pages of {name}") as counter:
            folder = output / "runs" / name
            pages = write_pages(
                run, folder, max_frames=config.frames, overview=OVERVIEW, on_progress=counter.update
            )
        sites.append(pages)
    return write_overview(output, sites), sites


def open_in_browser(index: Path) -> None:
    """Open a page in the user's browser, or report that there is none."""
    try:
        is_open = webbrowser.open(index.resolve().as_uri())
    except webbrowser.Error:
        is_open = False
    if not is_open:
        print(f"no browser found; open {index} yourself", file=sys.stderr)
