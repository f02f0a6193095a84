"""(c) The update of one group, its prompt shared by the replies or run with each, and its attention."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from perf.battery.cases import Bench, Case, Figures, Skip
from perf.battery.measuring import now, on_gpu, peak_gib, reset_peak
from perf.battery.reinforcing import group_of, train, turns_of

TITLE = "Update of one group: forward and backward over its replies"


def cases(bench: Bench) -> list[Case]:
    return [
        Case(
            f"{tokens} tokens, prompt {how}",
            partial(update, bench, tokens, shared),
        )
        for tokens in bench.shapes.packed
        for how, shared in (("shared", True), ("with each", False))
    ]


def update(bench: Bench, tokens: int, shared: bool) -> Figures:
    """Three passes, of which the last counts; on a CPU one."""
    if not shared and bench.shapes.name == "2b":
        raise Skip("takes as many times as long as there are replies; SHAPES=tiny and 8b have it")
    trainer = train(bench, longest=4)
    model: Any = trainer.model
    draw = torch.Generator().manual_seed(0)
    rows = group_of(trainer)
    replies = torch.randint(0, trainer._tokenizer.vocab_size, (len(rows), tokens), generator=draw).tolist()
    turns = turns_of(trainer, rows, replies)
    score = trainer._score_shared_prefix if shared else trainer._score_separately
    model.train()
    reset_peak()
    seconds = []
    for _ in range(3 if on_gpu() else 1):
        began = now()
        values, _, _ = score(model, turns, False)
        forward = now() - began
        (-values.mean()).backward()
        seconds.append((forward, now() - began))
        model.zero_grad()
    peak = peak_gib()
    forward, total = seconds[-1]
    return {
        "update_s": round(total, 3),
        "forward_s": round(forward, 3),
        "peak_gib": peak,
        "prompt_tokens": len(turns.prompts[0].encoded.ids),
        "replies": len(replies),
        "attention": attention_kernels(lambda: score(model, turns, False)),
    }


def attention_kernels(run: Any) -> str:
    """The attention operators that a pass calls, as torch names them."""
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu() else [])]
    with torch.no_grad(), profile(activities=kinds) as seen:
        run()
    names = {event.key for event in seen.key_averages()}
    kernels = {
        name.removeprefix("aten::_scaled_dot_product_")
        for name in names
        if name.startswith("aten::_scaled_dot_product_")
    }
    if any("flex_attention" in name for name in names):
        kernels.add("flex_attention")
    return ", ".join(sorted(kernels)) or "none of torch's fused or plain attention operators"
