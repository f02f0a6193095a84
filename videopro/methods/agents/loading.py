"""Loads the models that an agent's roles name, once per process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from videopro.backbones import Backbone, BackboneConfig, load_backbone, read_spec, without_address
from videopro.backbones.server import ServerBackbone, api_config
from videopro.backbones.wrappers import share_backbone
from videopro.errors import ConfigError, acquired
from videopro.methods.agents.models import AgentModel, ApiModel, BackboneModel, ServedModel

SELF = "self"


class ModelLoader:
    """Models by the name that a role gives them; equal names share one model. `backbone` is the run's own.
    Thread-safe.

    `load(config)` makes a backbone; tests pass their own.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        api_key_env: str | None = None,
        frames: int | None = None,
        pixels: int | None = None,
        load: Callable[[BackboneConfig], Backbone] = load_backbone,
    ) -> None:
        """`frames`: maximum frames per call of every model, `pixels`: maximum pixels of a frame for every
        one but the run's own; None: each model's own."""
        self.backbone = backbone
        self._api_key_env = api_key_env
        self._frames = frames
        self._pixels = pixels
        self._load = load
        self._models: dict[str, AgentModel] = {}
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> AgentModel:
        """The model that `name` names. Raises ConfigError for a malformed name, BackboneError for a model
        that cannot be loaded."""
        with acquired(self._lock):
            if name not in self._models:
                self._models[name] = self._make(name)
            return self._models[name]

    def _make(self, name: str) -> AgentModel:
        if name == SELF:
            return _around(self.backbone)
        config = read_role(name, self._api_key_env)
        config = config.but(**self._server_settings(config, name))
        if self._frames is not None:
            config = config.but(frames=self._frames)
        if self._pixels is not None:
            config = config.but(pixels=self._pixels)
        if name.startswith("api:"):
            return ApiModel(config)
        return _around(self._load(config))

    def _server_settings(self, config: BackboneConfig, name: str) -> dict[str, Any]:
        """The run's, for a server; a hosted endpoint, which limits its rate, keeps its own concurrency or a
        smaller one."""
        if config.kind != "server":
            return {}
        settings = self.backbone.server_settings
        is_api = name.startswith("api:")
        return settings.for_api(config.concurrency) if is_api else settings.as_settings()


def read_role(name: str, api_key_env: str | None = None) -> BackboneConfig:
    """The config of a model that is not "self". Raises ConfigError."""
    if not name or name == SELF:
        raise ConfigError(f"model {name!r}: name a backbone or api:MODEL@URL")
    settings = {} if api_key_env is None else {"api_key_env": api_key_env}
    if name.startswith("api:"):
        return api_config(name, "model", **settings)
    spec, adapter = split_role(name)
    if spec.startswith("server:"):
        return read_spec(spec, **settings, **adapter)
    return read_spec(spec, **adapter)


def split_role(name: str) -> tuple[str, dict[str, str]]:
    """The model that `name` names, as `--model` takes it, and the setting of the backbone that names its
    adapter, if it has one. Not for "self" and "api:"."""
    spec, plus, adapter = name.rpartition("+")
    # A folder's own name may contain a +.
    if not plus or not adapter or Path(name).exists():
        return name, {}
    return spec, {"adapter_model" if spec.startswith("server:") else "adapter": adapter}


def public_role(name: str) -> str:
    """The name without a server's address, which changes no answer; its adapter stays."""
    if name.startswith("api:"):
        return without_address(name)
    if name.startswith("server:"):
        spec, adapter = split_role(name)
        return "+".join([without_address(spec), *adapter.values()])
    return name


def _around(backbone: Backbone) -> AgentModel:
    if isinstance(backbone, ServerBackbone):
        return ServedModel(backbone)
    # Questions in flight make one request at a time each; served together, they are one batch.
    return BackboneModel(share_backbone(backbone))
