"""TRL's GRPOTrainer for prompts that begin with a video.

It adds only what TRL lacks: prompts with pixels, grids and timestamps in sampling and in every log-prob pass;
a single pass over each prompt for all of its replies; programs that are run on held-out questions at each
evaluation. Rewards, advantages, losses, metrics, tables and checkpoints are TRL's.

Here are the rounds of sampling (`rollout_func`) and the evaluation; the log-probabilities and the loss are in
`loss_trainer`.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from trl import GRPOTrainer
from trl.models import unwrap_model_for_generation
from trl.trainer.utils import split_tensor_dict

from videopro.backbones import Sampling
from videopro.backbones.qwen import MergedCopy, NonFiniteLogits, SampledReply
from videopro.errors import ConfigError
from videopro.train.rewards import EVALUATION, POLICY_VERSION, ROW, TURNS, ProgramRewards
from videopro.train.rl.data import GRPORow, chat, mix_seed
from videopro.train.rl.loss_trainer import LossTrainer
from videopro.train.rl.rollouts import Rollout, reply_ids
from videopro.train.rl.rounds import EpochSampler, Round, RoundsAhead
from videopro.train.rl.samplers import Draw, LocalSampler, Sampler, gathered_tower
from videopro.train.runtime import row_of

MakeSampler = Callable[[Any, Sequence[int]], Sampler]
"""Called with the policy, a PEFT model, and the token ids that end its replies."""


NextTurn = Callable[[Sequence[GRPORow], Sequence[str]], list[GRPORow | None]]
"""Called with rows and their replies; returns the next row for each, or None if its rollout ends."""


class VideoGRPOTrainer(LossTrainer):
    """GRPOTrainer with `VideoGRPOConfig` and rows of `videopro.train.rl.data.as_dataset`.

    `make_prompts`: creates the encoder of the rows' prompts. `banned`: token ids that are never sampled.
    `make_sampler`: creates what samples them; None: the policy in this process. `prefetcher`: receives each
    reply as soon as it is written. `next_turn`: chooses the row that follows a first reply; None: rollouts
    have one turn."""

    def __init__(
        self,
        *arguments: Any,
        banned: Sequence[int] = (),
        prefetcher: ProgramRewards | None = None,
        next_turn: NextTurn | None = None,
        make_sampler: MakeSampler | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, rollout_func=self._roll_out, **settings)
        self._prefetcher = prefetcher
        self._next_turn = next_turn
        self.banned = tuple(banned)
        """Token ids that are never sampled."""
        self._sampler = (
            self._local_sampler()
            if make_sampler is None
            else make_sampler(self.accelerator.unwrap_model(self.model), self.eos_token_ids)
        )
        self._rows: list[GRPORow] = []
        self._ahead = RoundsAhead(self.args.gradient_accumulation_steps) if self.args.async_rollouts else None
        self._eval_rows = 0
        self._evaluates = False

    def _local_sampler(self) -> Sampler:
        run, is_sharded = self._run, is_deepspeed_zero3_enabled()
        if is_sharded and not self.args.ds3_gather_for_generation:
            raise ConfigError(
                "ds3_gather_for_generation is false, but processes sample replies of different lengths, and "
                "ZeRO-3 would run each layer in all of them together; leave it out, set sampler: vllm, or "
                "use ZeRO-2"
            )
        # Sharded weights have no addresses that stay.
        copy = None if is_sharded else MergedCopy.where_it_fits(run.model)
        return LocalSampler(run, copy, banned=self.banned)

    # Rows

    def _get_train_sampler(self, dataset: Any = None) -> EpochSampler:
        # Private, since a sampler is no argument of the trainer. The epoch comes from its state: set_epoch
        # does not reach a sampler whose first batches are skipped.
        like: Any = super()._get_train_sampler(dataset)
        return EpochSampler(like, lambda: int(self.state.epoch or 0))

    # Sampling

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        # Private: as in TRL, except that the replies of a group stay together. TRL shuffles the rows of all
        # groups, without a setting for it, so that each micro-batch would run prompts of many groups. The
        # order of groups is already random.
        if not self._trains:
            return super()._prepare_inputs(generation_batch)
        if self._ahead is not None and self._ahead.batches is not None:
            self._ahead.batches.begin()
        steps = self.args.steps_per_sampling
        if self._step % (steps * self.num_iterations) == 0 or self._buffered_inputs is None:
            scored = self._generate_and_score_completions(generation_batch)
            self._buffered_inputs: Any = split_tensor_dict(scored, steps)
        return self._buffered_inputs[self._step % steps]

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        # Private: `rollout_func` sees texts alone, and what it adds reaches the reward functions but not the
        # loss.
        self._rows = [row_of(columns) for columns in inputs]
        # The reward functions get the rows themselves, so that they need not be parsed and checked again.
        inputs = [
            {"prompt": chat(row.text, row.system), ROW: row, EVALUATION: self._evaluates}
            for row in self._rows
        ]
        scored: dict[str, Any] = {**super()._generate_and_score_completions(inputs)}
        advantages = scored["advantages"]
        scored["advantages"] = advantages.masked_fill(advantages.abs() < _ROUNDING, 0.0).float()
        return {**scored, "rollouts": self._rollouts}

    def _roll_out(self, _prompts: Sequence[Any], _trainer: GRPOTrainer) -> dict[str, Any]:
        """The rollout function that TRL calls: replies to the current rows."""
        with self._weights_for_sampling():
            round = self._written_ahead() or self._begin_round(self._rows, self._seed())
            self._rollouts = self._written(round)
            # After the second turns of this round, which the update waits for, and before its rewards.
            self._write_ahead()
        self._log_sampling("policy_version", float(round.version))
        if self._ahead is not None:
            self._log_sampling("staleness", float(self.state.global_step - round.version))
        return {
            "prompt_ids": [list(rollout.prompts[0].encoded.ids) for rollout in self._rollouts],
            "completion_ids": [list(rollout.ids) for rollout in self._rollouts],
            "logprobs": [list(rollout.logprobs) for rollout in self._rollouts]
            if self._sampler.is_remote
            else None,
            # For the reward functions.
            TURNS: [list(rollout.texts) for rollout in self._rollouts],
            POLICY_VERSION: [round.version] * len(self._rollouts),
        }

    def _written(self, round: Round) -> list[Rollout]:
        """The rollout of each row of a round."""
        assert self.model is not None
        # Without dropout, as log-probabilities are computed.
        was_training = self.model.training
        self.model.eval()
        try:
            ahead = round.ahead
            first = self._write(round.draws(), round.seed, round.version) if ahead is None else ahead.result()
            turns = zip(round.prompts, first, self._texts(first), strict=True)
            rollouts = [Rollout().then(*turn) for turn in turns]
            if self._next_turn is not None:
                self._add_second_turns(round, self._next_turn, rollouts)
        finally:
            self.model.train(was_training)
        if not was_training:
            self._eval_rows += self.accelerator.num_processes * len(self._rows)
        return rollouts

    @contextlib.contextmanager
    def _weights_for_sampling(self) -> Iterator[None]:
        """Within, the weights that sampling needs are gathered in this process, and no gradients are
        recorded: all of the policy's, or those that encode videos, if an engine samples."""
        checkpointing: Any = self.args.gradient_checkpointing_kwargs
        if self._sampler.is_remote:
            gathered = gathered_tower(self._run.model, self.model_wrapped)
        else:
            gathered = unwrap_model_for_generation(
                self.model_wrapped,
                self.accelerator,
                gather_deepspeed3_params=self.args.ds3_gather_for_generation,
                gradient_checkpointing_kwargs=checkpointing,
            )
        with gathered, torch.no_grad(), self.accelerator.autocast():
            yield

    def _begin_round(self, rows: Sequence[GRPORow], seed: int) -> Round:
        """A round of sampling by the current policy; nothing is sampled yet."""
        if self._prefetcher is not None:
            self._prefetcher.prepare(rows)
        prompts = self._prompt_encoder.encode(rows)
        # An evaluation may come between the two turns of the round that is written ahead.
        keep = None if self._ahead is None else self._ahead.version
        self._sampler.sync(self.state.global_step, keep)
        first = self._eval_rows + self.accelerator.process_index * len(rows)
        return Round(rows, prompts, seed, first, self._sampler.version)

    def _written_ahead(self) -> Round | None:
        """The round that was begun for the rows in hand, if one was; waits for it."""
        if self._ahead is None or not self._trains:
            return None
        began = time.perf_counter()
        round = self._ahead.take(self._rows)
        if round is not None:
            self._log_sampling("wait_seconds", time.perf_counter() - began)
        return round

    def _write_ahead(self) -> None:
        """Let the engine begin to write the next round, if rounds are written ahead and there is one."""
        if self._ahead is None or not self._trains:
            return
        passes = self.args.steps_per_sampling * self.num_iterations
        assert self._ahead.batches is not None
        batch, updates = self._ahead.batches.upcoming(passes)
        step = self.state.global_step + updates
        # The one after the last step would be thrown away.
        if step >= self.state.max_steps:
            return
        rows = [row_of(columns) for columns in (batch or self._first_of_next_epoch())]
        round = self._begin_round(rows, self._training_seed(step, self._step + passes))
        self._ahead.begin(round, functools.partial(self._write, round.draws(), round.seed, round.version))

    def _first_of_next_epoch(self) -> list[dict[str, Any]]:
        """This process's part of the first round of the next epoch, whose order depends on its number."""
        size = self._train_batch_size * self.args.steps_per_sampling
        start = self.accelerator.process_index * size
        order = self._get_train_sampler().order(int(self.state.epoch or 0) + 1)
        dataset: Any = self.train_dataset
        return [dataset[number] for number in itertools.islice(order, start, start + size)]

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> Any:
        """The batches of the next update, as in transformers."""
        if self._ahead is not None:
            epoch_iterator = self._ahead.over(epoch_iterator)
        return super().get_batch_samples(epoch_iterator, num_batches, device)

    def train(self, *arguments: Any, **settings: Any) -> Any:
        """As in transformers. Nothing is being written any more when it returns or raises."""
        try:
            return super().train(*arguments, **settings)
        finally:
            if self._ahead is not None:
                self._ahead.discard()

    def _add_second_turns(self, round: Round, next_turn: NextTurn, rollouts: list[Rollout]) -> None:
        """Sample second replies where `next_turn` asks for them."""
        asked = next_turn(round.rows, [text for rollout in rollouts for text in rollout.texts])
        refinements = {row: question for row, question in enumerate(asked) if question is not None}
        if not refinements:
            return
        prompts = self._prompt_encoder.encode(list(refinements.values()))
        seed = mix_seed(round.seed, 1)
        draws = [
            Draw(prompt, question, (seed, round.first + row))
            for prompt, (row, question) in zip(prompts, refinements.items(), strict=True)
        ]
        written = self._write(draws, seed, round.version)
        for row, prompt, reply, text in zip(refinements, prompts, written, self._texts(written), strict=True):
            rollouts[row] = rollouts[row].then(prompt, reply, text)

    def _write(self, draws: Sequence[Draw], seed: int, version: int) -> list[SampledReply]:
        """Have these replies drawn by this version of the policy. Rounds that are written ahead do this in
        another thread."""
        sampling = Sampling(self.args.longest, self.temperature, self.top_p, seed)
        try:
            return self._sampler.write(draws, sampling, functools.partial(self._submit, draws), version)
        except NonFiniteLogits as error:
            raise self.stopped("the policy's logits are NaN or infinite") from error

    def _submit(self, draws: Sequence[Draw], number: int, reply: SampledReply) -> None:
        if self._prefetcher is not None:
            (text,) = self._texts([reply])
            self._prefetcher.submit(draws[number].row, text)

    def _texts(self, replies: Sequence[SampledReply]) -> list[str]:
        """The replies decoded as TRL decodes them for the rewards, so that both texts are equal."""
        processor: Any = self.processing_class
        ids = [reply_ids(reply) for reply in replies]
        return processor.batch_decode(ids, skip_special_tokens=True)

    def _seed(self) -> int:
        """The seed of this round of sampling: the same in every process, and in a resumed run."""
        if self._trains:
            return self._training_seed(self.state.global_step, self._step)
        return mix_seed(self.args.seed, 1, self.state.global_step)

    def _training_seed(self, step: int, passes: int) -> int:
        """The seed of the round that begins in this step after so many passes of the run."""
        return mix_seed(self.args.seed, 0, step, passes % self.args.gradient_accumulation_steps)

    # Evaluation

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Rewards of replies to held-out prompts, if there are any, and the metrics of held-out questions."""
        if self._ahead is not None:
            # One round at a time: both would read and encode videos.
            self._ahead.wait()
        # Each evaluation draws its replies by their place in it, so that two of the same weights are equal.
        # TRL's callbacks come after the first batch.
        self._eval_rows = 0
        # TRL keeps the latest replies for its tables of completions, which show those of the training alone:
        # it would write both to one file.
        of_training, shown = copy.deepcopy(self._logs), self.log_completions
        self._evaluates, self.log_completions = True, False
        try:
            return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        finally:
            self._eval_rows = 0
            self._logs, self._evaluates, self.log_completions = of_training, False, shown


_ROUNDING = 1e-9
"""Advantages below this are rounding errors of a mean over equal rewards."""
