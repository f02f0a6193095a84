"""Rollouts of one or several turns, each turn with its own prompt.

As in inference, a refinement prompt begins with the video and shows the program to fix
(`videopro.question.prompts`); it does not continue the first reply. For the loss, a two-turn rollout is one
completion: the tokens of both replies. For the model, it is two conversations: each reply is sampled and
scored after its own prompt, and prompt tokens have no loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from videopro.backbones.qwen import SampledReply
from videopro.train.rl.prompt_encoder import PolicyPrompt


@dataclass(frozen=True, eq=False)
class Rollout:
    """The prompts of a rollout, in order, and the lengths in tokens of all replies but the last."""

    prompts: tuple[PolicyPrompt, ...]
    lengths: tuple[int, ...] = ()

    def replies(self, completion: Sequence[int]) -> list[list[int]]:
        """Split a completion into the reply to each prompt. A truncated completion gives what is left."""
        remaining, replies = list(completion), []
        for length in self.lengths:
            replies.append(remaining[:length])
            remaining = remaining[length:]
        return [*replies, remaining]


@dataclass(frozen=True)
class Turns:
    """The turns of all rollouts of a batch, concatenated."""

    roots: list[PolicyPrompt]
    """For each turn, the first prompt of its rollout, or its own if the two begin differently: only prompts
    with the same head share a pass."""
    prompts: list[PolicyPrompt]
    replies: list[list[int]]
    rows: list[int]
    """For each turn, the index of its rollout."""
    starts: list[int]
    """For each turn, the offset of its reply in the completion."""

    @classmethod
    def of(cls, rollouts: Sequence[Rollout], ids: torch.Tensor, mask: torch.Tensor) -> Turns:
        """The turns of completions: `ids` and `mask`, (rows, tokens), padded on the right."""
        turns = cls([], [], [], [], [])
        completions = zip(rollouts, ids.tolist(), mask.sum(-1).tolist(), strict=True)
        for row, (rollout, completion, length) in enumerate(completions):
            start = 0
            for prompt, reply in zip(rollout.prompts, rollout.replies(completion[:length]), strict=True):
                first = rollout.prompts[0]
                turns.roots.append(first if prompt.begins_as(first) else prompt)
                turns.prompts.append(prompt)
                turns.replies.append(reply)
                turns.rows.append(row)
                turns.starts.append(start)
                start += len(reply)
        return turns

    def joined(self, values: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
        """Convert values per turn, (turns, longest reply), to values per completion, (rows, tokens), with 0
        in padding."""
        if len(self.rows) == shape[0]:
            # One turn per row: only the width may differ.
            return torch.nn.functional.pad(values, (0, shape[1] - values.shape[1]))
        turns = [turn for turn, reply in enumerate(self.replies) for _ in reply]
        offsets = [offset for reply in self.replies for offset in range(len(reply))]
        rows = [row for row, reply in zip(self.rows, self.replies, strict=True) for _ in reply]
        columns = [
            start + offset
            for start, reply in zip(self.starts, self.replies, strict=True)
            for offset in range(len(reply))
        ]
        at = (torch.tensor(rows, dtype=torch.long), torch.tensor(columns, dtype=torch.long))
        return values.new_zeros(shape).index_put(
            tuple(index.to(values.device) for index in at), values[turns, offsets]
        )

    def padded(self, pad: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, int]:
        """One row per turn: ids and mask, (turns, tokens), with prompts padded on the left and replies on the
        right, and the width of the replies' part."""
        before = max(len(prompt.encoded.ids) for prompt in self.prompts)
        width = max(map(len, self.replies))
        ids = torch.full((len(self.prompts), before + width), pad)
        mask = torch.zeros_like(ids)
        for row, (prompt, reply) in enumerate(zip(self.prompts, self.replies, strict=True)):
            tokens = torch.tensor([*prompt.encoded.ids, *reply], dtype=torch.long)
            start = before - len(prompt.encoded.ids)
            ids[row, start : start + len(tokens)] = tokens
            mask[row, start : start + len(tokens)] = 1
        return ids.to(device), mask.to(device), width


def reply_ids(reply: SampledReply) -> list[int]:
    """The reply's token ids, including the one that ended it."""
    return reply.ids if reply.end is None else [*reply.ids, reply.end[0]]


def reply_logprobs(reply: SampledReply) -> list[float]:
    """The log-probability of each of them."""
    return reply.logprobs if reply.end is None else [*reply.logprobs, reply.end[1]]
