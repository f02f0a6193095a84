"""What a training row and a reply's log-probabilities are, by transformers alone: its processor on the
conversation, its model's own loss. None of our code for prompts, batches or losses is used; videos are
decoded by ours at the size and the times that the paper's protocol says (midpoints of equal parts)."""

import functools
from typing import Any

import torch

from tests.support import sft_world as world
from tests.support.qwen_models import FAMILIES, processed, reference
from tests.support.sft_world import FRAMES
from videopro.train.finetune import SFTRow
from videopro.train.rl import GRPORow
from videopro.video import Video

RATE = 0.05
PLAIN = {"optim": "sgd", "max_steps": 1, "learning_rate": RATE, "max_grad_norm": 0.0, "weight_decay": 0.0}
"""Settings with which a step is the gradient times the rate."""
EVERYTHING = {"vision": "trained", "projector": "trained"}


def conversation(family: str, processor: Any, row: SFTRow) -> dict[str, Any]:
    """The row as the processor makes it of both turns, without the line break behind the last one, and with
    `labels` on the reply and the token that ends it."""
    asked = _asked(row, row.video is not None)
    turns = [*asked, {"role": "assistant", "content": [{"type": "text", "text": row.reply}]}]
    whole = _processed(family, processor, processor.apply_chat_template(turns, tokenize=False), row)
    prompt = processor.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    start = _processed(family, processor, prompt, row)["input_ids"].shape[1]
    for name in ("input_ids", "attention_mask", "mm_token_type_ids"):
        whole[name] = whole[name][:, :-1]
    assert int(whole["input_ids"][0, -1]) == processor.tokenizer.convert_tokens_to_ids("<|im_end|>")
    whole["labels"] = whole["input_ids"].clone()
    whole["labels"][:, :start] = -100
    return whole


def _asked(row: SFTRow | GRPORow, shows_video: bool) -> list[dict[str, Any]]:
    """The turns before the reply."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": row.before}] if row.before else []
    parts += [{"type": "video"}] if shows_video else []
    user = {"role": "user", "content": [*parts, {"type": "text", "text": row.prompt}]}
    return [user] if row.system is None else [{"role": "system", "content": row.system}, user]


def _processed(family: str, processor: Any, text: str, row: SFTRow) -> dict[str, Any]:
    if row.video is None:
        return dict(processed(family, processor, None, text))
    opened = Video.open(row.video)
    middles = [(i + 0.5) * opened.duration / FRAMES for i in range(FRAMES)]
    return dict(processed(family, processor, opened.frames(middles, size=size_of(family, row)), text))


def size_of(family: str, row: SFTRow) -> tuple[int, int]:
    """(height, width) of the row's frames: at most 4,096 pixels, both sides multiples of 28 or 32."""
    assert row.video is not None
    step = 2 * FAMILIES[family].patch
    height, width = (2, 2) if row.video.name == "b.mp4" else (1, 3 if step == 28 else 2)
    return height * step, width * step


def own_loss(model: Any, row: dict[str, Any]) -> tuple[torch.Tensor, int]:
    """The model's own mean loss of a row, and over how many tokens."""
    tokens = int((row["labels"][:, 1:] != -100).sum())
    return model(**row).loss, tokens


def expected_step(family: str, chosen: list[int]) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss and the weights after a step by transformers alone: the mean over all tokens."""
    return _expected_step(family, tuple(chosen))


@functools.cache
def _expected_step(family: str, chosen: tuple[int, ...]) -> tuple[float, dict[str, torch.Tensor]]:
    model, processor = reference(family)
    total, summed = 0, torch.zeros(())
    for number in chosen:
        loss, tokens = own_loss(model, conversation(family, processor, world.rows()[number]))
        summed, total = summed + loss * tokens, total + tokens
    (summed / total).backward()
    with torch.no_grad():
        after = {
            name: weight - RATE * (weight.grad if weight.grad is not None else 0)
            for name, weight in model.named_parameters()
        }
    return float(summed.detach() / total), after


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """To 2e-5 where gradients of a step reach 1: fp32 sums in another order."""
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(found[name].detach(), weight, atol=2e-5, rtol=1e-4, msg=name)


def expected_logprobs(
    family: str, model: Any, processor: Any, row: GRPORow, reply: list[int]
) -> torch.Tensor:
    """Log-probabilities of a reply by transformers alone: its processor's prompt, its own positions."""
    turns = _asked(row, row.prompt_video)
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
