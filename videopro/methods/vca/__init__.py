"""VCA: Video Curious Agent. A tree search over the segments of a video, guided by scores that the model gives
itself, with a fixed buffer of frames."""

from videopro.methods.vca.agent import VcaMethod
from videopro.methods.vca.prompts import explore as explore_prompt
from videopro.methods.vca.prompts import reward as reward_prompt
from videopro.methods.vca.settings import VcaSettings
from videopro.methods.vca.tree import MemoryBuffer, Node, Tree, borders

__all__ = [
    "MemoryBuffer",
    "Node",
    "Tree",
    "VcaMethod",
    "VcaSettings",
    "borders",
    "explore_prompt",
    "reward_prompt",
]
