"""python -m videopro.view: browse a run's traces as pages, or follow the run in the terminal.

python -m videopro.view runs/videopro                 # writes runs/videopro/view; open its index.html
python -m videopro.view --live runs/videopro          # follows a run in progress
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich import progress as bars
from rich.console import Console

from videopro.cli import exit_status
from videopro.command_line import CommandLine
from videopro.errors import ConfigError
from videopro.settings import setting
from videopro.view.live import watch_run
from videopro.view.site import make_pictures, write_pages


@dataclass(frozen=True)
class ViewConfig:
    """The settings of `python -m videopro.view`."""

    run: Path = field(metadata=setting("folder of a run of videopro.infer", positional=True))
    output: Path | None = field(default=None, metadata=setting("folder of the pages; unset: RUN/view"))
    frames: int = field(default=16, metadata=setting("maximum number of pictures per call"))
    pictures: bool = field(default=True, metadata=setting("make thumbnails of the videos"))
    live: bool = field(
        default=False, metadata=setting("follow the run in the terminal instead, until it ends")
    )


COMMAND = CommandLine("view", ViewConfig)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, 2 for errors the user can fix, 130 when interrupted."""
    argv = sys.argv[1:] if argv is None else argv
    live = "--live" in argv
    with exit_status("stopped watching; the run continues" if live else _RESUME_HINT) as status:
        config = COMMAND.parse(argv)
        if config.frames < 1:
            raise ConfigError(f"frames is {config.frames}; it must be at least 1")
        if config.live:
            watch_run(config.run, Console())
        else:
            write(config)
    return status.code


_RESUME_HINT = "stopped; the pages can be opened, re-run the same command to resume"


def write(config: ViewConfig) -> None:
    """Write the pages, then the pictures. Raises VideoProError."""
    console = Console(stderr=True)
    with bars.Progress(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("pages", total=None)

        def on_progress(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        output = config.output if config.output is not None else config.run / "view"
        site = write_pages(config.run, output, max_frames=config.frames, on_progress=on_progress)
        Console().print(f"{site.questions} questions: open {site.index}", soft_wrap=True)
        if not config.pictures:
            return
        task = progress.add_task("pictures of videos", total=len(site.videos))
        errors = make_pictures(site, on_progress)
    for error in errors[:_MAX_LISTED]:
        print(f"no pictures: {error}", file=sys.stderr)
    if len(errors) > _MAX_LISTED:
        print(f"no pictures: {len(errors) - _MAX_LISTED} more videos; their pages say why", file=sys.stderr)


_MAX_LISTED = 5

if __name__ == "__main__":
    sys.exit(main())
