"""VCA: Video Curious Agent. A tree search over the segments of a video, guided by scores that the model gives
itself, with a fixed buffer of frames."""

from videopro.methods.vca.agent import VcaMethod as VcaMethod
from videopro.methods.vca.agent import VcaSettings as VcaSettings
from videopro.methods.vca.tree import MemoryBuffer as MemoryBuffer
from videopro.methods.vca.tree import Node as Node
from videopro.methods.vca.tree import Tree as Tree
from videopro.methods.vca.tree import borders as borders
