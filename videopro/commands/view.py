"""videopro view: browse a run's traces as pages, from disk or over HTTP.

videopro view runs/videopro                 # writes runs/videopro/view; open its index.html
videopro view runs/videopro --open          # and opens it in the browser
videopro view runs                          # all runs in a folder, with an index page
videopro view runs/videopro --port 8080     # writes nothing; pages follow a run in progress
"""

from __future__ import annotations

import socket
import sys
import threading
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from videopro.cli import CommandLine, Counter, exit_status, needs_extra, option
from videopro.errors import ConfigError
from videopro.report.pages import (
    OVERVIEW,
    SIDE,
    Site,
    make_pictures,
    run_names,
    start_overview,
    write_overview,
    write_pages,
)
from videopro.runs import find_runs

_SERVING = "Over HTTP"


@dataclass(frozen=True)
class ViewConfig:
    """The settings of `videopro view`."""

    runs: tuple[str, ...] = option((), "run folders, or folders that contain runs", positional=True)
    output: Path | None = option(None, "folder for the pages; unset: view/ in the run folder, or runs/view")
    frames: int = option(16, "maximum number of thumbnails per call")
    side: int = option(SIDE, "longer side of the thumbnails in pixels")
    pictures: bool = option(True, "make thumbnails of the videos")
    open: bool = option(False, "open the pages in the browser when they are ready")
    port: int | None = option(
        None, "serve the pages on this port, live, and write nothing; 0: any free port", group=_SERVING
    )
    host: str = option(
        "127.0.0.1", "address to serve on; 0.0.0.0: all interfaces, without a key", group=_SERVING
    )
    hosts: tuple[str, ...] = option(
        (), "host names of the server, in addition to localhost and IP addresses", group=_SERVING
    )


COMMAND = CommandLine("view", ViewConfig)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, 2 for errors that the user can fix, 130 when
    interrupted."""
    with exit_status() as status:
        config = COMMAND.parse(argv)
        if not config.runs:
            raise ConfigError(f"{COMMAND.program}: pass one or more run folders")
        for name in ("frames", "side"):
            if getattr(config, name) < 1:
                raise ConfigError(f"{name} is {getattr(config, name)}; it must be at least 1")
        if config.port is not None:
            serve(config, config.port)
        else:
            write(config)
    return status.code


def serve(config: ViewConfig, port: int) -> None:
    """Serve the pages until a signal arrives. Raises VideoProError."""
    if config.output is not None or not config.pictures:
        other = "--no-pictures" if config.output is None else "--output"
        raise ConfigError(f"--port writes no pages, so {other} has no effect; leave one of them out")
    runs = find_runs([Path(word) for word in config.runs])
    with needs_extra("serve", "videopro view --port"):
        from videopro.serve import RunPages, create_viewer, listen, show
    overview, names = (OVERVIEW, run_names(runs)) if len(runs) > 1 else ("", [""])
    pages = [RunPages(run, config.frames, config.side, overview) for run in runs]
    with listen(config.host, port) as sock:

        def say(address: str) -> None:
            print(f"open {address} (press Ctrl-C to stop)", flush=True)
            if config.host in ("127.0.0.1", "localhost"):
                number = address.rpartition(":")[2]
                tunnel = f"ssh -L {number}:localhost:{number} {socket.gethostname()}"
                print(f"from another machine: {tunnel}", flush=True)
            if config.open:
                # The server answers meanwhile: a browser in the terminal waits for its page.
                threading.Thread(target=open_in_browser, args=(address,), daemon=True).start()

        show(create_viewer(dict(zip(names, pages, strict=True)), config.hosts), sock, say)


_MAX_EXAMPLES = 5


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
        open_in_browser(index.resolve().as_uri())


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


def open_in_browser(address: str) -> None:
    """Open a page in the user's browser, or report that there is none."""
    try:
        is_open = webbrowser.open(address)
    except webbrowser.Error:
        is_open = False
    if not is_open:
        print(f"no browser found; open {address} yourself", file=sys.stderr)
