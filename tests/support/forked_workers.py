"""What tests start with multiprocessing's "spawn" is forked from a process that has imported the modules.

A worker of a run imports PyTorch, transformers, PEFT and most of the package: 2 to 7 s, in most tests far
longer than what it then does. `install()` puts multiprocessing's own fork server, with these modules loaded,
in the place of "spawn". A process still begins without its parent's memory, and still gets its parent's
environment, working folder and output. Tests that run a command in a process of its own show that workers
start without this.
"""

from __future__ import annotations

import multiprocessing.context
import os
from collections.abc import Callable
from multiprocessing import forkserver, popen_forkserver, reduction
from multiprocessing.context import SpawnProcess
from multiprocessing.process import BaseProcess
from typing import Any

from tests.support import ROOT

# What a worker has imported when it answers, with the pocket model or a fake one.
MODULES = (
    "videopro.startup.library_messages",  # the first: it hides what others print when they are imported
    "peft",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.processing_auto",
    "transformers.models.qwen2_vl.image_processing_qwen2_vl",
    "transformers.models.qwen3_vl.modeling_qwen3_vl",
    "transformers.models.qwen3_vl.processing_qwen3_vl",
    "transformers.models.qwen3_vl.video_processing_qwen3_vl",
    "tests.support.fakes",
    "videopro.backbones.qwen.backbone",
    "videopro.commands.infer",
    "videopro.runs.making.worker",
)
_ENVIRONMENT: dict[str, str] = {}


def install() -> None:
    """Called before any test: the modules are imported with the environment of the session."""
    _ENVIRONMENT.update(os.environ, PYTHONPATH=str(ROOT))
    forkserver.set_forkserver_preload(list(MODULES))
    multiprocessing.context._concrete_contexts["spawn"] = _Context()


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
