"""What a backbone would be, told without loading its weights: so that a run whose questions are all answered
can be told from another model's.

Knows the kinds of backbones by their own words; must not know runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from videopro.backbones.base import BackboneConfig

# A server that is only asked who it is answers soon, or is away.
_SECONDS = 10.0


def identify(config: BackboneConfig, recorded: Mapping[str, Any]) -> dict[str, object]:
    """What `load_backbone(config).identity()` would say. From `recorded`, a run's word on its own backbone,
    comes what only further requests to a server would tell. Raises ConfigError, and BackboneError where files
    are missing or broken or a server is away."""
    if config.kind == "server":
        from videopro.backbones.server.backbone import ServerBackbone

        server = ServerBackbone(config.but(retries=0, timeout=min(config.timeout, _SECONDS)))
        try:
            return server.identity(form=recorded.get("video"))
        finally:
            server.close()
    from videopro.backbones.qwen.load import checkpoint_facts, find_checkpoint

    return checkpoint_facts(config, find_checkpoint(config.model))
