"""Models behind an OpenAI-compatible server."""

from videopro.backbones.server.backbone import ServerBackbone
from videopro.backbones.server.chat_client import ChatClient, api_config
from videopro.backbones.server.completion import Completion
from videopro.backbones.server.http import Endpoint, RequestRefused
from videopro.backbones.server.messages import encode_frames, sent_size, visual_parts
from videopro.backbones.server.schemas import response_format

__all__ = [
    "ChatClient",
    "Completion",
    "Endpoint",
    "RequestRefused",
    "ServerBackbone",
    "api_config",
    "encode_frames",
    "response_format",
    "sent_size",
    "visual_parts",
]
