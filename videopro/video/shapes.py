"""The shapes of pictures that models are given: one rule, which stands before every model.

A model's own preprocessing fails on pictures of odd shapes: Qwen's resizing refuses what is more than 200
times as long as wide (also after it rounded to whole patches), detectors and OCR models scale a strip to a
height of 0, and libraries take a picture of up to 4 rows for one with its channels first. So a picture with
a side below `LEAST_SIDE`, or longer than `LARGEST_RATIO` times its other side, gets a black margin at its
right or lower edge: pixels keep their coordinates. No other picture changes.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

LEAST_SIDE = 16
"""Pixels. Hosted models refuse pictures of up to 10."""
LARGEST_RATIO = 100
"""The longer side over the shorter one: half of what Qwen's processors take, because they round a side down
to whole patches, to half of it at worst."""
LARGEST_SIDE = 16_384
"""Pixels to which a frame may be scaled."""

Size: TypeAlias = tuple[int, int]
"""Height and width in pixels."""


def padded_size(height: int, width: int, *, ratio: int = LARGEST_RATIO) -> Size:
    """The size of a picture of (height, width) pixels with its margin; the same size if it needs none.
    `ratio`: the largest one, for a model that takes less."""
    least = max(LEAST_SIDE, math.ceil(max(height, width) / ratio))
    return max(height, least), max(width, least)


def pad_picture(image: np.ndarray, *, ratio: int = LARGEST_RATIO) -> np.ndarray:
    """A (height, width, channels) picture with the margin that it needs; itself if it needs none."""
    height, width = image.shape[:2]
    tall, wide = padded_size(height, width, ratio=ratio)
    if (tall, wide) == (height, width):
        return image
    return np.pad(image, ((0, tall - height), (0, wide - width), (0, 0)))


def without_margin(
    box: tuple[float, float, float, float], image: np.ndarray, padded: np.ndarray
) -> tuple[float, float, float, float]:
    """A box (x0, y0, x1, y1) in fractions of `padded`, which is `image` with its margin, as fractions of
    `image`. A box that reaches into the margin reaches beyond 1."""
    (height, width), (tall, wide) = image.shape[:2], padded.shape[:2]
    x0, y0, x1, y1 = box
    return x0 * wide / width, y0 * tall / height, x1 * wide / width, y1 * tall / height


def size_to_decode(height: int, width: int, scaled: Size) -> Size:
    """The size at which frames of (height, width) pixels are decoded for a model that scales them to
    `scaled`: their own if they need a margin, which must be there before they are scaled, or if `scaled` is
    too large for a frame; their own size too is scaled down to LARGEST_SIDE."""
    if padded_size(height, width) == (height, width) and max(scaled) <= LARGEST_SIDE:
        return scaled
    factor = min(1.0, LARGEST_SIDE / max(height, width))
    return max(1, round(height * factor)), max(1, round(width * factor))
