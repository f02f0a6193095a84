"""An engine, `vllm serve` in its own environment, that lives as long as what started it.

It is started, watched, started again when it dies, with the adapters that it had, and stopped with us in
every case (`guard`). It keeps its address meanwhile, so that clients who try again reach the next one.
"""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, Self

from videopro.cli import defer_signals
from videopro.engine.serving.attached import HOST, answers, ask_engine, exempt_from_proxies
from videopro.engine.serving.guard import end_guarded, kill_group, start_guarded
from videopro.engine.serving.settings import (
    CPU_LOADS,
    EngineSettings,
    ServedModel,
    engine_environment,
    serve_flags,
)
from videopro.errors import BackboneError, RunError, writing_file
from videopro.storage import write_atomically

# Of the log of an engine that does not serve, and what its words mean.
_SHOWN_LINES = 15
_ADVICE = (
    (("out of memory", "free memory on device", "no available memory for the cache"), "change --vllm memory"),
    (("no module named", "modulenotfounderror"), "see the packages of its environment"),
    (("max_model_len", "max seq len"), "set --vllm max_model_len=N"),
    (("max_lora_rank",), "set --vllm flags='--max-lora-rank N'"),
    (("unrecognized arguments",), "use vLLM 0.31 or newer, and flags that it supports"),
)


def _not_served(source: str, how: str, log: Path, size: int) -> BackboneError:
    """The error of an engine that does not serve a model: how that shows, what to do, and the last lines that
    it printed since its log had so many bytes."""
    try:
        printed = log.read_bytes()[size:].decode("utf-8", "replace")
    except OSError:
        printed = ""
    advice = next(
        (text for signs, text in _ADVICE if any(sign in printed.lower() for sign in signs)),
        "see its log",
    )
    lines = [line for line in printed.splitlines() if line.strip()][-_SHOWN_LINES:]
    ends = "\n".join(f"  {line[:400]}" for line in lines)
    return BackboneError(
        f"vLLM cannot serve {source}: {how}; {advice} ({log})" + (f". Its log ends:\n{ends}" if ends else "")
    )


_LISTENING_SECONDS = 5.0


class HeldPort:
    """A port of this machine at which an engine can listen, and that no other program gets meanwhile."""

    def __init__(self) -> None:
        self.number = 0
        self._held: socket.socket | None = None

    def hold(self) -> None:
        """Hold a free one."""
        # A socket that does not listen. With this option, which servers set too, it lets one of them bind the
        # same port; others are refused it, and nobody is given it as a free one.
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind((HOST, 0))
        self.number = self._held.getsockname()[1]

    def is_served(self) -> bool:
        """Whether a server listens there, busy or not."""
        with suppress(OSError), socket.socket() as tried:
            tried.settimeout(_LISTENING_SECONDS)
            return tried.connect_ex((HOST, self.number)) != errno.ECONNREFUSED
        return True

    def release(self) -> None:
        """Release it. Calling it again does nothing."""
        if self._held is not None:
            self._held.close()
            self._held = None


# Seconds between two looks at whether it answers, between two lines of progress, and until its end shows: of
# one that still answers, and of one that does not, as vLLM looks every few seconds whether its core is dead.
_LOOK_SECONDS = 0.2
_PROGRESS_SECONDS = 30.0
_END_SECONDS = 10.0
_SILENT_SECONDS = 60.0
# Loading an adapter reads its file, and an engine's first reply compiles.
_ASK_SECONDS = 300.0
# Between two looks at whether one that is up still listens, and how many times in a row it may not.
_WATCH_SECONDS = 5.0
_MOST_REFUSALS = 3
# Deaths without having answered for this long before the engine is given up.
_MOST_DEATHS = 3
_STABLE_SECONDS = 60.0

Say = Callable[[str], None]


class EngineProcess:
    """One engine. A context manager that starts and stops it.

    `device`: the GPUs that it sees, as CUDA_VISIBLE_DEVICES; None: it runs on the CPU. `log`: the file that
    gets what it prints. `say` is called with what the user has to know, such as that it died; it may be
    called from another thread. `failure`: a file that says why it was given up, for other processes that use
    it (`AttachedEngine`). Thread-safe.
    """

    def __init__(
        self,
        settings: EngineSettings,
        model: ServedModel,
        *,
        log: Path,
        device: str | None = None,
        say: Say = lambda line: print(line, file=sys.stderr),
        failure: Path | None = None,
    ) -> None:
        self.model = model
        self.log = log
        self.starts = 0
        """The number of times it was started."""
        self._settings = settings
        self._program = settings.command()
        self._device = device
        self._say = say
        self._port = HeldPort()
        self._adapters = dict(model.adapters)
        self._loads = 0
        """Adapters that the running process has loaded."""
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: threading.Thread | None = None
        self._is_stopping = threading.Event()
        self._is_up = threading.Event()
        self._failure: BackboneError | None = None
        self._failure_file = failure

    @property
    def url(self) -> str:
        """The address of its OpenAI-compatible endpoint."""
        return f"http://{HOST}:{self._port.number}/v1"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    # -- life

    def start(self) -> None:
        """Start it, and return when it answers; progress is shown meanwhile. Raises BackboneError, with the
        last lines of its log, if it does not or was stopped before, and RunError if the log cannot be
        written."""
        self._failure = None
        if self._failure_file is not None:
            with writing_file(self._failure_file):
                self._failure_file.unlink(missing_ok=True)
        exempt_from_proxies()
        try:
            self._port.hold()
            size = self._launch()
            if not self._wait_until_up(self._settings.start_seconds):
                raise self._not_started(size)
        except BaseException:
            self.stop()
            raise
        self._is_up.set()
        self._watcher = threading.Thread(target=self._watch, name="engine-watch", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """Stop it, with every process that it started. Calling it again does nothing."""
        self._is_stopping.set()
        self._is_up.clear()
        with self._lock:
            process = self._process
        if process is not None:
            end_guarded(process)
        watcher = self._watcher
        if watcher is not None and watcher is not threading.current_thread():
            watcher.join()
        self._watcher = None
        self._port.release()

    def check(self) -> None:
        """Raise BackboneError if the engine was given up."""
        if self._failure is not None:
            raise self._failure

    def answers(self) -> bool:
        """Whether it responds now."""
        return answers(self.url)

    def wait(self) -> None:
        """Return when it answers: at once, or after it was started again. Raises BackboneError if it was
        given up or stopped."""
        while not self._is_up.wait(_LOOK_SECONDS):
            self.check()
            if self._is_stopping.is_set():
                raise BackboneError(f"the engine of {self.model.name!r} was stopped")

    def _launch(self) -> int:
        """Start its process. Returns the size of the log before."""
        with writing_file(self.log):
            self.log.parent.mkdir(parents=True, exist_ok=True)
            file = self.log.open("ab")
        size = file.tell()
        with file, self._lock:
            named = [f"{name}={folder}" for name, folder in self._adapters.items()]
            command = [
                *self._program,
                self.model.source,
                *serve_flags(self._settings, self.model, self._port.number, on_gpu=self._device is not None),
                *(["--lora-modules", *named] if named else []),
            ]
            # Ctrl-C reaches the whole process group of a terminal, and when the engine ends is ours to say.
            # Until the assignment is done, since `stop` ends only what is assigned.
            with defer_signals():
                self._process = start_guarded(command, engine_environment(command, self._device), file)
            self.starts += 1
            self._loads = len(named)
        return size

    def _wait_until_up(self, seconds: float) -> bool:
        """Whether it answers before it ends, or the time is over."""
        began = time.monotonic()
        with _progress(f"starting vLLM with {self.model.name}, log: {self.log}", self._say):
            while time.monotonic() - began < seconds:
                assert self._process is not None
                if self._is_stopping.is_set() or self._process.poll() is not None:
                    return False
                if self.answers():
                    self._say(f"vLLM is ready after {time.monotonic() - began:.0f} s")
                    return True
                self._is_stopping.wait(_LOOK_SECONDS)
        return False

    def _watch(self) -> None:
        """Start it again whenever it ends, until it has been away for as long as its first start may take:
        the other processes of a training wait for this one."""
        deaths, size = 0, 0
        down_since, up_since = 0.0, time.monotonic()
        was_up = True
        while True:
            assert self._process is not None
            status = self._wait_for_end(self._process)
            self._is_up.clear()
            # Where the guard itself was killed, the others of its process group are left.
            kill_group(self._process)
            if self._is_stopping.is_set():
                return
            now = time.monotonic()
            if deaths == 0 or (was_up and now - up_since > _STABLE_SECONDS):
                deaths, down_since = 0, now
            deaths += 1
            seconds_left = self._settings.start_seconds - (now - down_since)
            if deaths > _MOST_DEATHS or seconds_left <= 0:
                away = f"it died {deaths} times in a row" if deaths > 1 else "it died"
                self._give_up(self._not_started(size, f"{away}, and was away for {now - down_since:.0f} s"))
                return
            self._say(
                f"the engine of {self.model.name!r} ended (status {status}); starting it again "
                f"(its log: {self.log})"
            )
            try:
                size = self._launch()
            except (RunError, OSError) as error:
                self._give_up(BackboneError(f"the engine of {self.model.name!r} cannot be started: {error}"))
                return
            was_up = self._wait_until_up(seconds_left)
            if was_up:
                up_since = time.monotonic()
                self._is_up.set()
            elif self._process.poll() is None:
                end_guarded(self._process)

    def _wait_for_end(self, process: subprocess.Popen[bytes]) -> int:
        """The exit status of its process, when that has ended. A server that a signal has ended kills its
        engine, and waits for clients that wait for their replies (vLLM 0.32): it is ended then."""
        refusals = 0
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(_WATCH_SECONDS)
            refusals = 0 if self._port.is_served() else refusals + 1
            if refusals == _MOST_REFUSALS:
                self._is_up.clear()
                end_guarded(process)

    def _give_up(self, error: BackboneError) -> None:
        self._failure = error
        self._say(str(error))
        if self._failure_file is not None:
            # A disk that is full hides it from other processes, whose requests then fail.
            with suppress(OSError):
                write_atomically(self._failure_file, str(error))

    def _not_started(self, size: int, how: str = "") -> BackboneError:
        """`size`: that of the log before the part that says why."""
        if not how:
            ended = self._process is None or self._process.poll() is not None
            how = "it ended" if ended else f"it did not respond within {self._settings.start_seconds} s"
        return _not_served(self.model.source, how, self.log, size)

    # -- adapters

    def load_adapter(self, name: str, folder: Path) -> None:
        """Serve an adapter under its own name, also after it has been started again. Raises
        BackboneError if the engine refuses it."""
        with self._lock:
            before = dict(self._adapters)
            # First: an engine that dies meanwhile is started again with it.
            self._adapters[name] = folder
            starts = self.starts
            self._loads += 1
            is_full = self._device is None and self._loads > CPU_LOADS
            process = self._process
        if is_full and process is not None:
            self._say(f"vLLM's CPU build has loaded {CPU_LOADS} adapters, and would mistake one for the base")
            # Started again as one that died, with its adapters.
            end_guarded(process)
        try:
            self.ask(
                "load_lora_adapter",
                {"lora_name": name, "lora_path": str(folder)},
                # One that was started again has it from its start.
                is_done=lambda: self.starts != starts,
            )
        except BackboneError:
            with self._lock:
                self._adapters = before
            raise

    def unload_adapter(self, name: str) -> None:
        """Forget an adapter. Raises BackboneError if the engine refuses that."""
        with self._lock:
            self._adapters.pop(name, None)
            starts = self.starts
        self.ask("unload_lora_adapter", {"lora_name": name}, is_done=lambda: self.starts != starts)

    # -- short requests

    def ask(
        self, path: str, content: Mapping[str, Any], *, is_done: Callable[[], bool] = lambda: False
    ) -> Any:
        """Its reply to a request, asked again if it dies meanwhile, unless a restart has done it. Raises
        BackboneError."""
        while True:
            self.wait()
            if is_done():
                return None
            starts = self.starts
            try:
                status, reply = ask_engine(f"{self.url}/{path}", content, _ASK_SECONDS)
            except (OSError, HTTPException) as error:
                if self._has_ended(starts):
                    continue
                raise BackboneError(
                    f"the engine of {self.model.name!r} does not respond to {path} ({type(error).__name__}); "
                    f"see {self.log}"
                ) from None
            # One whose core has died, or that is being ended, refuses what it is asked until it is gone.
            if status >= 500 and self._has_ended(starts):
                continue
            if status != 200:
                error_part = reply.get("error", reply) if isinstance(reply, dict) else reply
                message = error_part.get("message") if isinstance(error_part, dict) else None
                raise BackboneError(
                    f"the engine of {self.model.name!r} rejects {path} of "
                    f"{content.get('lora_name') or content.get('model')!r} (status {status}): "
                    f"{str(message or error_part)[:400]}"
                )
            return reply

    def _has_ended(self, starts: int) -> bool:
        """Whether the engine that was started as number `starts` has ended, or ends now."""
        began = time.monotonic()
        while (waited := time.monotonic() - began) < _SILENT_SECONDS:
            if self.starts != starts or not self._is_up.is_set():
                return True
            if waited > _END_SECONDS and self.answers():
                return False
            time.sleep(_LOOK_SECONDS)
        return False


@contextmanager
def started(processes: Sequence[EngineProcess]) -> Iterator[None]:
    """Within, they run. Raises BackboneError or RunError if one does not start."""
    with ExitStack() as running:
        for process in processes:
            running.callback(process.stop)
        with ThreadPoolExecutor(max(1, len(processes))) as threads:
            # All at once: each takes minutes. The first failure ends the others.
            futures = [threads.submit(process.start) for process in processes]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                for process in processes:
                    process.stop()
                raise
        yield


@contextmanager
def _progress(doing: str, say: Say) -> Iterator[None]:
    """Report from time to time that something is still running."""
    began = time.monotonic()
    is_over = threading.Event()

    def tell() -> None:
        while not is_over.wait(_PROGRESS_SECONDS):
            say(f"{doing}: {time.monotonic() - began:.0f} s ...")

    say(f"{doing} ...")
    threading.Thread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        is_over.set()
