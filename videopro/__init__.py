"""VideoPro: adaptive program reasoning for long video understanding."""

from videopro import library_messages as library_messages

__version__ = "0.1.0"
