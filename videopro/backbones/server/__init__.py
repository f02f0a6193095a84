"""Models behind an OpenAI-compatible server."""

from videopro.backbones.server.backbone import ServerBackbone
from videopro.backbones.server.completion import Completion
from videopro.backbones.server.http import Endpoint, RequestRefused

__all__ = ["Completion", "Endpoint", "RequestRefused", "ServerBackbone"]
