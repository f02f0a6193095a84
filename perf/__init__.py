"""Scripts that measure speed, memory and structure; each runs as `python -m perf.NAME`."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""
