"""(e) Log-probabilities of the same replies: from sampling, from the packed pass, from a row of their own."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from perf.battery.cases import Bench, Case, Figures
from perf.battery.reinforcing import group_of, train, turns_of
from videopro.backbones import Sampling
from videopro.backbones.qwen import SampledReply

TITLE = "Log-probabilities of sampled replies, three ways"
CLIP = 0.2
"""GRPO's epsilon: a ratio of probabilities beyond 1 +- CLIP is clipped."""


def cases(bench: Bench) -> list[Case]:
    return [Case(f"{tokens} tokens", partial(compare, bench, tokens)) for tokens in bench.shapes.packed]


def compare(bench: Bench, tokens: int) -> Figures:
    """Differences per token, natural logarithms."""
    trainer = train(bench, longest=4)
    model: Any = trainer.model
    rows = group_of(trainer)
    assert trainer._prompt_encoder is not None
    prompts = trainer._prompt_encoder.encode(rows)
    run = trainer._run
    model.eval()
    with trainer._weights_for_sampling():
        state = run.fork(run.start([prompts[0].encoded]), [0] * len(rows))
        replies: dict[int, SampledReply] = {}
        run.generate(
            state,
            Sampling(tokens, temperature=1.0, seed=0),
            [(0, row) for row in range(len(rows))],
            # None ends early: every reply has as many tokens.
            banned=[*trainer.banned, *trainer.eos_token_ids],
            on_reply=replies.__setitem__,
        )
    written = [replies[row] for row in range(len(rows))]
    turns = turns_of(trainer, rows, [reply.ids for reply in written])
    model.train()
    with torch.no_grad():
        packed = trainer._score_shared_prefix(model, turns, False)[0].float().cpu()
        apart = trainer._score_separately(model, turns, False)[0].float().cpu()
    sampled = torch.tensor([reply.logprobs for reply in written])
    return {
        **_difference("packed_sampled", packed, sampled),
        **_difference("apart_sampled", apart, sampled),
        **_difference("packed_apart", packed, apart),
    }


def _difference(name: str, one: torch.Tensor, other: torch.Tensor) -> Figures:
    gap = one - other
    clipped = (gap.exp() - 1).abs() > CLIP
    return {
        f"{name}_mean": float(f"{gap.abs().mean():.3g}"),
        f"{name}_max": float(f"{gap.abs().max():.3g}"),
        f"{name}_clipped": round(float(clipped.float().mean()), 4),
    }
