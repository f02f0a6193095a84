"""The backbone for Qwen vision-language models in transformers: Qwen2.5-VL, Qwen3-VL, Qwen3.5 and newer.

A letter takes one forward pass, questions about one video share its prefix, and an adapter can be switched on
and off. Combines prompts (`inputs`), forward passes (`run`), prefixes and loading.
"""

from __future__ import annotations

import contextlib
import math
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from videopro.backbones.base import (
    GREEDY,
    YES_NO,
    Backbone,
    BackboneConfig,
    ChoiceRequest,
    GenerateRequest,
    Generation,
    Joining,
    Prefix,
    Sampling,
    YesNoRequest,
)
from videopro.backbones.qwen.caches import PromptHead
from videopro.backbones.qwen.features import FeatureStore
from videopro.backbones.qwen.inputs import EncodedPrompt, QwenInputs
from videopro.backbones.qwen.load import LoadedModel, load_model
from videopro.backbones.qwen.replies import Collected, NonFiniteLogits, QueuedReply, ReplyQueue, SampledReply
from videopro.backbones.qwen.runner import Arrivals, QwenRunner
from videopro.backbones.qwen.writing import rows_that_fit
from videopro.backbones.texts import without_thoughts
from videopro.errors import BackboneError
from videopro.question import Answer, prompts

if TYPE_CHECKING:
    from videopro.video import Frame

T = TypeVar("T")


def _draws(one: QueuedReply, sampling: Sampling) -> tuple[int | None, int]:
    """What seeds a reply: the request's own seed, or the call's and the number of the request in it."""
    return (sampling.seed, one.number) if one.request.seed is None else (one.request.seed, 0)


_MOST_REPLIES = 64
"""More replies at the same time gain little: their steps become as long as the matrix products of a pass."""


class QwenBackbone(Backbone):
    """A Qwen vision-language model in this process.

    Qwen3-VL and newer receive the true time of each frame; Qwen2.5-VL takes one interval per video and
    receives the mean spacing of the frames. Requests about the same sequence of frames (the same object) in
    one batched call share its encoding.

    Thread-safe: one lock covers every call and every `adapter` block, so calls from several threads run one
    after another, and other threads wait while a thread is inside an `adapter` block.
    """

    def __init__(self, config: BackboneConfig) -> None:
        """Load the model. Raises `BackboneError` or `ConfigError` if it cannot be loaded."""
        self._set_up(load_model(config), config.model, config.batch_size, in_training=False)
        self.server_settings = config.server_settings

    @classmethod
    def from_loaded(
        cls, loaded: LoadedModel, *, name: str, batch_size: int = 8, concurrent: bool = False
    ) -> QwenBackbone:
        """A backbone for a model that is already in memory, such as one in training.

        The model's mode is not changed: the caller puts it into evaluation mode, with its adapter on, before
        using the backbone. `concurrent`: it answers while other threads use the device; its work then goes
        before theirs, on its own stream, so that an answer does not wait for the steps of a whole reply. Only
        for weights that do not change.
        """
        self = cls.__new__(cls)
        self._set_up(loaded, name, batch_size, in_training=True)
        if concurrent and self.device.type == "cuda":
            self._stream = torch.cuda.Stream(self.device, priority=-1)
            # The weights may still be on their way to the device.
            self._stream.wait_stream(torch.cuda.current_stream(self.device))
        return self

    _stream: Any = None
    """The CUDA stream of its calls; None: the thread's."""

    def _set_up(self, loaded: LoadedModel, name: str, batch_size: int, *, in_training: bool) -> None:
        self.name = name
        self.frames = loaded.frames
        self.pixels = loaded.pixels
        self.context_tokens = getattr(loaded.model.config.get_text_config(), "max_position_embeddings", None)
        self.planner = loaded.planner
        self.record = loaded.record
        self.notes = loaded.notes
        self._batch = batch_size
        self._identity = dict(loaded.identity)
        self._adapter = loaded.adapter
        self._adapter_on = loaded.adapter is not None
        self._lock = threading.RLock()
        tokenizer = loaded.processor.tokenizer
        self._tokenizer = tokenizer
        # Both: chat models end a turn with another token than a text, and either ends a reply.
        ends = loaded.model.generation_config.eos_token_id
        ends = [ends] if isinstance(ends, int) else list(ends or ())
        if tokenizer.eos_token_id is not None:
            ends.append(tokenizer.eos_token_id)
        if not ends:
            raise BackboneError(f"model {name!r} has no end-of-sequence token; set one in its tokenizer")
        # Any token will do, since padding is masked.
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else ends[0]
        self._run: QwenRunner | None = QwenRunner(loaded.model, ends=ends, pad=pad)
        self._inputs = QwenInputs(
            loaded.processor, frames=loaded.frames, pixels=loaded.pixels, device=self._run.device
        )
        self._features = FeatureStore(self._inputs, in_training=in_training)
        self._banned = self._inputs.visual_tokens()
        self._replies: dict[str, int] = {}

    # What it is

    def identity(self) -> dict[str, object]:
        """See `Backbone.identity`; has the adapter's fingerprint only while the adapter is on."""
        return {**self._identity, "adapter": self._identity["adapter"] if self._adapter_on else None}

    def mark_retrained(self, state: str) -> None:
        """Record that training has changed the weights: the adapter's if there is one, else the model's.
        `state` stands for them in `identity`, so that cached answers of the earlier weights are not used.
        """
        self._identity["adapter" if self._adapter is not None else "weights"] = state

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int]:
        """(height, width) to which the processor resizes `n_frames` frames of (height, width) pixels."""
        return self._inputs.frame_size(height, width, n_frames)

    @property
    def device(self) -> torch.device:
        """The device of the model's inputs."""
        return self._runner.device

    @property
    def _runner(self) -> QwenRunner:
        if self._run is None:
            raise BackboneError(f"backbone {self.name!r} is closed; load it again")
        return self._run

    # Choosing

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        """Answer several multiple-choice questions, each in one forward pass."""
        prompted = [
            GenerateRequest(
                request.visual,
                request.prompt if request.prompt is not None else prompts.multiple_choice(request.question),
                system=request.system,
                prefill=request.prefill,
            )
            for request in requests
        ]
        return self._choose(prompted, [request.question.letters for request in requests])

    def yes_no_batch(self, requests: Sequence[YesNoRequest]) -> list[Answer]:
        """Answer several yes-or-no questions, each in one forward pass."""
        prompted = [GenerateRequest(request.visual, request.text) for request in requests]
        return self._choose(prompted, [YES_NO] * len(prompted))

    def _choose(self, prompted: Sequence[GenerateRequest], replies: Sequence[Sequence[str]]) -> list[Answer]:
        def rows(
            numbers: Sequence[int], heads: Sequence[PromptHead], parts: Sequence[EncodedPrompt]
        ) -> list[Answer]:
            run = self._runner
            if not heads:
                logits = run.last_logits(parts)
            elif run.is_recurrent:
                logits = run.last_logits_after(heads[0], parts)
            else:
                logits = run.start_after(heads, parts).logits
            before = [head.length for head in heads] if heads else [0] * len(parts)
            return [
                self._read(row, replies[number], length + len(part.ids))
                for number, row, part, length in zip(numbers, logits, parts, before, strict=True)
            ]

        return self._serve(prompted, rows, one_token=True, even=False)

    def _read(self, logits: torch.Tensor, replies: Sequence[str], tokens_in: int) -> Answer:
        unseen = [reply for reply in replies if reply not in self._replies]
        if unseen:
            self._replies.update(self._inputs.reply_tokens(unseen))
        probabilities = logits.softmax(-1)
        letters = {reply: float(probabilities[self._replies[reply]]) for reply in replies}
        # Before the best letter is taken: argmax of NaN is a letter too.
        if any(map(math.isnan, letters.values())):
            raise NonFiniteLogits([0])
        top = int(probabilities.argmax())
        letter = next((reply for reply in replies if self._replies[reply] == top), None)
        return Answer(
            letter=letter,
            confidence=letters[letter] if letter is not None else 0.0,
            letters=letters,
            raw=self._tokenizer.decode([top]),
            tokens_in=tokens_in,
            tokens_out=1,
        )

    # Writing

    def generate_batch(
        self, requests: Sequence[GenerateRequest], sampling: Sampling = GREEDY
    ) -> list[Generation]:
        """Generate several replies with `sampling`; the model's own generation config is not used."""
        collected = Collected()
        self.generate_joining(requests, sampling, collected)
        return [collected.replies[number] for number in range(len(requests))]

    def generate_joining(
        self, requests: Sequence[GenerateRequest], sampling: Sampling, joining: Joining
    ) -> None:
        """See `JoiningBackbone`. Requests about a prefix join a batch while it is written, if the model's
        rows can be joined; the others are written in separate batches."""
        with self._guard():
            queue = ReplyQueue(joining, self._joinable_head)
            queue.add(requests)
            while queue:
                if queue.joinable:
                    self._write_joined(queue, sampling)
                else:
                    self._write_apart(queue, sampling)

    def _joinable_head(self, request: GenerateRequest) -> PromptHead | None:
        """The head of a request about a prefix whose rows can be written together with those of others."""
        if not isinstance(request.visual, Prefix):
            return None
        head = self._shared(request.visual, request.system)
        return head if self._runner.can_join(head) else None

    def _write_joined(self, queue: ReplyQueue, sampling: Sampling) -> None:
        """Write replies about prefixes; others join while they are written, as far as there is room."""
        run, slots = self._runner, self._slots(sampling)
        rows: list[QueuedReply] = []
        tokens_in: list[int] = []  # of each row's prompt

        def begin(room: int) -> Arrivals | None:
            chosen = queue.next_joinable(room)
            if not chosen:
                return None
            # By length, so that little of a batch is padding.
            tails = {one.number: self._tail(one.request, one_token=False) for one in chosen}
            chosen.sort(key=lambda one: len(tails[one.number].ids))
            heads = [one.head for one in chosen if one.head is not None]
            ordered = [tails[one.number] for one in chosen]
            for one, head, tail in zip(chosen, heads, ordered, strict=True):
                rows.append(one)
                tokens_in.append(head.length + len(tail.ids))
            return run.start_after(heads, ordered), [_draws(one, sampling) for one in chosen]

        def between(is_open: int) -> Arrivals | None:
            room = slots - is_open
            queue.let_join(room)
            return begin(room) if run.takes_arrivals and room > 0 else None

        def on_reply(row: int, reply: SampledReply) -> None:
            self._hand_over(queue, rows[row], reply, tokens_in[row])

        begun = begin(slots)
        assert begun is not None
        state, draws = begun
        run.generate(
            state,
            sampling,
            draws,
            banned=self._banned,
            on_reply=on_reply,
            between=between,
            cancelled=lambda: queue.cancelled_rows(rows),
        )

    def _write_apart(self, queue: ReplyQueue, sampling: Sampling) -> None:
        """Write replies to requests that no others join, in batches of those with the same visual."""
        queued = queue.take_apart()

        def rows(
            numbers: Sequence[int], heads: Sequence[PromptHead], parts: Sequence[EncodedPrompt]
        ) -> list[None]:
            batch = [queued[number] for number in numbers]
            if len(queue.cancelled_rows(batch)) == len(batch):
                return [None] * len(numbers)
            run = self._runner
            state = run.start_after(heads, parts) if heads else run.start(parts)
            before = [head.length for head in heads] if heads else [0] * len(parts)
            lengths = [length + len(part.ids) for part, length in zip(parts, before, strict=True)]

            def on_reply(row: int, reply: SampledReply) -> None:
                self._hand_over(queue, batch[row], reply, lengths[row])

            def between(is_open: int) -> None:
                queue.let_join(0)

            draws = [_draws(one, sampling) for one in batch]
            run.generate(
                state,
                sampling,
                draws,
                banned=self._banned,
                on_reply=on_reply,
                between=between,
                cancelled=lambda: queue.cancelled_rows(batch),
            )
            return [None] * len(numbers)

        self._serve([one.request for one in queued], rows, one_token=False, even=self._runner.is_recurrent)

    def _hand_over(self, queue: ReplyQueue, one: QueuedReply, reply: SampledReply, tokens_in: int) -> None:
        generation = self._generation(reply, tokens_in, is_begun=bool(one.request.prefill))
        queue.joining.done(one.number, generation)

    def _slots(self, sampling: Sampling) -> int:
        """How many replies are written at the same time: `batch_size`, and on a GPU as many more as half of
        its free memory has room for."""
        if self.device.type != "cuda":
            return self._batch
        fits = rows_that_fit(self._free() // 2, self._runner.token_bytes, sampling.max_new_tokens)
        return max(self._batch, min(fits, _MOST_REPLIES))

    def _free(self) -> int:
        """Bytes of the GPU's memory that are free, what PyTorch keeps for itself included; 0 on a CPU."""
        if self.device.type != "cuda":
            return 0
        kept = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        return int(torch.cuda.mem_get_info(self.device)[0]) + kept

    def _generation(self, written: SampledReply, tokens_in: int, *, is_begun: bool = False) -> Generation:
        """`is_begun`: the prompt has the start of the reply, which is not a thought."""
        reply = Generation(
            text=self._tokenizer.decode(
                written.ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
            ),
            token_ids=tuple(written.ids),
            logprobs=tuple(written.logprobs),
            finish="stop" if written.ended else "length",
            tokens_in=tokens_in,
            tokens=tuple(
                self._tokenizer.batch_decode(
                    [[token] for token in written.ids],
                    skip_special_tokens=True,
                    clean_up_tokenization_spaces=False,
                )
            ),
        )
        return without_thoughts(reply, is_opened=self._inputs.opens_thoughts and not is_begun)

    # Batching

    def _serve(
        self,
        requests: Sequence[GenerateRequest],
        rows: Callable[[Sequence[int], Sequence[PromptHead], Sequence[EncodedPrompt]], list[T]],
        *,
        one_token: bool,
        even: bool,
    ) -> list[T]:
        """Group requests by their visual, run each group in batches, and return the results in order. Passes
        for one token about several prefixes are joined, if the model's rows can be.

        `rows` receives the indices of a batch's requests, the head of each or none, and their tails or whole
        prompts. `even`: the tails in a batch must have the same length.
        """
        results: dict[int, T] = {}
        by_visual: dict[tuple[int, str], list[int]] = {}
        for number, request in enumerate(requests):
            # By identity: comparing the pixels of all frames would take longer than it saves.
            by_visual.setdefault((id(request.visual), request.system), []).append(number)
        alone: list[int] = []
        joined: list[int] = []
        heads: dict[int, PromptHead] = {}
        parts: dict[int, EncodedPrompt] = {}

        def serve(numbers: Sequence[int]) -> None:
            # By length, so that little of a batch is padding.
            ordered = sorted(numbers, key=lambda n: len(parts[n].ids))
            is_even = even and any(n in heads for n in numbers)
            for batch in self._batches(ordered, parts, heads, even=is_even, one_token=one_token):
                before = [heads.pop(n) for n in batch if n in heads]
                done = rows(batch, before, [parts.pop(n) for n in batch])
                results.update(zip(batch, done, strict=True))

        with self._guard():
            for numbers in by_visual.values():
                first = requests[numbers[0]]
                visual = first.visual
                # A single question about a visual gains nothing from a shared head, which costs a pass of its
                # own.
                if isinstance(visual, Prefix) or (visual is not None and len(numbers) > 1):
                    shared = self._shared(visual, first.system)
                    heads.update(dict.fromkeys(numbers, shared))
                    parts.update((n, self._tail(requests[n], one_token=one_token)) for n in numbers)
                    # A prefix is in memory in any case; the others' heads are freed one after another.
                    if one_token and isinstance(visual, Prefix) and self._runner.can_join(shared):
                        joined.extend(numbers)
                    else:
                        serve(numbers)
                else:
                    alone.extend(numbers)
            serve(joined)
            # Encoded batch by batch, so that only one batch's pixels are in memory; passes for one token then
            # have as many rows as fit.
            waiting: list[int] = []
            for start in range(0, len(alone), self._batch):
                batch = alone[start : start + self._batch]
                encoded = self._full_prompts([requests[n] for n in batch], one_token=one_token)
                parts.update(zip(batch, encoded, strict=True))
                waiting += batch
                needed = sum(self._runner.pass_bytes(len(parts[n].ids)) for n in waiting)
                if not one_token or needed > self._free() // 2 or batch[-1] == alone[-1]:
                    serve(waiting)
                    waiting = []
        return [results[number] for number in range(len(requests))]

    def _batches(
        self,
        ordered: Sequence[int],
        parts: Mapping[int, EncodedPrompt],
        heads: Mapping[int, PromptHead],
        *,
        even: bool,
        one_token: bool,
    ) -> Iterator[list[int]]:
        """`batch_size` rows each; on a GPU, for one token each, as many more as half of its free memory has
        room for."""
        memory = self._free() // 2 if one_token else 0
        before = max((heads[n].length for n in ordered if n in heads), default=0)
        batch: list[int] = []
        for number in ordered:
            length = len(parts[number].ids)
            is_other = even and batch and length != len(parts[batch[0]].ids)
            # Each is at least as long as those before it.
            needed = (len(batch) + 1) * self._runner.pass_bytes(length, before)
            is_full = len(batch) >= self._batch and (needed > memory or len(batch) == _MOST_REPLIES)
            if is_other or is_full:
                yield batch
                batch = []
            batch.append(number)
        if batch:
            yield batch

    def _tail(self, request: GenerateRequest, *, one_token: bool) -> EncodedPrompt:
        return self._inputs.tail(request.text, one_token=one_token, reply=request.prefill)

    def _full_prompts(self, requests: Sequence[GenerateRequest], *, one_token: bool) -> list[EncodedPrompt]:
        visuals = [
            (request.visual, request.system)
            for request in requests
            if request.visual is not None and not isinstance(request.visual, Prefix)
        ]
        heads = iter(self._heads(visuals))
        return [
            self._inputs.text(
                request.text, one_token=one_token, system=request.system or None, reply=request.prefill
            )
            if request.visual is None
            else next(heads).append_text(self._tail(request, one_token=one_token))
            for request in requests
        ]

    def _heads(self, visuals: Sequence[tuple[Sequence[Frame], str]]) -> list[EncodedPrompt]:
        run = self._runner
        core: Any = run.model.model
        return self._features.heads(core, visuals, run.device, adapted=self._adapter_on)

    def _shared(self, visual: Sequence[Frame] | Prefix, system: str) -> PromptHead:
        if isinstance(visual, Prefix):
            head: PromptHead = visual.use(self, system, adapted=self._adapter_on)
            return head
        return self._runner.share(*self._heads([(visual, system)]))

    def prefix(self, frames: Sequence[Frame], *, system: str = "") -> Prefix:
        """Encode frames once. Later calls run only their own tokens and attend to the prefix's keys and
        values, or to a copy of them if the model has layers that cannot share them."""
        with self._guard():
            shared = self._runner.share(*self._heads([(frames, system)]))
            return Prefix(self, frames, shared, system=system, tokens=shared.length, adapted=self._adapter_on)

    # Adapter, errors, closing

    @contextlib.contextmanager
    def adapter(self, enabled: bool) -> Iterator[None]:
        """Turn the adapter on or off within a `with` block; other threads wait until the block ends."""
        if enabled and self._adapter is None:
            raise BackboneError(f"backbone {self.name!r} has no adapter; set 'adapter'")
        with self._lock:
            before = self._adapter_on
            self._switch(enabled)
            try:
                yield
            finally:
                self._switch(before)

    def _switch(self, enabled: bool) -> None:
        if self._adapter is None or enabled == self._adapter_on:
            return
        # peft's own context manager turns adapters off and on again, and this one may begin with either.
        layers: Any = self._adapter.base_model
        if enabled:
            layers.enable_adapter_layers()
        else:
            layers.disable_adapter_layers()
        self._adapter_on = enabled

    @contextlib.contextmanager
    def _guard(self) -> Iterator[None]:
        """Run one call at a time, without gradients; running out of memory raises `BackboneError`."""
        stream = contextlib.nullcontext() if self._stream is None else torch.cuda.stream(self._stream)
        with self._lock, torch.inference_mode(), stream:
            try:
                yield
            except torch.OutOfMemoryError as error:
                # A kept error would keep what the failed passes had allocated.
                traceback.clear_frames(error.__traceback__)
                self._features.clear()
                if self._run is not None:
                    self._run.release()
                raise BackboneError(
                    f"backbone {self.name!r} ran out of memory on {self.device}; lower 'batch_size' (now "
                    f"{self._batch}), 'frames' ({self.frames}) or 'pixels' ({self.pixels}), or close prefixes"
                ) from error

    def close(self) -> None:
        """Release the model; prefixes keep their memory until they are closed."""
        with self._lock:
            self._run = None
            self._adapter = None
            self._features.clear()
            # PyTorch keeps freed memory for itself, and another model may be loaded next.
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
