"""VCA: Video Curious Agent. A tree search over the segments of a video, guided by scores that the model gives
itself, with a fixed buffer of frames."""

from videopro.methods.vca.method import VcaMethod
from videopro.methods.vca.prompts import explore as explore_prompt
from videopro.methods.vca.prompts import reward as reward_prompt
from videopro.methods.vca.tree import MemoryBuffer, Node, Tree, borders, relevances

__all__ = [
    "MemoryBuffer",
    "Node",
    "Tree",
    "VcaMethod",
    "borders",
    "explore_prompt",
    "relevances",
    "reward_prompt",
]
