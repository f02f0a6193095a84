"""VideoPro: adaptive program reasoning for long video understanding."""

from videopro import startup as startup  # First: Ctrl-C has its line from here on.

__version__ = "0.1.0"
