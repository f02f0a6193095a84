"""Packs a group's prompt once with its G replies: the log-probabilities of G full rows from a single row.

    video, prompt ... | last token of the prompt, reply 1 | last token of the prompt, reply 2 | ...
                      | another prompt about the video ... | last token of it, reply 3 | ...

Every reply attends to its prompt and itself but to no other reply (tree attention), at the positions that it
has in a separate row. Its log-probabilities and gradients therefore equal those of the full rows, and the
group costs prompt + G replies instead of G x (prompt + reply). It is one ordinary forward pass, so gradient
checkpointing, DDP and DeepSpeed work as usual. The prompt's last token starts every branch because it
predicts the first token of each reply.

Needs an attention implementation that takes any mask (sdpa) and attention layers only: a recurrent layer has
a single state along the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from videopro.backbones.qwen import QwenRunner, visual_inputs
from videopro.train.packing import NO_BRANCH, PADDING, ROOT, RowShape
from videopro.train.rl.prompt_encoder import PolicyPrompt

IGNORE_INDEX = -100
_LEAST_WIDTH = 256


@dataclass(frozen=True)
class PackedBatch:
    """Groups as model inputs, one row per group, padded on the right."""

    inputs: dict[str, Any]
    """`input_ids`, `mm_token_type_ids` (groups, tokens), `attention_mask` (groups, 1, tokens, tokens), bool
    or a BlockMask, `position_ids` (4, groups, tokens), visual inputs, and `shift_labels` (groups, tokens):
    at each place the next token of its reply, `IGNORE_INDEX` in prompts and padding."""
    rows: torch.Tensor
    """(replies,): the row of each reply, in their order."""
    starts: torch.Tensor
    """(replies,): the place in the row at which the reply's first token is predicted."""

    def unpack(self, packed: torch.Tensor, lengths: torch.Tensor, width: int) -> torch.Tensor:
        """Values per place, (groups, tokens), as values per token of each reply, (replies, width); 0 after
        the end of a reply (`lengths`, (replies,))."""
        offsets = torch.arange(width, device=packed.device)
        at = (self.starts[:, None] + offsets).clamp(max=packed.shape[1] - 1)
        return packed[self.rows[:, None], at].masked_fill(offsets >= lengths[:, None], 0)


def pack(
    prompts: Sequence[PolicyPrompt],
    replies: Sequence[Sequence[int]],
    *,
    pad: int,
    run: QwenRunner,
    shape: RowShape,
    roots: Sequence[PolicyPrompt] | None = None,
) -> PackedBatch:
    """Pack replies, each to the prompt of the same index. Replies with the same root (the same object; None:
    their prompts) share a row: a further prompt about the root's video then costs only what follows the
    video."""
    # By identity: equal prompts are one object, and comparing tokens of long prompts takes time.
    groups: dict[int, list[int]] = {}
    for number, root in enumerate(prompts if roots is None else roots):
        groups.setdefault(id(root), []).append(number)
    rows = [_PackedRow(prompts, replies, numbers) for numbers in groups.values()]
    # Built on the CPU, since every piece is small, and moved to the device in one go.
    size = (len(rows), shape.width(max(len(row.ids) for row in rows), least=_LEAST_WIDTH))

    def filled(fill: int, lines: Iterable[Sequence[int]]) -> torch.Tensor:
        tensor = torch.full(size, fill)
        for row, line in zip(tensor, lines, strict=True):
            row[: len(line)] = torch.tensor(line, dtype=torch.long)
        return tensor

    positions = torch.zeros((4, *size), dtype=torch.long)
    for number, row in enumerate(rows):
        positions[0, number, : len(row.ids)] = torch.tensor(row.text_positions)
        positions[1:, number, : len(row.ids)] = torch.cat(row.positions, dim=1)
    tensors = {
        "input_ids": filled(pad, (row.ids for row in rows)),
        "mm_token_type_ids": filled(0, (row.types for row in rows)),
        "position_ids": positions,
        "shift_labels": filled(IGNORE_INDEX, (row.labels for row in rows)),
    }
    inputs: dict[str, Any] = {name: tensor.to(run.device) for name, tensor in tensors.items()}
    inputs["attention_mask"] = shape.mask(
        filled(PADDING, (row.prompt_numbers for row in rows)).to(run.device),
        filled(PADDING, (row.branches for row in rows)).to(run.device),
    )
    inputs |= visual_inputs([row.root.encoded for row in rows], run.device)
    at = {number: (index, start) for index, row in enumerate(rows) for number, start in row.starts.items()}
    where = torch.tensor([at[number] for number in range(len(replies))], device=run.device)
    return PackedBatch(inputs, where[:, 0], where[:, 1])


class _PackedRow:
    """A row of a packed batch: the first prompt and its replies, then, for each further prompt about the same
    video, what follows the video in it, and its replies."""

    def __init__(
        self, prompts: Sequence[PolicyPrompt], replies: Sequence[Sequence[int]], numbers: Sequence[int]
    ) -> None:
        self.root = prompts[numbers[0]]
        self.ids: list[int] = []
        self.types: list[int] = []
        self.labels: list[int] = []
        self.text_positions: list[int] = []
        self.positions: list[torch.Tensor] = []
        self.prompt_numbers: list[int] = []
        """The prompt that each token belongs to; ROOT: all prompts."""
        self.branches: list[int] = []
        """The reply that each token belongs to; NO_BRANCH: none."""
        self.starts: dict[int, int] = {}
        """The place at which each reply's first token is predicted."""
        by_prompt: dict[int, list[int]] = {}
        for number in numbers:
            by_prompt.setdefault(id(prompts[number]), []).append(number)
        for index, answered in enumerate(by_prompt.values()):
            prompt = prompts[answered[0]]
            # A further prompt about the video begins after the video, which the row already has.
            start = 0 if index == 0 else prompt.head
            last = len(prompt.encoded.ids) - 1
            self.types += prompt.encoded.types[start:last]
            self.positions.append(prompt.positions[:, start:last].cpu())
            video = max(prompt.head - start, 0)
            self.prompt_numbers += [ROOT] * video + [index] * (last - start - video)
            self.branches += [NO_BRANCH] * (last - start)
            self.labels += [IGNORE_INDEX] * (last - start)
            self.text_positions += range(start, last)
            self.ids += prompt.encoded.ids[start:last]
            for number in answered:
                self._reply(number, index, prompt, replies[number])

    def _reply(self, number: int, index: int, prompt: PolicyPrompt, reply: Sequence[int]) -> None:
        length = len(reply)
        last = len(prompt.encoded.ids) - 1
        self.starts[number] = len(self.ids)
        # An empty reply predicts nothing, so it has no branch.
        self.ids += [prompt.encoded.ids[-1], *reply[:-1]][:length]
        self.types += [0] * length
        self.labels += reply
        self.text_positions += range(last, last + length)
        # The branch begins with the prompt's last token, one before the reply's first.
        self.positions.append((prompt.next_position - 1 + torch.arange(length)).expand(3, -1))
        self.prompt_numbers += [index] * length
        self.branches += [number] * length
