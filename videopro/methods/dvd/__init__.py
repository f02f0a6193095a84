"""Deep Video Discovery: a multi-granular database of a video, and an agent that searches in it with tools."""

from videopro.methods.dvd.method import DvdMethod

__all__ = ["DvdMethod"]
