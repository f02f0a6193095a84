"""What tests start with multiprocessing's "spawn" is forked from a process that has imported the modules.

A worker of a run imports PyTorch, transformers, PEFT and most of the package: 2 to 7 s, in most tests far
longer than what it then does. `install()` puts multiprocessing's own fork server, with these modules loaded,
in the place of "spawn". A process still begins without its parent's memory, and still gets its parent's
environment, working folder and output. Tests that run a command in a process of its own show that workers
start without this.

A process that runs a half of all tests imports these modules for them too, so `install(fork=True)` makes the
server a copy of it. One that runs a few tests may need neither, and starts the server with the first worker.
"""

import gc
import importlib
import multiprocessing.context
import os
import socket
from collections.abc import Callable
from multiprocessing import connection, forkserver, popen_forkserver, reduction
from multiprocessing.context import SpawnProcess
from multiprocessing.process import BaseProcess
from typing import Any

from tests.support import ROOT

# What a worker has imported when it answers, with the pocket model or a fake one.
MODULES = (
    "videopro.startup",  # the first: it hides what others print when they are imported
    "peft",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.processing_auto",
    "transformers.models.qwen2_vl.image_processing_qwen2_vl",
    "transformers.models.qwen3_vl.modeling_qwen3_vl",
    "transformers.models.qwen3_vl.processing_qwen3_vl",
    "transformers.models.qwen3_vl.video_processing_qwen3_vl",
    "tests.support.colours",
    "videopro.backbones.qwen.backbone",
    "videopro.commands.infer",
    "videopro.runs.making.worker",
)
_ENVIRONMENT: dict[str, str] = {}


def install(*, fork: bool = False) -> None:
    """Called before any test: the modules are imported with the environment of the session."""
    _ENVIRONMENT.update(os.environ, PYTHONPATH=str(ROOT))
    forkserver.set_forkserver_preload(list(MODULES))
    multiprocessing.context._concrete_contexts["spawn"] = _Context()
    if fork:
        for name in MODULES:
            importlib.import_module(name)
        _fork_server()


class _Popen(popen_forkserver.Popen):
    def _launch(self, process_obj: Any) -> None:
        _start_server()
        super()._launch(process_obj)


class _Process(multiprocessing.context.ForkServerProcess):
    _start_method = "spawn"

    @staticmethod
    def _Popen(process_obj: Any) -> _Popen:
        return _Popen(process_obj)

    def __getstate__(self) -> dict[str, Any]:
        """With what a spawned process would inherit: it is pickled when it starts."""
        inherited = (dict(os.environ), os.getcwd(), [reduction.DupFd(number) for number in (1, 2)])
        return {**self.__dict__, "_inherited": inherited}

    def run(self) -> None:
        environment, folder, outputs = self._inherited
        _replace_environment(environment)
        os.chdir(folder)
        for number, output in enumerate(outputs, start=1):
            descriptor = output.detach()
            os.dup2(descriptor, number)
            os.close(descriptor)
        super().run()


class _Context(multiprocessing.context.SpawnContext):
    @staticmethod
    def Process(group: None = None, target: Callable[..., object] | None = None, **rest: Any) -> BaseProcess:
        """A pool's processes stay spawned: the pocket world's ask for their parent, here the fork server."""
        of_a_pool = target is None or target.__module__.startswith("concurrent.futures")
        return (SpawnProcess if of_a_pool else _Process)(group, target, **rest)


def _fork_server() -> None:
    """Do what `forkserver.ensure_running()` does, with a copy of this process without its open files.

    Before PyTorch has run anything: its pool of threads would be missing in the copy."""
    server: Any = forkserver._forkserver
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(connection.arbitrary_address("AF_UNIX"))  # type: ignore[attr-defined]
        listener.listen()
        alive, ours = os.pipe()
        # What is garbage now must not close a file of the copy later.
        gc.collect()
        pid = os.fork()
        if pid == 0:
            try:
                _empty_files(keep={0, 1, 2, listener.fileno(), alive})
                forkserver.main(listener.fileno(), alive, [])
            finally:
                os._exit(0)
        os.close(alive)
        server._forkserver_address, server._forkserver_alive_fd = listener.getsockname(), ours
        server._forkserver_pid = pid


def _empty_files(keep: set[int]) -> None:
    """Put nothing in the place of every other open file: this process's channel to the one that hands out
    tests would not end with it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number not in keep and number != nothing:
            try:
                os.fstat(number)
            except OSError:  # that of the listing itself
                continue
            os.dup2(nothing, number)


def _start_server() -> None:
    """The server imports with the environment of the session, not that of the test which is the first."""
    environment, folder = dict(os.environ), os.getcwd()
    _replace_environment(_ENVIRONMENT)
    os.chdir(ROOT)
    try:
        forkserver.ensure_running()
    finally:
        os.chdir(folder)
        _replace_environment(environment)


def _replace_environment(environment: dict[str, str]) -> None:
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)
