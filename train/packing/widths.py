"""The widths of training batches: few, where every new one costs a plan.

On a GPU, cuDNN makes a plan of each attention that it has not seen, by batch and length, which takes about as
long as a training step, and FlexAttention compiles a kernel. In real rows nearly every batch has another
length.
"""

from __future__ import annotations

_PER_OCTAVE = 8
"""The widths between a power of two and the next, where they are further apart than `least`."""


def bucketed(width: int, *, least: int) -> int:
    """The next width at which a batch is made: a multiple of `least` (a power of two), and of an eighth of
    the power of two below it. So at most an eighth of a row is padding, or `least` tokens."""
    step = least
    # A width on a power of two belongs to the octave that it ends.
    while step * 2 * _PER_OCTAVE < width:
        step *= 2
    return -(-width // step) * step
