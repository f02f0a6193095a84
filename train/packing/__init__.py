"""Rows of several parts in one: their widths, and which of their tokens attend to which."""

from videopro.train.packing.attention import RowShape
from videopro.train.packing.masks import NO_BRANCH, PADDING, ROOT, dense_mask
from videopro.train.packing.widths import bucketed

__all__ = ["NO_BRANCH", "PADDING", "ROOT", "RowShape", "bucketed", "dense_mask"]
