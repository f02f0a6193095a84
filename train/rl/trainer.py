"""TRL's GRPOTrainer for prompts that begin with a video.

What TRL lacks, and no more: prompts with pixels, grids and timestamps in sampling and in every log-prob pass;
each prompt run once for all of its replies; programs that are run on held-out questions at each evaluation.
Rewards, advantages, losses, metrics, tables and checkpoints are TRL's. Without a maker of prompts everything
is: planning from text alone, vLLM included. Knows trainers and prompts; must not know files or rewards.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from accelerate.utils import is_peft_model
from trl import GRPOTrainer
from trl.models import unwrap_model_for_generation
from trl.trainer.utils import RepeatSampler, split_tensor_dict

from videopro.backbones.base import Sampling
from videopro.backbones.qwen.features import visual_inputs
from videopro.backbones.qwen.run import NonFiniteLogits, QwenRun, SampledReply
from videopro.errors import ConfigError
from videopro.train.rewards.rows import ROW
from videopro.train.rl.config import VideoGRPOConfig
from videopro.train.rl.data import GRPORow, chat, row_from_columns
from videopro.train.rl.prompts import PolicyPrompt, PromptEncoder, batches_by_length
from videopro.train.rl.rollouts import Rollout, Turns, conversation
from videopro.train.rl.shared_prefix import check_shareable, pack
from videopro.train.runtime.dummy_vision import DummyVision
from videopro.train.runtime.finite_steps import ROW_IDS
from videopro.train.runtime.trainable import part_of
from videopro.train.runtime.trainer import RunTrainer

MakePrompts = Callable[[QwenRun, bool], PromptEncoder]
"""Given the policy's forward passes, and whether the part of it that sees is frozen."""


class RewardPrefetcher(Protocol):
    """What may begin before the rewards are asked for."""

    def prepare(self, rows: Sequence[GRPORow]) -> None:
        """Replies to these rows are about to be written. Returns at once."""

    def submit(self, row: GRPORow, reply: str) -> object:
        """A reply is whole. Returns at once."""


TokenScores = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]
NextTurn = Callable[[Sequence[GRPORow], Sequence[str]], list[GRPORow | None]]
"""Given rows and replies to them, the row that is asked next of each; None: the reply ends its rollout."""


class EpochSampler(RepeatSampler):
    """TRL's order of rows, drawn from the seed and the epoch. TRL draws each epoch's from where the last one
    left its generator, so that a run resumed in a later epoch would see other rows than the first."""

    def __init__(self, like: RepeatSampler, epoch: Callable[[], int]) -> None:
        super().__init__(
            like.data_source,
            like.mini_repeat_count,
            batch_size=like.batch_size,
            repeat_count=like.repeat_count,
            shuffle=like.shuffle,
            seed=like.seed,
        )
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        if self.shuffle:
            self.generator.manual_seed(_epoch_order(self.seed or 0, self._epoch()))
        return super().__iter__()


class VideoGRPOTrainer(RunTrainer, GRPOTrainer):
    """GRPOTrainer with `VideoGRPOConfig` and rows of `videopro.train.rl.data.as_dataset`.

    `make_prompts`: what makes the prompts of rows; None leaves them, and sampling, to TRL. `banned`: tokens
    that are never sampled. `ahead`: told of rows and replies while others are still being written.
    `next_turn`: what follows a first reply, for rollouts of two turns; None: rollouts end with it.
    """

    args: VideoGRPOConfig

    def __init__(
        self,
        *arguments: Any,
        make_prompts: MakePrompts | None = None,
        banned: Sequence[int] = (),
        ahead: RewardPrefetcher | None = None,
        next_turn: NextTurn | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self._ahead = ahead
        self._next_turn = next_turn
        self._banned = tuple(banned)
        self._maker: PromptEncoder | None = None
        if make_prompts is not None:
            self._show(make_prompts)
        self._rows: list[GRPORow] = []
        self._rollouts: list[Rollout] = []
        self._told: dict[int, list[dict[str, str]]] = {}
        self._eval_rounds = 0

    def _show(self, make_prompts: MakePrompts) -> None:
        self.args.check_sampling()
        if self.is_fsdp_enabled:
            raise ConfigError(
                "prompts with videos are sampled by whole models, and FSDP leaves each process parts of one; "
                "use DeepSpeed (configs/accelerate/zero2.yaml, zero3.yaml)"
            )
        tuned: Any = self.model
        base = tuned.get_base_model() if is_peft_model(tuned) else tuned
        self._run = QwenRun(base, ends=self.eos_token_ids, pad=self._tokenizer.pad_token_id)
        if self.args.shared_prompt:
            check_shareable(self._run)
            if self.aux_loss_enabled:
                raise ConfigError(
                    "shared_prompt is true and this model's experts are balanced by a loss over full rows; "
                    "give shared_prompt: false, or router_aux_loss_coef: 0"
                )
        trained = {part_of(name) for name, one in base.named_parameters() if one.requires_grad}
        self._frozen = trained <= {"language"}
        self._dummy = DummyVision(base.model)
        self._maker = make_prompts(self._run, self._frozen)

    # Rows

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        # Of the trainer's state, since a sampler behind skipped batches is told no epochs.
        like: Any = super()._get_train_sampler(dataset)
        return EpochSampler(like, lambda: int(self.state.epoch or 0))

    # Sampling

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        # As in TRL, except that the replies of a group stay together: TRL mixes the rows of all groups, which
        # would have each micro-batch run prompts of many groups. The order of groups is random already.
        if self._maker is None or self.model is None or not self.model.training:
            return super()._prepare_inputs(generation_batch)
        steps = self.args.steps_a_sampling
        if self._step % (steps * self.num_iterations) == 0 or self._buffered_inputs is None:
            made = self._generate_and_score_completions(generation_batch)
            self._buffered_inputs: Any = split_tensor_dict(made, steps)
        return self._buffered_inputs[self._step % steps]

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._rows = [row_from_columns(columns) for columns in inputs]
        # The reward functions get the rows themselves, so that nobody reads and checks them again.
        inputs = [{"prompt": chat(row.prompt), ROW: row} for row in self._rows]
        made = {**super()._generate_and_score_completions(inputs), ROW_IDS: [row.id for row in self._rows]}
        return made if self._maker is None else {**made, "rollouts": self._rollouts}

    def _generate(self, prompts: list[Any]) -> Any:
        if self._maker is None:
            return super()._generate(prompts)
        if self._ahead is not None:
            self._ahead.prepare(self._rows)
        self._told = {}
        with self._whole():
            self._rollouts = [Rollout((prompt,)) for prompt in self._maker.of(self._rows)]
            ids, written, mask, completions, *others = super()._generate(prompts)
        # Of several turns, as they were said.
        completions = [self._told.get(row, one) for row, one in enumerate(completions)]
        return (ids, written, mask, completions, *others)

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """The policy is whole in this process, and its calls leave no gradients."""
        checkpointing: Any = self.args.gradient_checkpointing_kwargs
        with (
            unwrap_model_for_generation(
                self.model_wrapped,
                self.accelerator,
                gather_deepspeed3_params=self.args.ds3_gather_for_generation,
                gradient_checkpointing_kwargs=checkpointing,
            ),
            torch.no_grad(),
            self.accelerator.autocast(),
        ):
            yield

    def _tokenize_prompts(self, prompts: list[Any]) -> Any:
        if self._maker is None:
            return super()._tokenize_prompts(prompts)
        return [list(one.prompts[0].encoded.ids) for one in self._rollouts], None, {}

    def _generate_single_turn(self, prompt_ids: Any, *others: Any, **settings: Any) -> Any:
        if self._maker is None:
            return super()._generate_single_turn(prompt_ids, *others, **settings)
        assert self.model is not None
        was_training = self.model.training
        seed = self._seed()
        self.model.eval()
        try:
            rows = range(len(self._rollouts))
            first = self._write([one.prompts[0] for one in self._rollouts], seed, rows)
            replies = [_ids(one) for one in first]
            if self._next_turn is not None:
                self._go_on(self._next_turn, replies, seed)
        finally:
            self.model.train(was_training)
        return replies, None

    def _go_on(self, next_turn: NextTurn, replies: list[list[int]], seed: int) -> None:
        """Ask those replies that need it for another one, which is put behind them."""
        assert self._maker is not None
        texts = self._texts(replies)
        asked = {row: one for row, one in enumerate(next_turn(self._rows, texts)) if one is not None}
        if not asked:
            return
        prompts = self._maker.of(list(asked.values()))
        written = self._write(prompts, _epoch_order(seed, 1), list(asked))
        refined = self._texts([_ids(one) for one in written])
        for (row, one), prompt, reply, text in zip(asked.items(), prompts, written, refined, strict=True):
            first = self._rollouts[row].prompts[0]
            self._rollouts[row] = Rollout((first, prompt), (len(replies[row]),))
            replies[row] = replies[row] + _ids(reply)
            self._told[row] = conversation(texts[row], one.prompt, text)

    def _write(self, prompts: Sequence[PolicyPrompt], seed: int, rows: Sequence[int]) -> list[SampledReply]:
        """A reply to each prompt, which are of these rows. What is drawn for one depends on the seed and its
        row's number among those of all processes, and on nothing else."""
        first = self.accelerator.process_index * len(self._rows)
        sampling = Sampling(self.args.longest, self.temperature, self.top_p, seed)
        written: dict[int, SampledReply] = {}
        for some in batches_by_length(prompts, self.args.sampling_batch_size or len(prompts)):
            distinct = list(dict.fromkeys(prompts[number] for number in some))
            state = self._run.start([prompt.encoded for prompt in distinct])
            state = self._run.fork(state, [distinct.index(prompts[number]) for number in some])
            numbers = [rows[number] for number in some]
            seeds = [(seed, first + row) for row in numbers]
            told = functools.partial(self._tell, numbers)
            try:
                replies = self._run.write(state, sampling, seeds, banned=self._banned, told=told)
            except NonFiniteLogits as error:
                ids = [self._rows[numbers[row]].id for row in error.rows]
                raise self.stopped("the policy's output is no numbers", ids) from error
            written.update(zip(some, replies, strict=True))
        return [written[number] for number in range(len(prompts))]

    def _tell(self, rows: Sequence[int], number: int, reply: SampledReply) -> None:
        if self._ahead is not None:
            (text,) = self._texts([_ids(reply)])
            self._ahead.submit(self._rows[rows[number]], text)

    def _texts(self, replies: Sequence[Sequence[int]]) -> list[str]:
        """As TRL decodes them for the rewards, so that they know them again."""
        processor: Any = self.processing_class
        return processor.batch_decode(replies, skip_special_tokens=True)

    def _seed(self) -> int:
        """Of this round of sampling: the same in every process, and in a run that was resumed."""
        assert self.model is not None
        if self.model.training:
            key = [0, self.state.global_step, self._step % self.args.gradient_accumulation_steps]
        else:
            key = [1, self.state.global_step, self._eval_rounds]
            self._eval_rounds += 1
        return _epoch_order(self.args.seed, *key)

    # Log-probabilities

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **visual: Any,
    ) -> TokenScores:
        if self._maker is None:
            return super()._get_per_token_logps_and_entropies(
                model,
                input_ids,
                attention_mask,
                logits_to_keep,
                batch_size,
                compute_entropy,
                compute_aux_loss,
                **visual,
            )
        score = self._score_shared_prefix if self.args.shared_prompt else self._score_separately
        size = batch_size or len(input_ids)
        ids, mask = (one[:, -logits_to_keep:] for one in (input_ids, attention_mask))
        parts = []
        for start in range(0, len(ids), size):
            some = slice(start, start + size)
            turns = Turns.of(self._rollouts[some], ids[some], mask[some])
            values, entropies, loss = score(model, turns, compute_aux_loss)
            shape = (len(ids[some]), logits_to_keep)
            entropies = turns.joined(entropies, shape) if entropies is not None else None
            parts.append((turns.joined(values, shape), entropies, loss))
        logps, entropies, losses = zip(*parts, strict=True)
        return (
            torch.cat(logps),
            torch.cat(entropies) if compute_entropy else None,
            torch.stack(losses).mean() if compute_aux_loss else None,
        )

    def _score_separately(self, model: Any, turns: Turns, aux_loss: bool) -> Any:
        """Each turn on its own, by TRL's pass with the rows' positions and what they show."""
        ids, mask, width = turns.padded(self._tokenizer.pad_token_id, self._run.device)
        types, positions = torch.zeros_like(ids), ids.new_zeros((4, *ids.shape))
        before = ids.shape[1] - width
        reply = torch.arange(width, device=ids.device)
        for row, prompt in enumerate(turns.prompts):
            length = len(prompt.encoded.ids)
            types[row, before - length : before] = torch.tensor(prompt.encoded.types)
            positions[1:, row, before - length : before] = prompt.positions
            positions[1:, row, before:] = prompt.following + reply
            positions[0, row, before - length :] = torch.arange(length + width, device=ids.device)
        showing = functools.partial(
            model,
            position_ids=positions,
            mm_token_type_ids=types,
            **visual_inputs([prompt.encoded for prompt in turns.prompts], ids.device),
        )
        return super()._get_per_token_logps_and_entropies(
            showing, ids, mask, width, compute_entropy=True, compute_aux_loss=aux_loss
        )

    def _score_shared_prefix(self, model: Any, turns: Turns, aux_loss: bool) -> Any:
        """The replies of a group behind one pass over its prompt."""
        packed = pack(
            turns.prompts, turns.replies, pad=self._tokenizer.pad_token_id, run=self._run, roots=turns.roots
        )
        with self.accelerator.autocast():
            out = model(**packed.inputs, fused_lm_head=True)
        lengths = torch.tensor([len(reply) for reply in turns.replies], device=self._run.device)
        width = int(lengths.max())
        return (
            packed.unpack(out.log_probs, lengths, width),
            packed.unpack(out.entropy, lengths, width) if out.entropy is not None else None,
            None,
        )

    def compute_loss(self, model: Any, inputs: Any, *arguments: Any, **settings: Any) -> Any:
        """TRL's loss of a batch."""
        if self._maker is None:
            return super().compute_loss(model, inputs, *arguments, **settings)
        if self._teaches_nothing(inputs):
            trained = [one for one in model.parameters() if one.requires_grad]
            return sum((0 * one.sum() for one in trained), start=torch.zeros((), device=self._run.device))
        self._rollouts = inputs["rollouts"]
        # A frozen tower takes no part in steps; one that is trained takes part in all.
        with contextlib.nullcontext() if self._frozen else self._dummy.on():
            return super().compute_loss(model, inputs, *arguments, **settings)

    def _teaches_nothing(self, inputs: Mapping[str, Any]) -> bool:
        """Whether every term of the loss is 0: the groups of the batch have no spread, and nothing else is
        paid for. Processes go through their passes together, so of several none leaves one out."""
        other_terms = self.beta != 0 or self._entropy_bonus_enabled or self.aux_loss_enabled
        alone = self.accelerator.num_processes == 1
        return alone and not other_terms and not bool(inputs["advantages"].any())

    # Evaluation

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Rewards of replies to held-out prompts, if there are any, and the figures of held-out questions."""
        self._eval_rounds = 0
        return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)


def _epoch_order(*key: int) -> int:
    """A seed for a generator, from several numbers."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> 1)


def _ids(reply: SampledReply) -> list[int]:
    """Token ids with the one that ended it."""
    return reply.ids if reply.end is None else [*reply.ids, reply.end[0]]
