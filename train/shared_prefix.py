"""A group's prompt once, its G replies behind it: the log-probabilities of G full rows from one row.

    prompt ... | last token of the prompt, reply 1 | last token of the prompt, reply 2 | ...

Every reply sees the prompt and itself and no other reply (a tree of attention), at the positions that it has
in a row of its own, so its log-probabilities and their gradients are those of the full rows, and the group
costs prompt + G replies instead of G x (prompt + reply). One ordinary forward pass, so gradient
checkpointing, DDP and DeepSpeed take it as any other. The prompt's last token leads every branch since it
predicts the first token of each reply.

Needs an attention that takes any mask (sdpa) and layers that attend: a recurrent layer has one state
along the row. Knows token ids and tensors; must not know losses or trainers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from train.grpo_prompts import Prompt
from videopro.backbones.qwen_features import visual_inputs
from videopro.backbones.qwen_run import QwenRun
from videopro.errors import ConfigError

IGNORED = -100


@dataclass(frozen=True)
class Packed:
    """Groups as the model takes them, one row a group, padded on the right."""

    inputs: dict[str, torch.Tensor]
    """`input_ids`, `mm_token_type_ids` (groups, tokens), `attention_mask` (groups, 1, tokens, tokens) bool,
    `position_ids` (4, groups, tokens), visual inputs, and `shift_labels` (groups, tokens): at each place the
    token that follows it in its reply, `IGNORED` in prompts and padding."""
    rows: torch.Tensor
    """(replies,): in which row each reply is, in the order in which the replies were given."""
    starts: torch.Tensor
    """(replies,): where in the row its first token is predicted."""

    def unpack(self, packed: torch.Tensor, lengths: torch.Tensor, width: int) -> torch.Tensor:
        """Values at each place, (groups, tokens), as a value a token of each reply, (replies, width); 0
        behind the end of a reply (`lengths`, (replies,))."""
        places = torch.arange(width, device=packed.device)
        at = (self.starts[:, None] + places).clamp(max=packed.shape[1] - 1)
        return packed[self.rows[:, None], at].masked_fill(places >= lengths[:, None], 0)


def check_shareable(run: QwenRun) -> None:
    """Raise ConfigError for a model on which replies cannot share their prompt's pass."""
    attention = run.model.config._attn_implementation
    if run.is_recurrent:
        raise ConfigError(
            "shared_prompt is true and some layers of this model carry a state along the tokens, which "
            "replies cannot share; give shared_prompt: false"
        )
    if attention != "sdpa":
        raise ConfigError(
            f"shared_prompt is true and attention is {attention!r}, which takes no mask of our own; give "
            "attn_implementation: sdpa, or shared_prompt: false"
        )


def pack(prompts: Sequence[Prompt], replies: Sequence[Sequence[int]], *, pad: int, run: QwenRun) -> Packed:
    """The replies, each to the prompt of the same place; those to one prompt (the same object) in one row."""
    groups: dict[int, list[int]] = {}
    for number, prompt in enumerate(prompts):
        groups.setdefault(id(prompt), []).append(number)
    shown = [prompts[numbers[0]] for numbers in groups.values()]
    lengths = [
        len(prompt.encoded.ids) - 1 + sum(len(replies[n]) for n in numbers)
        for prompt, numbers in zip(shown, groups.values(), strict=True)
    ]
    # On the host, since every piece is small; moved to the device in one go.
    shape = (len(shown), max(lengths))
    ids = torch.full(shape, pad)
    types, places = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
    positions = torch.zeros((3, *shape), dtype=torch.long)
    labels = torch.full(shape, IGNORED)
    branches = torch.full(shape, _PADDING)
    rows, starts = [0] * len(replies), [0] * len(replies)
    for row, (prompt, numbers) in enumerate(zip(shown, groups.values(), strict=True)):
        *head, last = prompt.encoded.ids
        at = len(head)
        ids[row, :at] = torch.tensor(head)
        types[row, :at] = torch.tensor(prompt.encoded.types[:-1])
        places[row, :at] = torch.arange(at)
        positions[:, row, :at] = prompt.positions[:, :-1].cpu()
        branches[row, :at] = _PROMPT
        for number in numbers:
            reply = replies[number]
            end = at + len(reply)
            rows[number], starts[number] = row, at
            ids[row, at:end] = torch.tensor([last, *reply[:-1]][: len(reply)])
            labels[row, at:end] = torch.tensor(list(reply), dtype=torch.long)
            places[row, at:end] = len(head) + torch.arange(len(reply))
            positions[:, row, at:end] = prompt.following - 1 + torch.arange(len(reply))
            branches[row, at:end] = number
            at = end
    device = run.device
    position_ids = torch.cat([places[None], positions])
    made = {
        "input_ids": ids,
        "mm_token_type_ids": types,
        "position_ids": position_ids,
        "shift_labels": labels,
    }
    inputs = {name: one.to(device) for name, one in made.items()}
    inputs["attention_mask"] = _tree(branches.to(device))
    inputs |= visual_inputs([prompt.encoded for prompt in shown], device)
    return Packed(inputs, torch.tensor(rows, device=device), torch.tensor(starts, device=device))


_PROMPT, _PADDING = -1, -2


def _tree(branches: torch.Tensor) -> torch.Tensor:
    """Who sees whom, (rows, 1, tokens, tokens): what comes before, in the prompt or the own reply. Padding
    sees the prompt and itself, since a softmax over nothing is no number."""
    width = branches.shape[1]
    before = torch.ones((width, width), dtype=torch.bool, device=branches.device).tril()
    theirs = branches[:, None, :]
    seen = before & ((theirs == _PROMPT) | (branches[:, :, None] == theirs))
    return seen[:, None]
