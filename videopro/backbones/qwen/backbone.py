"""The backbone for Qwen vision-language models in transformers: Qwen2.5-VL, Qwen3-VL, Qwen3.5 and newer.

A letter takes one forward pass, questions about one video share its prefix, and an adapter can be switched on
and off. Combines prompts (`inputs`), forward passes (`run`), prefixes and loading.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from videopro.backbones.base import (
    GREEDY,
    YES_NO,
    Awaited,
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
from videopro.backbones.qwen.layers import MergedCopy, free_bytes
from videopro.backbones.qwen.load import LoadedModel, load_model
from videopro.backbones.qwen.replies import Collected, NonFiniteLogits, SampledReply
from videopro.backbones.qwen.runner import Arrivals, DecodingState, QwenRunner
from videopro.backbones.qwen.writing import rows_that_fit
from videopro.backbones.texts import without_thoughts
from videopro.errors import BackboneError, is_machines
from videopro.question import Answer, prompts

if TYPE_CHECKING:
    from videopro.video import Frame

T = TypeVar("T")


def _draws(one: Awaited, sampling: Sampling) -> tuple[int | None, int]:
    """What seeds a reply: the request's own seed, or the call's and the number of the request in it."""
    return (sampling.seed, one.number) if one.request.seed is None else (one.request.seed, 0)


_MOST_REPLIES = 64
"""More replies at the same time gain little: their steps become as long as the matrix products of a pass."""


class QwenBackbone(Backbone):
    """A Qwen vision-language model in this process.

    Qwen3-VL and newer receive the true time of each frame; Qwen2.5-VL takes one interval per video and
    receives the mean spacing of the frames. Requests about the same sequence of frames (the same object) in
    one batched call share its encoding; to be written to, they have to follow each other.

    An adapter is merged into a copy of its layers if memory allows (`MergedCopy.where_it_fits`), which
    `versions` tells: with the adapter off, the weights are the base's to the bit.

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
        # Of weights in training it would be one of the past.
        self._copy = None if in_training else MergedCopy.where_it_fits(loaded.model)
        if self._copy is not None:
            self._copy.update()
            self._copy.use(True)
        if loaded.adapter is not None:
            dtype = str(loaded.model.dtype).removeprefix("torch.")
            self.versions = {"adapter": f"merged in {dtype}" if self._copy is not None else "not merged"}
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
        collected = Collected(requests)
        self.generate_joining(sampling, collected)
        return [collected.replies[number] for number in range(len(requests))]

    def generate_joining(self, sampling: Sampling, joining: Joining) -> None:
        """See `JoiningBackbone`. Requests join a batch while it is written, if the model's rows can be
        joined; those to other models are written in batches with the same visual."""
        with self._guard():
            if self._runner.can_join:
                slots = self._slots(sampling)
                while asked := joining.take(slots):
                    self._write_joined(asked, sampling, joining, slots)
            else:
                while asked := joining.take(sys.maxsize):
                    self._write_apart(asked, sampling, joining)

    def _write_joined(
        self, asked: Sequence[Awaited], sampling: Sampling, joining: Joining, slots: int
    ) -> None:
        """Write replies; others join while they are written, as far as there is room."""
        run, takes_arrivals = self._runner, self._runner.takes_arrivals
        rows: dict[int, tuple[Awaited, int]] = {}
        numbers = itertools.count()
        latest: list[tuple[GenerateRequest, PromptHead]] = []

        def begin(asked: Sequence[Awaited]) -> Arrivals | None:
            begun: list[tuple[Awaited, PromptHead, EncodedPrompt]] = []
            for one in asked:
                try:
                    begun.append((one, *self._parts(one.request, latest)))
                except Exception as error:
                    if is_machines(error):
                        raise
                    one.failed(error)
            if not begun:
                return None
            for one, head, tail in begun:
                rows[next(numbers)] = one, head.length + len(tail.ids)
            state = run.start_after([head for _, head, _ in begun], [tail for *_, tail in begun])
            return state, [_draws(one, sampling) for one, *_ in begun]

        def between(is_open: int) -> Arrivals | None:
            joining.pause()
            # Several at once, of many slots: their prompts take a pass, which is longer than a step.
            room = slots - is_open
            return begin(joining.take(room)) if takes_arrivals and room >= max(1, slots // 8) else None

        if (begun := begin(asked)) is not None:
            self._generate(*begun, rows, sampling, between)

    def _parts(
        self, request: GenerateRequest, latest: list[tuple[GenerateRequest, PromptHead]]
    ) -> tuple[PromptHead, EncodedPrompt]:
        """The head of a prompt, after its pass, and its tail. `latest` keeps the head of the latest frames,
        which others may follow."""
        visual = request.visual
        if visual is None:
            (whole,) = self._full_prompts([request], one_token=False)
            head = replace(whole, ids=whole.ids[:-1], types=whole.types[:-1])
            return self._runner.share(head), EncodedPrompt(whole.ids[-1:], whole.types[-1:])
        tail = self._tail(request, one_token=False)
        if isinstance(visual, Prefix):
            return self._shared(visual, request.system), tail
        if not latest or latest[0][0].visual is not visual or latest[0][0].system != request.system:
            latest[:] = [(request, self._shared(visual, request.system))]
        return latest[0][1], tail

    def _write_apart(self, asked: Sequence[Awaited], sampling: Sampling, joining: Joining) -> None:
        """Write replies to requests that no others join, in batches of those with the same visual."""

        def rows(
            numbers: Sequence[int], heads: Sequence[PromptHead], parts: Sequence[EncodedPrompt]
        ) -> list[None]:
            run = self._runner
            state = run.start_after(heads, parts) if heads else run.start(parts)
            before = heads[0].length if heads else 0
            batch = {
                row: (asked[number], before + len(part.ids))
                for row, (number, part) in enumerate(zip(numbers, parts, strict=True))
            }
            draws = [_draws(one, sampling) for one, _ in batch.values()]
            self._generate(state, draws, batch, sampling, lambda is_open: joining.pause())
            return [None] * len(numbers)

        self._serve([one.request for one in asked], rows, one_token=False, even=self._runner.is_recurrent)

    def _generate(
        self,
        state: DecodingState,
        draws: Sequence[tuple[int | None, int]],
        rows: dict[int, tuple[Awaited, int]],
        sampling: Sampling,
        between: Callable[[int], Arrivals | None],
    ) -> None:
        """Write a batch. `rows`: those that continue, and the tokens of their prompts."""

        def on_reply(row: int, reply: SampledReply) -> None:
            one, tokens_in = rows.pop(row)
            one.done(self._generation(reply, tokens_in, is_begun=bool(one.request.prefill)))

        def cancelled() -> list[int]:
            gone = [row for row, (one, _) in rows.items() if one.is_cancelled()]
            for row in gone:
                del rows[row]
            return gone

        self._runner.generate(
            state,
            sampling,
            draws,
            banned=self._banned,
            on_reply=on_reply,
            between=between,
            cancelled=cancelled,
        )

    def _slots(self, sampling: Sampling) -> int:
        """How many replies are written at the same time: `batch_size`, and on a GPU as many more as half of
        its free memory has room for. What is kept for replies counts as free."""
        if self.device.type != "cuda":
            return self._batch
        free = free_bytes(self.device) + self._runner.kept_bytes
        fits = rows_that_fit(free // 2, self._runner.token_bytes, sampling.max_new_tokens)
        return max(self._batch, min(fits, _MOST_REPLIES))

    def _free(self) -> int:
        """Bytes of the GPU's memory that are free; 0 on a CPU."""
        return free_bytes(self.device) if self.device.type == "cuda" else 0

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
                    if one_token and isinstance(visual, Prefix) and self._runner.can_join:
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
        if self._copy is not None:
            self._copy.use(enabled)
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
            self._adapter = self._copy = None
            self._features.clear()
            # PyTorch keeps freed memory for itself, and another model may be loaded next.
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
