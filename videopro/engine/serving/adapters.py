"""The versions of an adapter that is being trained, as an engine gets them: each under its own name.

A version is loaded in addition to the earlier ones and never replaces one, whose keys and values the engine
would keep using (vLLM issue 42125). The one before it stays, for requests that are still being answered.

An adapter whose weights do not fit the model changes nothing, and no engine says so (vLLM issues 34186 and
48022): the log-probabilities of one that must differ from the base's are compared with those.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from videopro.engine.serving.process import EngineProcess
from videopro.errors import BackboneError, writing_file

Write = Callable[[Path], None]
"""Writes the adapter's files into a folder that is there."""

_KEPT = 2
_ROOM = 8 * 2**30
_SHARED_MEMORY = Path("/dev/shm")
_QUESTION = "What happens in the video? Describe it."


class AdapterVersions:
    """Versions of an adapter, of which the newest two are served; a context manager that removes their
    files.

    Each process has one, for its own engine. `folder`: where the files go meanwhile; None: in memory, if
    there is room.
    """

    def __init__(self, engine: EngineProcess, name: str, *, folder: Path | None = None) -> None:
        self.version: int | None = None
        """The newest one; None: there is none yet."""
        self._engine = engine
        self._name = name
        self._folder = Path(tempfile.mkdtemp(prefix="videopro-adapters-", dir=folder or _roomy_folder()))
        self._served: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The name by which requests ask for the newest version."""
        assert self.version is not None
        return adapter_name(self._name, self.version)

    def publish(self, version: int, write: Write, *, keep: int | None = None) -> str:
        """Write the adapter and have it served as this version. Returns its name. Does nothing for the
        version that is the newest. `keep`: an older one that stays instead of the one before. Raises
        BackboneError if the engine refuses it, RunError if it cannot be written."""
        if version == self.version:
            return self.name
        self._load(adapter_name(self._name, version), write)
        self._served.append(version)
        self.version = version
        while len(self._served) > _KEPT:
            oldest = next(served for served in self._served if served != keep)
            self._served.remove(oldest)
            self._drop(adapter_name(self._name, oldest))
        return self.name

    def check_effect(self, write: Write) -> None:
        """Raise BackboneError if the engine answers with an adapter as without it. `write`: writes one that
        must differ from the base, such as random weights."""
        name = f"{self._name}-check"
        self._load(name, write)
        base, tuned = (_first_token(self._engine, model) for model in (self._engine.model.name, name))
        self._drop(name)
        if base == tuned:
            raise BackboneError(
                f"the engine of {self._engine.model.name!r} answers with an adapter exactly as without it, "
                "so its weight names do not match the served model; use another version of vLLM, or set "
                "sampler: local"
            )

    def close(self) -> None:
        """Remove the files."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _load(self, name: str, write: Write) -> None:
        folder = self._folder / name
        partial = self._folder / f"{name}.part"
        with writing_file(folder):
            for left in (folder, partial):
                shutil.rmtree(left, ignore_errors=True)
            partial.mkdir()
            write(partial)
            # The engine may be started again at any moment, and never reads half an adapter.
            partial.rename(folder)
        self._engine.load_adapter(name, folder)

    def _drop(self, name: str) -> None:
        self._engine.unload_adapter(name)
        shutil.rmtree(self._folder / name, ignore_errors=True)


def adapter_name(name: str, version: int) -> str:
    """The name by which requests ask for a version."""
    return f"{name}-v{version}"


def _roomy_folder() -> Path | None:
    """Shared memory, if it has room for the versions of any adapter, of each process of a launcher; None: the
    usual folder for temporary files."""
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    try:
        return _SHARED_MEMORY if shutil.disk_usage(_SHARED_MEMORY).free > _ROOM * processes else None
    except OSError:
        return None


def _first_token(engine: EngineProcess, model: str) -> Any:
    """The most likely first tokens of a reply, with their log-probabilities."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": _QUESTION}],
        "max_tokens": 1,
        "temperature": 0.0,
        "logprobs": True,
        "top_logprobs": 5,
    }
    reply = engine.ask("chat/completions", body)
    try:
        listed = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        return [(token["token"], round(token["logprob"], 4)) for token in listed]
    except (KeyError, IndexError, TypeError):
        raise BackboneError(
            f"the engine of {engine.model.name!r} returns no log-probabilities: {str(reply)[:200]}"
        ) from None
