"""Which tokens of a row with several parts attend to which: as a dense mask, and as a rule for FlexAttention.

A row has *segments* (the documents of a packed row, or the prompts about a video), and each may have
*branches* (the replies to a prompt), which do not see each other.
"""

from __future__ import annotations

from typing import Any

import torch

ROOT, NO_BRANCH, PADDING = -1, -1, -2
"""Values of `segments` and `branches`: of tokens that all segments see; of those that all branches of their
segment see; and of both in padding."""


def dense_mask(segments: torch.Tensor, branches: torch.Tensor) -> torch.Tensor:
    """The mask, (rows, 1, tokens, tokens) bool, of rows whose tokens have these segments and branches, both
    (rows, tokens): a token attends to earlier tokens of the root, of its own segment and of its own branch,
    and to itself."""
    width = segments.shape[1]
    before = torch.ones((width, width), dtype=torch.bool, device=segments.device).tril()
    segment, branch = segments[:, None, :], branches[:, None, :]
    same = (segments[:, :, None] == segment) & ((branch == NO_BRANCH) | (branches[:, :, None] == branch))
    return (before & ((segment == ROOT) | same))[:, None]


def block_mask(segments: torch.Tensor, branches: torch.Tensor) -> Any:
    """The same as a BlockMask of FlexAttention, which skips what nobody attends to."""
    from torch.nn.attention.flex_attention import create_block_mask

    def attends(row: Any, _head: Any, query: Any, key: Any) -> Any:
        segment, branch = segments[row, key], branches[row, key]
        same = (segments[row, query] == segment) & ((branch == NO_BRANCH) | (branches[row, query] == branch))
        return (query >= key) & ((segment == ROOT) | same)

    rows, width = segments.shape
    return create_block_mask(attends, rows, None, width, width, device=segments.device)
