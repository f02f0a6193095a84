"""VCA: Video Curious Agent. A tree search over the segments of a video, guided by scores that the model gives
itself, with a fixed buffer of frames."""

from videopro.methods.vca.method import VcaMethod

__all__ = ["VcaMethod"]
