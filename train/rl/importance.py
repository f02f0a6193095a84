"""The importance ratio between the policy in the update and what drew its replies.

An engine computes what the update computes with other kernels, in another precision: the probabilities of a
token differ a little. Of replies that were written ahead (`rounds`), the weights do too. TRL corrects the
loss of its own vLLM by this ratio, for which it runs the policy once more over all replies. While each reply
is used once, the update's own pass has the same weights, and gives it for free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class ImportanceRatio:
    """The ratio, and what is logged of it."""

    values: torch.Tensor
    """By TRL's setting `vllm_importance_sampling_mode`: (rows, tokens), or (rows, 1) of whole replies;
    truncated, or 0 where it is out of bounds."""
    raw: torch.Tensor
    """Of each token of a reply, (all tokens), as it is."""
    differences: torch.Tensor
    """Of the log-probabilities of each token, (all tokens)."""


def importance_ratio(
    policy: torch.Tensor, drawn: torch.Tensor, mask: torch.Tensor, settings: Any
) -> ImportanceRatio:
    """`policy` and `drawn`: the log-probabilities of replies, (rows, tokens), by the update (or, where a
    reply is used several times, by the policy before the first one) and as they were drawn; `mask`, 1 for
    their tokens; `settings`, TRL's."""
    differences = torch.nan_to_num((policy - drawn) * mask, nan=0.0)
    of_reply = settings.vllm_importance_sampling_mode.startswith("sequence")
    ratio = (differences.sum(-1, keepdim=True) if of_reply else differences).exp()
    low, high = settings.vllm_importance_sampling_clip_min, settings.vllm_importance_sampling_clip_max
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    if settings.vllm_importance_sampling_mode.endswith("truncate"):
        values = ratio.clamp(low, high)
    else:
        values = ratio.masked_fill((ratio < low) | (ratio > high), 0.0)
    chosen = differences[mask.bool()]
    return ImportanceRatio(values, chosen.exp(), chosen.abs())
