"""The GPU check: what `perf/gpu.py` runs, part by part, on one device."""
