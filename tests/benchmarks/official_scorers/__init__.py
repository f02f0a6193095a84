"""Our scores of 1,000 replies beside those of the official code: see `official_scores.py`."""
