"""Rollouts of one or several turns, each turn with its own prompt.

As in inference, a refinement prompt begins with the video and shows the program to fix
(`videopro.question.prompts`); it does not continue the first reply. For the loss, a two-turn rollout is one
completion: the tokens of both replies. For the model, it is two conversations: each reply is sampled and
scored after its own prompt, and prompt tokens have no loss.

Trigger and prompts of a second turn are those of inference (`videopro.methods.program`, section 3.5): a
program that failed, gave no answer, or gave one below tau is refined once. Only a plan begins an episode: the
other kinds of prompts are refinements themselves, and inference refines once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from videopro.backbones.qwen import SampledReply
from videopro.methods.planners import PromptFile
from videopro.methods.program import build_refinement
from videopro.modules import named_modules, reference_text
from videopro.modules.calls import ClipTimes
from videopro.traces import PLAN_KINDS, REFINEMENT_KINDS, is_confident
from videopro.train.rewards import ProgramRewards
from videopro.train.rl.data import GRPORow
from videopro.train.rl.prompt_encoder import PolicyPrompt


def reply_ids(reply: SampledReply) -> list[int]:
    """The reply's token ids, with the one that ended it, which was drawn too and is scored with them."""
    return reply.ids if reply.end is None else [*reply.ids, reply.end[0]]


@dataclass(frozen=True, eq=False)
class Rollout:
    """The prompts of a rollout, in order, the lengths in tokens of all replies but the last, and, of all
    replies together, the tokens, their log-probabilities as drawn, and the texts."""

    prompts: tuple[PolicyPrompt, ...] = ()
    lengths: tuple[int, ...] = ()
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    texts: tuple[str, ...] = ()

    def then(self, prompt: PolicyPrompt, reply: SampledReply, text: str) -> Rollout:
        """This rollout with another turn."""
        return Rollout(
            (*self.prompts, prompt),
            (*self.lengths, len(self.ids) - sum(self.lengths)) if self.prompts else (),
            (*self.ids, *reply_ids(reply)),
            (*self.logprobs, *reply.logprobs, *(() if reply.end is None else (reply.end[1],))),
            (*self.texts, text),
        )

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
        places = [
            (turn, offset, row, start + offset)
            for turn, (reply, row, start) in enumerate(zip(self.replies, self.rows, self.starts, strict=True))
            for offset in range(len(reply))
        ]
        # With this shape where no reply has a token, too.
        indices = torch.tensor(places, dtype=torch.long, device=values.device).reshape(-1, 4)
        turns, offsets, rows, columns = indices.unbind(1)
        return values.new_zeros(shape).index_put((rows, columns), values[turns, offsets])

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


class RefinementTurns:
    """Chooses the prompt that follows a first reply. Runs the programs in the replies and waits for them."""

    def __init__(
        self,
        rewards: ProgramRewards,
        tau: float,
        prompt_file: PromptFile | None = None,
        *,
        clip_times: ClipTimes = "video",
    ) -> None:
        """`prompt_file`: the user's prompts in place of ours. `clip_times`: as the modules have it. Raises
        ConfigError if it lacks a refinement."""
        if prompt_file is not None:
            prompt_file.require(REFINEMENT_KINDS, "a two-turn episode")
        self._rewards = rewards
        self._tau = tau
        self._prompt_file = prompt_file
        self._clip_times: ClipTimes = clip_times

    def __call__(self, rows: Sequence[GRPORow], replies: Sequence[str]) -> list[GRPORow | None]:
        """For each reply, the row of its refinement; None if it needs none or could not be run. Raises the
        same errors as the reward functions."""
        refinements: list[GRPORow | None] = [None] * len(rows)
        plans = [index for index, row in enumerate(rows) if row.kind in PLAN_KINDS]
        turns = self._rewards.run([rows[index] for index in plans], [replies[index] for index in plans])
        for index, turn in zip(plans, turns, strict=True):
            execution = turn.outcome.execution
            if execution is None or is_confident(execution, self._tau):
                continue
            row = rows[index]
            if self._prompt_file is not None and row.reference == "none":
                self._prompt_file.require_api("a two-turn episode about a row without a reference")
            kind, prompt = build_refinement(
                row.question,
                turn.program,
                execution,
                turn.outcome.log,
                reference=reference_text(row.reference, named_modules(row.modules), self._clip_times),
                file=self._prompt_file,
            )
            # As in inference: without a system turn, and with the video first.
            refinements[index] = replace(row, kind=kind, prompt=prompt, system=None, before="")
        return refinements
