"""Setup before anything else is imported; standard library only.

Messages of other libraries that do not help users of VideoPro are hidden, each by its text. The rest applies
to commands only, not to programs that use the package. Ctrl-C while a command starts prints one line and
exits with status 130, like `videopro.cli.process.exit_status` later: a command imports libraries for seconds,
and a KeyboardInterrupt there would end in a traceback, or be caught by a library. Caches get other folders if
there is no home: in containers that run with any user id, HOME may be unset, not a folder, or not writable.
Then Python has no home folder (`Path.home()` raises) and no user name (`getpass.getuser()` raises), and some
libraries write into a folder called "~".
"""

from __future__ import annotations

import logging
import os
import pwd
import signal
import stat
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import spawn
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias


def exit_with_parent(parent: int) -> None:
    """End this process when its parent is gone. The kernel's signal for that does not work here: it is sent
    when the thread that started this process ends."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


_starting = threading.local()
_of_multiprocessing = spawn.get_preparation_data


def _preparation_data(name: str) -> dict[str, Any]:
    data = _of_multiprocessing(name)
    if getattr(_starting, "is_ours", False):
        data.pop("init_main_from_name", None)
        data.pop("init_main_from_path", None)
    return data


# multiprocessing has no option for it.
spawn.get_preparation_data = _preparation_data


class _Child(SpawnProcess):
    def start(self) -> None:
        _starting.is_ours = True
        try:
            super().start()
        finally:
            _starting.is_ours = False


class OwnFunctions(SpawnContext):
    """A context for pools whose functions and arguments come from installed packages. Their processes do not
    import the caller's script, which would run again in each of them without an `if __name__ ==
    "__main__"`."""

    Process = _Child


# (logger, beginning of the message)
_LOGGED = (
    # bitsandbytes, which peft imports if it is installed, looks for a CPU kernel of 4-bit weights; QLoRA on a
    # CPU is not supported here, and on a GPU the kernel is not used.
    ("bitsandbytes.backends.cpu.ops", "Failed to load CPU gemm_4bit_forward"),
    # DeepSpeed, which accelerate imports if it is installed, on a machine without a GPU.
    ("DeepSpeed", "Setting accelerator to CPU"),
)
# (category, regular expression of the message's beginning)
_WARNED: tuple[tuple[type[Warning], str], ...] = (
    # TRL and peft still use these names of transformers 5; they work until version 6.
    (FutureWarning, "`(is_)?gradient_checkpointing(_enable|_disable)?` is deprecated"),
    # peft looks for the base model's config by its name, to see whether the vocabulary was enlarged. A
    # plug-in's name is no folder or hub name, and no vocabulary is enlarged here.
    (UserWarning, "Could not find a config file in .* will assume that the vocabulary was not modified"),
    # Of every rollout_func of TRL's GRPOTrainer: tests hold it to what we need of it.
    (UserWarning, "You are using 'rollout_func', which is an experimental feature"),
    # Of an adapter for another model, which is refused with the names of these weights.
    (UserWarning, "Found missing adapter keys while loading the checkpoint"),
    # The same where no hub can be reached.
    (
        UserWarning,
        r"(?s)Unable to fetch remote file .* ignoring the lookup for the file config\.json",
    ),
)


class _Hidden(logging.Filter):
    """Drops records whose message starts with this text."""

    def __init__(self, beginning: str) -> None:
        super().__init__()
        self._beginning = beginning

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(self._beginning)


class _HubRetries(logging.Filter):
    """Prints one line for all attempts to reach the hub, instead of two for each; the error that follows has
    the fix. A rate limit is still reported."""

    def __init__(self) -> None:
        super().__init__()
        self._was_reported = False

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if message.startswith("Retrying in "):
            return False
        reason, is_attempt, _ = message.partition(" thrown while requesting ")
        if not is_attempt:
            return True
        if self._was_reported:
            return False
        self._was_reported = True
        record.msg, record.args = (
            f"the hub does not answer ({reason}); retrying each file for about half a minute",
            (),
        )
        return True


def _hide_messages() -> None:
    for logger, beginning in _LOGGED:
        logging.getLogger(logger).addFilter(_Hidden(beginning))
    logging.getLogger("huggingface_hub.utils._http").addFilter(_HubRetries())
    for category, message in _WARNED:
        warnings.filterwarnings("ignore", message=message, category=category)


_hide_messages()


_CACHES = {
    "VIDEOPRO_CACHE": ".cache/videopro",
    "HF_HOME": ".cache/huggingface",
    "TORCH_HOME": ".cache/torch",
    "TRITON_CACHE_DIR": ".triton/cache",
    "EASYOCR_MODULE_PATH": ".EasyOCR",
    "MPLCONFIGDIR": ".config/matplotlib",
}
"""The variables of the libraries' cache folders, and their defaults in the home folder."""
_COSTLY = {"VIDEOPRO_CACHE": "videos and indexes", "HF_HOME": "models"}
"""Caches whose files take long to recreate."""
_WRITTEN = {"VIDEOPRO_CACHE"}
"""Caches that must be writable."""
_NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")
"""Where `getpass.getuser()` looks before it asks for the user's entry."""


def provide_folders(environment: MutableMapping[str, str]) -> str:
    """Set other folders, in `environment`, for the caches that cannot be in the user's home. Returns a notice
    for the user, "" if nothing changed. Caches whose variable is set are left alone."""
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
        reason = f"no home folder (HOME is {environment.get('HOME') or 'not set'})"
        environment["HOME"] = str(folder)
    else:
        reason = f"the caches in {home} are not writable"
        for variable, inside in lacking.items():
            environment[variable] = str(folder / inside)
    variables = [f"{variable} ({contents})" for variable, contents in _COSTLY.items() if variable in lacking]
    if not variables:
        return ""
    named = " and ".join(variables)
    return f"{reason}; caches go to {folder}, which may be temporary. Set permanent folders with {named}"


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
    """Whether a cache can use its default folder: it can be created there, or exists and is at least
    readable."""
    if folder.is_dir():
        return _is_writable(folder) if written else os.access(folder, os.R_OK | os.X_OK)
    above = folder.parent
    while not above.exists():
        above = above.parent
    return above.is_dir() and _is_writable(above)


def _is_writable(folder: Path) -> bool:
    return os.access(folder, os.W_OK | os.X_OK)


_Handler: TypeAlias = Callable[[int, FrameType | None], None]
_SHOWING = {"--help", "-h", "--version", "completion"}
"""Commands and flags that only show something."""
_OWN_FOLDERS = ("", "train", "data_synthesis", "modules")
"""Folders of scripts that are commands, next to the package; some are links."""


def stop_while_starting(number: int, frame: FrameType | None) -> None:
    """Handle SIGINT: end the process at once, as there is nothing to clean up yet."""
    os.write(2, b"\nstopped\n")
    # Not sys.exit: libraries that are only half imported may have exit handlers that fail, and threads that
    # Python would wait for.
    os._exit(128 + number)


@contextmanager
def _replaced(handler: _Handler, by: _Handler) -> Iterator[None]:
    """Replace the SIGINT handler within the block, if it is `handler`. Other handlers, and ignored signals,
    stay."""
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
    """Ctrl-C raises KeyboardInterrupt within the block, so that a command can clean up."""
    return _replaced(stop_while_starting, signal.default_int_handler)


def is_command() -> bool:
    """Whether this process was started as a VideoPro command: `videopro X`, `python -m videopro.X`, or a
    script of ours such as train/sft.py. Its worker processes are not."""
    program = sys.argv[0] if sys.argv else ""
    if program == "-m":
        # The interpreter is importing the packages around the module that it will run.
        return any(word.removeprefix("-m").partition(".")[0] == "videopro" for word in sys.orig_argv[1:])
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    # A worker that multiprocessing spawns has our script as its main module too, but not on its command line.
    if not script or program not in sys.orig_argv:
        return False
    package = os.path.dirname(__file__)
    folder = os.path.dirname(os.path.realpath(script))
    return os.path.basename(program) == "videopro" or any(
        folder == os.path.realpath(os.path.join(package, name)) for name in _OWN_FOLDERS
    )


def start() -> None:
    """Set up a command before anything else. If Ctrl-C is ignored, it stays ignored."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, stop_while_starting)
    notice = provide_folders(os.environ)
    # Once for all processes of torchrun, and not above the output of a command that only shows something.
    if notice and not _SHOWING & set(sys.argv) and os.environ.get("RANK", "0") == "0":
        print(notice, file=sys.stderr)


if is_command():
    start()
