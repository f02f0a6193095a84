"""Who writes the replies of a GRPO step: here the policy in this process; `engine` has engines that serve its
adapter. Both draw each reply from its own seed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from trl.models.utils import add_hooks, remove_hooks

from videopro.backbones import Sampling
from videopro.backbones.qwen import (
    MergedCopy,
    NonFiniteLogits,
    QwenRunner,
    SampledReply,
)
from videopro.train.rl.data import GRPORow
from videopro.train.rl.prompt_encoder import PolicyPrompt, batches_by_length


@contextlib.contextmanager
def gathered_tower(model: Any, wrapped: Any) -> Iterator[None]:
    """Within, the weights that encode videos are gathered in this process. `wrapped`: the policy,
    which is trained, as DeepSpeed has it; `model`: the same without its adapter and DeepSpeed."""
    if not is_deepspeed_zero3_enabled():
        yield
        return
    import deepspeed

    with deepspeed.zero.GatheredParameters(list(model.model.visual.parameters())):
        # They would give its weights back after each video and gather them for the next, in which all
        # processes take part; but each has its own videos, and not as many as the others.
        remove_hooks(wrapped)
        try:
            yield
        finally:
            add_hooks(wrapped)


@dataclass(frozen=True, eq=False)
class Draw:
    """A reply to sample."""

    prompt: PolicyPrompt
    row: GRPORow
    """The row of the prompt."""
    seed: tuple[int, int]
    """Two numbers, which together seed it."""


OnReply = Callable[[int, SampledReply], None]
"""Called with the index of a draw and its reply, as soon as that is complete."""


class Sampler(Protocol):
    """Samples replies from the policy."""

    version: int
    """The number of updates of the sampling policy."""
    is_remote: bool
    """Whether another implementation samples, with its own copy of the weights."""

    def sync(self, step: int, keep: int | None = None) -> None:
        """Called in every process before replies are drawn, after so many updates. `keep`: an earlier version
        that will be asked for once more."""

    def write(
        self, draws: Sequence[Draw], sampling: Sampling, on_reply: OnReply, version: int | None = None
    ) -> list[SampledReply]:
        """The replies. Those of a remote sampler have the log-probabilities of what they were drawn from,
        after temperature; those of others the model's own. `version`: the policy's that draws, which a remote
        sampler may be asked for when there is a newer one; None: the newest. Raises BackboneError."""


class LocalSampler:
    """The policy in this process, or its `copy`. `banned`: token ids that are never drawn."""

    is_remote = False

    def __init__(self, run: QwenRunner, copy: MergedCopy | None, *, banned: Sequence[int]) -> None:
        self.version = 0
        self.copy = copy
        self._run = run
        self._banned = tuple(banned)

    def sync(self, step: int, keep: int | None = None) -> None:
        self.version = step

    def write(
        self, draws: Sequence[Draw], sampling: Sampling, on_reply: OnReply, version: int | None = None
    ) -> list[SampledReply]:
        """See `Sampler`. Raises NonFiniteLogits, whose rows are the indices of draws."""
        assert version in (None, self.version)
        if self.copy is None:
            return self._write(draws, sampling, on_reply)
        # The adapter has changed since the last round.
        self.copy.update()
        with self.copy.in_use():
            return self._write(draws, sampling, on_reply)

    def _write(self, draws: Sequence[Draw], sampling: Sampling, on_reply: OnReply) -> list[SampledReply]:
        prompts = [draw.prompt for draw in draws]
        written: dict[int, SampledReply] = {}
        for batch in batches_by_length(prompts):
            # Each distinct prompt runs once and is forked for its replies.
            distinct = list(dict.fromkeys(prompts[number] for number in batch))
            state = self._run.start([prompt.encoded for prompt in distinct])
            state = self._run.fork(state, [distinct.index(prompts[number]) for number in batch])

            def hand_over(row: int, reply: SampledReply, batch: Sequence[int] = batch) -> None:
                written[batch[row]] = reply
                on_reply(batch[row], reply)

            try:
                self._run.generate(
                    state,
                    sampling,
                    [draws[number].seed for number in batch],
                    banned=self._banned,
                    on_reply=hand_over,
                )
            except NonFiniteLogits as error:
                raise NonFiniteLogits([batch[row] for row in error.rows]) from error
        return [written[number] for number in range(len(prompts))]
