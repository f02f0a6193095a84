"""The identity that a backbone would have, without loading its weights, to tell whether a finished run used
the same model."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from videopro.backbones.base import BackboneConfig
from videopro.backbones.own_models import MODELS

# A server that does not list its models within this time counts as unreachable.
_SECONDS = 10.0


def identify(config: BackboneConfig, recorded: Mapping[str, Any]) -> dict[str, object]:
    """What `load_backbone(config).identity()` would return. `recorded` is the identity that a run recorded;
    it supplies what would otherwise need further requests to a server. Raises ConfigError, and BackboneError
    if files are missing or broken or a server is unreachable."""
    if config.kind == "server":
        from videopro.backbones.server import ServerBackbone

        # One short try: a finished run can be reported without its server.
        server = ServerBackbone(config.but(retries=0, timeout=min(config.timeout, _SECONDS)))
        try:
            return server.identity(form=recorded.get("video"))
        finally:
            server.close()
    if config.kind == "own":
        with closing(MODELS[config.model].load(config)) as own:
            return own.identity()
    from videopro.backbones.qwen import checkpoint_identity, find_checkpoint

    return checkpoint_identity(config, find_checkpoint(config.model))
