"""Models behind an OpenAI-compatible server.

A request takes this way: `backbone` asks, `messages` encodes frames and writes a request's body, `endpoint`
sends it, and `replies` reads the reply. `clients` ask without a backbone. `profile` has what the server says
of itself and what this machine has of its model, and `prompt_check` compares its prompts with ours.
"""

from videopro.backbones.server.backbone import ServerBackbone as ServerBackbone
from videopro.backbones.server.clients import ChatClient as ChatClient
from videopro.backbones.server.clients import DrawnTokens as DrawnTokens
from videopro.backbones.server.clients import TokenClient as TokenClient
from videopro.backbones.server.clients import TokenRequest as TokenRequest
from videopro.backbones.server.clients import api_config as api_config
from videopro.backbones.server.endpoint import Endpoint as Endpoint
from videopro.backbones.server.endpoint import RequestRefused as RequestRefused
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
