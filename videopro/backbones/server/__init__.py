"""Models behind an OpenAI-compatible server.

A request takes this way: `backbone` asks, `messages` encodes frames (and `qwen_chat` chat messages), `fields`
has what else a body holds, `client` sends it over a `connection` and again after some `failures`,
`completion` parses the reply, and `replies` reads it. `profile` has what the server says of itself,
`served_record` what this machine has of its model, and `prompt_check` compares its prompts with ours.
"""

from videopro.backbones.server.backbone import ServerBackbone as ServerBackbone
from videopro.backbones.server.client import ChatClient as ChatClient
from videopro.backbones.server.client import Endpoint as Endpoint
from videopro.backbones.server.client import api_config as api_config
from videopro.backbones.server.drawn_tokens import DrawnTokens as DrawnTokens
from videopro.backbones.server.drawn_tokens import TokenClient as TokenClient
from videopro.backbones.server.drawn_tokens import TokenRequest as TokenRequest
from videopro.backbones.server.failures import RequestRefused as RequestRefused
from videopro.backbones.server.messages import EncodedFrames as EncodedFrames
from videopro.backbones.server.messages import Messages as Messages
from videopro.backbones.server.messages import encode_frames as encode_frames
from videopro.backbones.server.messages import response_format as response_format
from videopro.backbones.server.messages import sent_size as sent_size
from videopro.backbones.server.messages import user_message as user_message
from videopro.backbones.server.messages import visual_parts as visual_parts
from videopro.backbones.server.prompt_check import difference as difference
from videopro.backbones.server.replies import Completion as Completion
from videopro.backbones.server.replies import ServedReply as ServedReply
from videopro.backbones.server.replies import read_reply as read_reply
