"""What a completion is made of: a reply, or the replies of several turns, each to a prompt of its own.

As in inference, a refinement has a prompt of its own, which begins with the video and shows the program to
fix (`videopro.prompts`); it does not continue the first reply. A rollout of two turns is one
completion to the loss, made of the tokens that the policy wrote in both, and two conversations to the model:
each reply is sampled and scored behind its own prompt, and no token of a prompt has a loss. Knows token ids
and tensors; must not know losses, rewards or trainers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from videopro.train.rl.data import chat
from videopro.train.rl.prompts import PolicyPrompt


@dataclass(frozen=True, eq=False)
class Rollout:
    """One row: `prompts` in turn, and how many tokens the replies to all but the last took."""

    prompts: tuple[PolicyPrompt, ...]
    lengths: tuple[int, ...] = ()

    def replies(self, completion: Sequence[int]) -> list[list[int]]:
        """The reply to each prompt. Of a completion that was cut (by a mask on truncated ones), what is
        left."""
        rest, found = list(completion), []
        for length in self.lengths:
            found.append(rest[:length])
            rest = rest[length:]
        return [*found, rest]


@dataclass(frozen=True)
class Turns:
    """The turns of a batch's rollouts, one after another."""

    roots: list[PolicyPrompt]
    """The first prompt of each turn's rollout."""
    prompts: list[PolicyPrompt]
    replies: list[list[int]]
    rows: list[int]
    """In which rollout each turn is."""
    starts: list[int]
    """Where in its completion each reply begins."""

    @classmethod
    def of(cls, rollouts: Sequence[Rollout], ids: torch.Tensor, mask: torch.Tensor) -> Turns:
        """Of completions, (rows, tokens) with a mask, padded on the right."""
        made = cls([], [], [], [], [])
        told = zip(rollouts, ids.tolist(), mask.sum(-1).tolist(), strict=True)
        for row, (rollout, completion, length) in enumerate(told):
            start = 0
            for prompt, reply in zip(rollout.prompts, rollout.replies(completion[:length]), strict=True):
                made.roots.append(rollout.prompts[0])
                made.prompts.append(prompt)
                made.replies.append(reply)
                made.rows.append(row)
                made.starts.append(start)
                start += len(reply)
        return made

    def joined(self, values: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
        """Values by turn, (turns, longest reply), as values by completion, (rows, tokens); 0 in padding."""
        if len(self.rows) == shape[0]:
            # A turn a row: only the width may differ.
            return torch.nn.functional.pad(values, (0, shape[1] - values.shape[1]))
        turns = [turn for turn, reply in enumerate(self.replies) for _ in reply]
        places = [place for reply in self.replies for place in range(len(reply))]
        rows = [row for row, reply in zip(self.rows, self.replies, strict=True) for _ in reply]
        columns = [
            start + place
            for start, reply in zip(self.starts, self.replies, strict=True)
            for place in range(len(reply))
        ]
        at = (torch.tensor(rows, dtype=torch.long), torch.tensor(columns, dtype=torch.long))
        return values.new_zeros(shape).index_put(
            tuple(index.to(values.device) for index in at), values[turns, places]
        )

    def padded(self, pad: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, int]:
        """Each turn as a row of its own: ids and mask, (turns, tokens), prompts padded on the left and
        replies on the right, and how many places are the replies'."""
        before = max(len(prompt.encoded.ids) for prompt in self.prompts)
        width = max(map(len, self.replies))
        ids = torch.full((len(self.prompts), before + width), pad)
        mask = torch.zeros_like(ids)
        for row, (prompt, reply) in enumerate(zip(self.prompts, self.replies, strict=True)):
            whole = torch.tensor([*prompt.encoded.ids, *reply], dtype=torch.long)
            start = before - len(prompt.encoded.ids)
            ids[row, start : start + len(whole)] = whole
            mask[row, start : start + len(whole)] = 1
        return ids.to(device), mask.to(device), width


def conversation(reply: str, prompt: str, refined: str) -> list[dict[str, str]]:
    """A rollout of two turns as messages: a reply, the prompt that followed it, the reply to that."""
    return [
        {"role": "assistant", "content": reply},
        *chat(prompt),
        {"role": "assistant", "content": refined},
    ]
