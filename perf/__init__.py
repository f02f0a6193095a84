"""Scripts that measure speed, memory and structure; each runs as `python perf/NAME.py`."""
