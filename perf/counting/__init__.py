"""What `perf/house.py` counts: the parts of a checkout, by subject."""
