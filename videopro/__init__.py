"""VideoPro: adaptive program reasoning for long video understanding."""

__version__ = "0.1.0"
