"""Models behind an OpenAI-compatible server."""

from videopro.backbones.server.backbone import ServerBackbone
from videopro.backbones.server.chat_client import ChatClient, api_config
from videopro.backbones.server.completion import Completion
from videopro.backbones.server.http import Endpoint, RequestRefused
from videopro.backbones.server.messages import encode_frames, sent_size, visual_parts
from videopro.backbones.server.schemas import response_format
from videopro.backbones.server.spoken_reply import ServedReply, read_reply

__all__ = [
    "ChatClient",
    "Completion",
    "Endpoint",
    "RequestRefused",
    "ServedReply",
    "ServerBackbone",
    "api_config",
    "encode_frames",
    "read_reply",
    "response_format",
    "sent_size",
    "visual_parts",
]
