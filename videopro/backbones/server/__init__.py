"""Models behind an OpenAI-compatible server.

A request takes this way: `backbone` asks, `messages` encodes frames (and `qwen_chat` chat messages), `fields`
has what else a body holds, `client` sends it over a `connection` and again after some `failures`,
`completion` parses the reply, and `replies` reads it. `profile` has what the server says of itself,
`served_record` what this machine has of its model, and `prompt_check` compares its prompts with ours.
"""

from videopro.backbones.server.backbone import ServerBackbone
from videopro.backbones.server.client import ChatClient, Endpoint, api_config
from videopro.backbones.server.completion import Completion
from videopro.backbones.server.drawn_tokens import DrawnTokens, TokenClient, TokenRequest
from videopro.backbones.server.failures import RequestRefused
from videopro.backbones.server.messages import (
    EncodedFrames,
    Messages,
    encode_frames,
    response_format,
    sent_size,
    user_message,
    visual_parts,
)
from videopro.backbones.server.prompt_check import difference
from videopro.backbones.server.replies import ServedReply, read_reply

__all__ = [
    "ChatClient",
    "Completion",
    "DrawnTokens",
    "EncodedFrames",
    "Endpoint",
    "Messages",
    "RequestRefused",
    "ServedReply",
    "ServerBackbone",
    "TokenClient",
    "TokenRequest",
    "api_config",
    "difference",
    "encode_frames",
    "read_reply",
    "response_format",
    "sent_size",
    "user_message",
    "visual_parts",
]
