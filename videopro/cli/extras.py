"""What an optional dependency is called when it is missing: one line that names the extra to install."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from videopro.errors import ConfigError


class MissingExtra(ConfigError, ImportError):
    """A package of an extra that is not installed."""


def install(extra: str) -> str:
    """The command that installs an extra, for messages."""
    return f"pip install 'videopro[{extra}]'"


@contextmanager
def needs_extra(extra: str, user: str, module: str = "") -> Iterator[None]:
    """Import packages of `extra` inside the block; `user`, which the message names, needs them. Raises
    MissingExtra if they cannot be imported.

    A command that needs an extra to be imported at all gives its `__name__` as `module`: if it is being run,
    the line is printed and the process ends with status 2.
    """
    try:
        yield
    except ImportError as error:
        name = (error.name or "").partition(".")[0]
        if isinstance(error, MissingExtra):
            message = str(error)
        # A mistake of ours, or a package that is there and fails in its own code: its traceback is needed.
        elif name in ("", "videopro"):
            raise
        elif isinstance(error, ModuleNotFoundError):
            message = f"{user} needs {name}: {install(extra)}"
        else:
            message = f"{user}: {name} cannot be imported ({_first_line(error)}): {install(extra)}"
        if module == "__main__":
            print(f"error: {message}", file=sys.stderr)
            raise SystemExit(2) from error
        raise MissingExtra(message) from error


def is_installed(package: str) -> bool:
    """Whether a package is installed; it is not imported."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def check_extra(extra: str, user: str, package: str) -> None:
    """Raise MissingExtra if a package is not installed, without importing it."""
    if not is_installed(package):
        raise MissingExtra(f"{user} needs {package}: {install(extra)}")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
