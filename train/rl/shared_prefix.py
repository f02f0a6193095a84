"""A group's prompt once, its G replies behind it: the log-probabilities of G full rows from one row.

    video, prompt ... | last token of the prompt, reply 1 | last token of the prompt, reply 2 | ...
                      | another prompt about the video ... | last token of it, reply 3 | ...

Every reply sees its prompt and itself and no other reply (a tree of attention), at the positions that it has
in a row of its own, so its log-probabilities and their gradients are those of the full rows, and the group
costs prompt + G replies instead of G x (prompt + reply). One ordinary forward pass, so gradient
checkpointing, DDP and DeepSpeed take it as any other. The prompt's last token leads every branch since it
predicts the first token of each reply.

Needs an attention that takes any mask (sdpa) and layers that attend: a recurrent layer has one state
along the row. Knows token ids and tensors; must not know losses or trainers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from videopro.backbones.qwen.features import visual_inputs
from videopro.backbones.qwen.run import QwenRun
from videopro.errors import ConfigError
from videopro.train.rl.prompts import PolicyPrompt

IGNORE_INDEX = -100


@dataclass(frozen=True)
class PackedBatch:
    """Groups as the model takes them, one row a group, padded on the right."""

    inputs: dict[str, torch.Tensor]
    """`input_ids`, `mm_token_type_ids` (groups, tokens), `attention_mask` (groups, 1, tokens, tokens) bool,
    `position_ids` (4, groups, tokens), visual inputs, and `shift_labels` (groups, tokens): at each place the
    token that follows it in its reply, `IGNORE_INDEX` in prompts and padding."""
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


def pack(
    prompts: Sequence[PolicyPrompt],
    replies: Sequence[Sequence[int]],
    *,
    pad: int,
    run: QwenRun,
    roots: Sequence[PolicyPrompt] | None = None,
) -> PackedBatch:
    """The replies, each to the prompt of the same place. Those of one root (the same object; None: their
    prompts) come into one row: a prompt about the root's video then costs what follows the video."""
    groups: dict[int, list[int]] = {}
    for number, root in enumerate(prompts if roots is None else roots):
        groups.setdefault(id(root), []).append(number)
    rows = [_PackedRow(prompts, replies, numbers) for numbers in groups.values()]
    # On the host, since every piece is small; moved to the device in one go.
    shape = (len(rows), max(len(row.ids) for row in rows))

    def filled(fill: int, lines: Iterable[Sequence[int]]) -> torch.Tensor:
        made = torch.full(shape, fill)
        for one, line in zip(made, lines, strict=True):
            one[: len(line)] = torch.tensor(line, dtype=torch.long)
        return made

    positions = torch.zeros((4, *shape), dtype=torch.long)
    for number, row in enumerate(rows):
        positions[0, number, : len(row.ids)] = torch.tensor(row.places)
        positions[1:, number, : len(row.ids)] = torch.cat(row.positions, dim=1)
    made = {
        "input_ids": filled(pad, (row.ids for row in rows)),
        "mm_token_type_ids": filled(0, (row.types for row in rows)),
        "position_ids": positions,
        "shift_labels": filled(IGNORE_INDEX, (row.labels for row in rows)),
    }
    inputs = {name: one.to(run.device) for name, one in made.items()}
    inputs["attention_mask"] = _tree(
        filled(_PADDING, (row.asked for row in rows)).to(run.device),
        filled(_PADDING, (row.branches for row in rows)).to(run.device),
    )
    inputs |= visual_inputs([row.root.encoded for row in rows], run.device)
    at = {number: (row, start) for row, one in enumerate(rows) for number, start in one.starts.items()}
    where = torch.tensor([at[number] for number in range(len(replies))], device=run.device)
    return PackedBatch(inputs, where[:, 0], where[:, 1])


_VIDEO, _PROMPT, _PADDING = -1, -1, -2


class _PackedRow:
    """A row of a packed batch: the first prompt, then what further prompts about its video have behind the
    video, each with its replies behind it."""

    def __init__(
        self, prompts: Sequence[PolicyPrompt], replies: Sequence[Sequence[int]], numbers: Sequence[int]
    ) -> None:
        self.root = prompts[numbers[0]]
        self.ids: list[int] = []
        self.types: list[int] = []
        self.labels: list[int] = []
        self.places: list[int] = []
        self.positions: list[torch.Tensor] = []
        self.asked: list[int] = []
        """The prompt to which a token belongs; _VIDEO: to all."""
        self.branches: list[int] = []
        """The reply to which it belongs; _PROMPT: none."""
        self.starts: dict[int, int] = {}
        """Where each reply's first token is predicted."""
        asked: dict[int, list[int]] = {}
        for number in numbers:
            asked.setdefault(id(prompts[number]), []).append(number)
        for place, answered in enumerate(asked.values()):
            prompt = prompts[answered[0]]
            start = 0 if place == 0 else prompt.head
            last = len(prompt.encoded.ids) - 1
            self.types += prompt.encoded.types[start:last]
            self.positions.append(prompt.positions[:, start:last].cpu())
            video = max(prompt.head - start, 0)
            self.asked += [_VIDEO] * video + [place] * (last - start - video)
            self.branches += [_PROMPT] * (last - start)
            self.labels += [IGNORE_INDEX] * (last - start)
            self.places += range(start, last)
            self.ids += prompt.encoded.ids[start:last]
            for number in answered:
                self._reply(number, place, prompt, replies[number])

    def _reply(self, number: int, place: int, prompt: PolicyPrompt, reply: Sequence[int]) -> None:
        length = len(reply)
        last = len(prompt.encoded.ids) - 1
        self.starts[number] = len(self.ids)
        self.ids += [prompt.encoded.ids[-1], *reply[:-1]][:length]
        self.types += [0] * length
        self.labels += reply
        self.places += range(last, last + length)
        self.positions.append((prompt.following - 1 + torch.arange(length)).expand(3, -1))
        self.asked += [place] * length
        self.branches += [number] * length


def _tree(asked: torch.Tensor, branches: torch.Tensor) -> torch.Tensor:
    """Who sees whom, (rows, 1, tokens, tokens): what comes before, in the video, the own prompt or the own
    reply. Padding sees the video and itself, since a softmax over nothing is no number."""
    width = asked.shape[1]
    before = torch.ones((width, width), dtype=torch.bool, device=asked.device).tril()
    theirs, reply = asked[:, None, :], branches[:, None, :]
    same = (asked[:, :, None] == theirs) & ((reply == _PROMPT) | (branches[:, :, None] == reply))
    return (before & ((theirs == _VIDEO) | same))[:, None]
