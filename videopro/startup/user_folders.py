"""Folders for libraries that keep files in a user's home, where there is no such home: in containers that run
with any user id, HOME is missing, names no folder, or cannot be written.

Python then has no home folder (`Path.home()` raises) and no user name (`getpass.getuser()` raises), and some
libraries write into a folder called "~". Standard library only: it runs before any other is imported.
"""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

_CACHES = {
    "VIDEOPRO_CACHE": ".cache/videopro",
    "HF_HOME": ".cache/huggingface",
    "TORCH_HOME": ".cache/torch",
    "TRITON_CACHE_DIR": ".triton/cache",
    "EASYOCR_MODULE_PATH": ".EasyOCR",
    "MPLCONFIGDIR": ".config/matplotlib",
}
"""The variables that name the caches of the libraries, and where the caches are without, in the home."""
_COSTLY = {"VIDEOPRO_CACHE": "videos and indexes", "HF_HOME": "models"}
"""Those with files that take long to make again."""
_WRITTEN = {"VIDEOPRO_CACHE"}
"""Of no use if it can only be read."""
_NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")
"""Where `getpass.getuser()` looks before it asks for the user's entry."""


def provide_folders(environment: MutableMapping[str, str]) -> str:
    """Name other folders, in `environment`, for the caches that have no place in the user's home. Returns
    what to tell the user, "" if nothing was changed. A cache whose own variable is set stays there."""
    if not any(environment.get(name) for name in _NAMES) and not _has_entry():
        # torch asks for a user name when it names its cache of compiled kernels.
        environment["USER"] = f"uid{os.getuid()}"
    home = _home(environment)
    lacking = {}
    for variable, inside in _CACHES.items():
        if environment.get(variable):
            continue
        is_usable = home is not None and _serves(home / inside, written=variable in _WRITTEN)
        if not is_usable:
            lacking[variable] = inside
    if not lacking and home is not None:
        return ""
    folder = private_temporary_folder()
    if folder is None:
        return ""  # Nothing can be written at all: what needs a cache says so.
    if home is None:
        reason = f"there is no home folder (HOME is {environment.get('HOME') or 'not set'})"
        environment["HOME"] = str(folder)
    else:
        reason = f"the caches in {home} cannot be written"
        for variable, inside in lacking.items():
            environment[variable] = str(folder / inside)
    variables = [f"{variable} ({contents})" for variable, contents in _COSTLY.items() if variable in lacking]
    if not variables:
        return ""
    named = " and ".join(variables)
    return f"{reason}: files go to {folder}, which may not last; name lasting folders by {named}"


def private_temporary_folder() -> Path | None:
    """A folder in the temporary directory that only this user can write, the same in every process; None if
    none can be made."""
    try:
        folder = Path(tempfile.gettempdir()) / f"videopro-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        # Anyone can make a folder of this name there, or a link.
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022:
            return folder
        return Path(tempfile.mkdtemp(prefix="videopro-"))
    except OSError:
        return None


def _has_entry() -> bool:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True


def _home(environment: MutableMapping[str, str]) -> Path | None:
    """The user's home; None if there is none that holds, or could hold, anything of theirs."""
    named = environment.get("HOME")
    if not named:
        try:
            named = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return None
    home = Path(named)
    # Container engines set HOME to / for a user without an entry.
    if not home.is_dir() or not os.access(home, os.X_OK) or (home == Path("/") and not _is_writable(home)):
        return None
    return home


def _serves(folder: Path, *, written: bool) -> bool:
    """Whether a cache can be where it is by default: it can be made there, or is there, to be read at
    least."""
    if folder.is_dir():
        return _is_writable(folder) if written else os.access(folder, os.R_OK | os.X_OK)
    above = folder.parent
    while not above.exists():
        above = above.parent
    return above.is_dir() and _is_writable(above)


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)
