"""VideoPro: adaptive program reasoning for long video understanding."""

from videopro import starting as starting  # First: Ctrl-C has its line from here on.

# isort: split
from videopro import library_messages as library_messages

__version__ = "0.1.0"
