"""What a command does before it imports anything else. A program that only uses the package is left alone.

Ctrl-C while a command starts is one line and status 130, as later by `videopro.cli.exit_codes.exit_status`:
until then it imports libraries for seconds, and a KeyboardInterrupt there ends in a traceback, or in whatever
a library that catches it makes of it. And caches get folders where the user has no home
(`videopro.startup.user_folders`).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import TypeAlias

from videopro.startup.user_folders import provide_folders

_Handler: TypeAlias = Callable[[int, FrameType | None], None]
_SHOWING = {"--help", "-h", "--version", "completion"}
"""Words of commands that only show something."""
_OWN_FOLDERS = ("", "train", "data_synthesis", "modules")
"""Folders of scripts that are commands, in the package's own; some of them are links."""


def stop_while_starting(number: int, frame: FrameType | None) -> None:
    """Handle SIGINT: end the process at once. Nothing has been begun that would have to be put in order."""
    os.write(2, b"\nstopped\n")
    # Not sys.exit: libraries that are only half imported may have exit handlers that fail, and threads that
    # Python would wait for.
    os._exit(128 + number)


@contextmanager
def _replaced(handler: _Handler, by: _Handler) -> Iterator[None]:
    """Handle SIGINT differently within the block, if it is handled by `handler`. Handlers of other programs,
    and ignored signals, stay."""
    is_ours = signal.getsignal(signal.SIGINT) is handler
    # Python lets no other thread set a handler.
    is_ours = is_ours and threading.current_thread() is threading.main_thread()
    if is_ours:
        signal.signal(signal.SIGINT, by)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, handler)


def importing() -> AbstractContextManager[None]:
    """Ctrl-C ends the process at once within the block, in which a command's module is imported."""
    return _replaced(signal.default_int_handler, stop_while_starting)


def working() -> AbstractContextManager[None]:
    """Ctrl-C raises KeyboardInterrupt within the block: what a command has begun is put in order."""
    return _replaced(stop_while_starting, signal.default_int_handler)


def is_command() -> bool:
    """Whether this process was started as one of our commands: `videopro X`, `python -m videopro.X`, or a
    script of ours such as train/sft.py. Its worker processes are not."""
    program = sys.argv[0] if sys.argv else ""
    if program == "-m":
        # The interpreter is importing the packages around the module that it will run.
        return any(word.removeprefix("-m").partition(".")[0] == "videopro" for word in sys.orig_argv[1:])
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    # A worker that multiprocessing spawns has our script as its main module too, but not on its command line.
    if not script or program not in sys.orig_argv:
        return False
    package = os.path.dirname(os.path.dirname(__file__))
    folder = os.path.dirname(os.path.realpath(script))
    return os.path.basename(program) == "videopro" or any(
        folder == os.path.realpath(os.path.join(package, name)) for name in _OWN_FOLDERS
    )


def start() -> None:
    """What a command does before anything else. Ignored, Ctrl-C stays ignored."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, stop_while_starting)
    notice = provide_folders(os.environ)
    # Once for all processes of torchrun, and not above the output of a command that only shows something.
    if notice and not _SHOWING & set(sys.argv) and os.environ.get("RANK", "0") == "0":
        print(notice, file=sys.stderr)


if is_command():
    start()
