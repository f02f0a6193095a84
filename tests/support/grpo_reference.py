"""What GRPO's log-probabilities are, by transformers alone: its processor's prompt, its model's own
positions, one full row at a time."""

from __future__ import annotations

from typing import Any

import torch

from tests.support.sft_reference import _processed
from videopro.train.finetune import SFTRow
from videopro.train.rl import GRPORow


def expected(family: str, model: Any, processor: Any, row: GRPORow, reply: list[int]) -> torch.Tensor:
    """Log-probabilities of a reply by transformers alone: its processor's prompt, its own positions."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": row.before}] if row.before else []
    parts += [{"type": "video"}] if row.prompt_video else []
    turn = {"role": "user", "content": [*parts, {"type": "text", "text": row.prompt}]}
    turns = [turn] if row.system is None else [{"role": "system", "content": row.system}, turn]
    text = processor.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    shown = SFTRow(row.id, row.prompt, "", row.video if row.prompt_video else None)
    given = _processed(family, processor, text, shown)
    more = torch.tensor([reply])
    for name, new in (("input_ids", more), ("attention_mask", more * 0 + 1), ("mm_token_type_ids", more * 0)):
        given[name] = torch.cat([torch.as_tensor(given[name]), new], dim=1)
    logits = model(**given).logits[0, -len(reply) - 1 : -1]
    return logits.log_softmax(-1).gather(1, more.T)[:, 0]


def assert_gradients(found: Any, expected: Any) -> None:
    """Two models have the same gradients of trained weights, up to the order of sums."""
    theirs = dict(expected.named_parameters())
    for name, parameter in found.named_parameters():
        if parameter.requires_grad:
            wanted = theirs[name].grad
            wanted = torch.zeros_like(parameter) if wanted is None else wanted
            scale = float(wanted.abs().max()) + 1e-6
            torch.testing.assert_close(parameter.grad / scale, wanted / scale, atol=1e-4, rtol=1e-3, msg=name)
