"""The model of a server: loaded once, and shared by all questions, whose requests it serves in batches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from videopro.backbones import Backbone
from videopro.backbones.wrappers import share_backbone
from videopro.errors import ConfigError
from videopro.methods import PreparedRun
from videopro.serve.problems import Problem


class LoadedModel:
    """A model, which is loaded later. Thread-safe."""

    def __init__(self, spec: str, settings: Mapping[str, Any], load: Callable[..., Backbone]) -> None:
        self._spec = spec
        self._settings = dict(settings)
        self._load = load
        self._loaded: Backbone | None = None
        self._views: dict[str, Backbone] = {}
        self._identities: dict[bool, dict[str, object]] = {}
        self._identifying = threading.Lock()

    @property
    def name(self) -> str:
        """The model as clients call it: without the address of its server or the path of its folder."""
        if self._spec.startswith("server:"):
            return self._spec.removeprefix("server:").split("@")[0]
        folder = Path(self._spec).expanduser()
        if not folder.is_dir():
            return self._spec
        repository = folder.resolve().parent.parent.name
        # A snapshot in the hub's cache is named by its commit, which says nothing to a client.
        if folder.resolve().parent.name == "snapshots" and repository.startswith("models--"):
            return repository.removeprefix("models--").replace("--", "/")
        return folder.resolve().name

    @property
    def backbone(self) -> Backbone:
        """The loaded model, for any number of threads. Raises Problem before it is loaded."""
        if self._loaded is None:
            raise Problem(503, "the model is still being loaded", code="loading", retry_after=5)
        return self._loaded

    def load(self) -> None:
        """Load it. Raises BackboneError."""
        self._loaded = share_backbone(self._load(self._spec, **self._settings))

    def close(self) -> None:
        """Release it."""
        if self._loaded is not None:
            self._loaded.close()

    def identity(self, backbone: Backbone) -> dict[str, object]:
        """The identity of the model, with or without its adapter; reading it once takes a while."""
        is_whole = backbone is self._loaded
        with self._identifying:
            if is_whole not in self._identities:
                self._identities[is_whole] = dict(backbone.identity())
            return self._identities[is_whole]

    def backbone_for(self, prepared: PreparedRun) -> Backbone:
        """The loaded model as a method needs it. Raises ConfigError if it was loaded with other settings."""
        loaded, wanted = self.backbone, dict(prepared.backbone)
        if wanted == self._settings:
            return loaded
        if {**wanted, "adapter": self._settings.get("adapter")} == self._settings:
            # One view of it: what a method loads beside it is kept by it.
            return self._views.setdefault("off", share_backbone(loaded, adapter=False))
        changed = {name: value for name, value in wanted.items() if self._settings.get(name) != value}
        flags = " ".join(f"{name}={value}" for name, value in changed.items())
        raise ConfigError(
            f"method {prepared.method.name!r} needs the model with other settings than it was loaded with: "
            f"start the server with --backbone {flags}"
        )
