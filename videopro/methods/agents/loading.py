"""Loads the models that an agent's roles name, once per process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from videopro.backbones import Backbone, BackboneConfig, load_backbone, read_spec
from videopro.backbones.server import ServerBackbone, api_config
from videopro.backbones.wrappers import BatchingBackbone
from videopro.errors import ConfigError
from videopro.methods.agents.api import ApiModel
from videopro.methods.agents.models import AgentModel, BackboneModel
from videopro.methods.agents.served import ServedModel

SELF = "self"


class ModelLoader:
    """Models by the name that a role gives them; equal names share one model. `backbone` is the run's own.

    `load(config)` makes a backbone; tests pass their own.
    """

    def __init__(
        self,
        backbone: Backbone,
        *,
        api_key_env: str | None = None,
        load: Callable[[BackboneConfig], Backbone] = load_backbone,
    ) -> None:
        self.backbone = backbone
        self._api_key_env = api_key_env
        self._load = load
        self._models: dict[str, AgentModel] = {}

    def __getitem__(self, name: str) -> AgentModel:
        """The model that `name` names. Raises ConfigError for a malformed name, BackboneError for a model
        that cannot be loaded."""
        if name not in self._models:
            self._models[name] = self._make(name)
        return self._models[name]

    def _make(self, name: str) -> AgentModel:
        if name == SELF:
            return _around(self.backbone)
        config = read_role(name, self._api_key_env)
        if name.startswith("api:"):
            return ApiModel(config)
        return _around(self._load(config))


def read_role(name: str, api_key_env: str | None = None) -> BackboneConfig:
    """The config of a model that is not "self". Raises ConfigError."""
    if not name or name == SELF:
        raise ConfigError(f"model {name!r}: name a backbone or api:MODEL")
    settings = {} if api_key_env is None else {"api_key_env": api_key_env}
    if name.startswith("api:"):
        return api_config(name.removeprefix("api:"), "model", **settings)
    spec, plus, adapter = name.rpartition("+")
    # A folder's own name may contain a +.
    if not plus or Path(name).exists():
        spec, adapter = name, ""
    if spec.startswith("server:"):
        return read_spec(spec, **settings, **({"adapter_model": adapter} if adapter else {}))
    return read_spec(spec, **({"adapter": adapter} if adapter else {}))


def public_role(name: str) -> str:
    """The name without a server's address, which changes no answer."""
    return name.partition("@")[0] if name.startswith(("api:", "server:")) else name


def _around(backbone: Backbone) -> AgentModel:
    if isinstance(backbone, ServerBackbone):
        return ServedModel(backbone)
    # Questions in flight make one request at a time each; served together, they are one batch.
    return BackboneModel(BatchingBackbone(backbone, adapter=None))
