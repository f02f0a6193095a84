"""Seeds that are made of several numbers."""

from __future__ import annotations

import numpy as np


def mix_seed(*key: int) -> int:
    """Combine several numbers into one seed of 63 bits."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> 1)
