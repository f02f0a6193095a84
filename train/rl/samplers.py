"""Who writes the replies of a GRPO step: the policy in this process, or an engine that serves its adapter.

Both draw each reply from a seed of its own. An engine's log-probabilities differ from those of the update a
little, as all of another implementation do, so the update corrects for them (`importance`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from cachetools import LRUCache

from videopro.backbones import Sampling
from videopro.backbones.qwen import NonFiniteLogits, QwenRunner, SampledReply
from videopro.backbones.server import (
    DrawnTokens,
    EncodedFrames,
    Messages,
    TokenClient,
    TokenRequest,
    difference,
    encode_frames,
    user_message,
)
from videopro.engine.serving import AdapterVersions, EngineProcess
from videopro.errors import BackboneError
from videopro.train.rl.adapter_files import write_adapter, write_random_adapter
from videopro.train.rl.data import GRPORow
from videopro.train.rl.prompt_encoder import PolicyPrompt, batches_by_length
from videopro.train.rl.sampling_weights import SamplingWeights
from videopro.train.rl.seeds import mix_seed
from videopro.train.runtime import FrameCache


@dataclass(frozen=True, eq=False)
class Draw:
    """One reply to be drawn."""

    prompt: PolicyPrompt
    row: GRPORow
    """Whose prompt it is."""
    seed: tuple[int, int]
    """Two numbers, which together seed it."""


OnReply = Callable[[int, SampledReply], None]
"""Called with the index of a draw and its reply, as soon as that is complete."""


class Sampler(Protocol):
    """Draws replies of the policy."""

    version: int
    """The number of updates that the policy had which draws."""
    is_remote: bool
    """Whether other weights than those in this process draw, by another implementation."""

    def sync(self, step: int) -> None:
        """Called in every process before replies are drawn, after so many updates."""

    def write(self, draws: Sequence[Draw], sampling: Sampling, on_reply: OnReply) -> list[SampledReply]:
        """The replies. Those of a remote sampler have the log-probabilities of what they were drawn from,
        after temperature; those of others the model's own. Raises BackboneError."""

    def close(self) -> None:
        """Forget the policy."""


class LocalSampler:
    """The policy in this process, with `weights` to sample with. `banned`: token ids that are never drawn;
    `batch_size`: replies that are drawn at a time at most (None: all)."""

    is_remote = False

    def __init__(
        self, run: QwenRunner, weights: SamplingWeights, *, banned: Sequence[int], batch_size: int | None
    ) -> None:
        self.version = 0
        self.weights = weights
        self._run = run
        self._banned = tuple(banned)
        self._batch_size = batch_size

    def sync(self, step: int) -> None:
        self.version = step

    def write(self, draws: Sequence[Draw], sampling: Sampling, on_reply: OnReply) -> list[SampledReply]:
        """See `Sampler`. Raises NonFiniteLogits, whose rows are the indices of draws."""
        with self.weights.in_use():
            return self._write(draws, sampling, on_reply)

    def _write(self, draws: Sequence[Draw], sampling: Sampling, on_reply: OnReply) -> list[SampledReply]:
        prompts = [draw.prompt for draw in draws]
        written: dict[int, SampledReply] = {}
        for batch in batches_by_length(prompts, self._batch_size or len(prompts)):
            # Each distinct prompt runs once and is forked for its replies.
            distinct = list(dict.fromkeys(prompts[number] for number in batch))
            state = self._run.start([prompt.encoded for prompt in distinct])
            state = self._run.fork(state, [distinct.index(prompts[number]) for number in batch])
            try:
                replies = self._run.generate(
                    state,
                    sampling,
                    [draws[number].seed for number in batch],
                    banned=self._banned,
                    on_reply=partial(_renumbered, on_reply, batch),
                )
            except NonFiniteLogits as error:
                raise NonFiniteLogits([batch[row] for row in error.rows]) from error
            written.update(zip(batch, replies, strict=True))
        return [written[number] for number in range(len(prompts))]

    def close(self) -> None:
        pass


def _renumbered(on_reply: OnReply, numbers: Sequence[int], row: int, reply: SampledReply) -> None:
    on_reply(numbers[row], reply)


_POLICY = "policy"
# Videos whose encoded frames are kept: more than a round of sampling has; about 1 MB each.
_VIDEOS = 256
_TRY_SECONDS = 5.0


class EngineSampler:
    """An engine, which gets the adapter before each round under a name with its version.

    `engine` is running; it stays the caller's. `model`: the policy, whose adapter is published. `frames`:
    those of the rows' videos, of at most `pixels` pixels each. `banned` and `ends`: token ids that are never
    drawn, and that end a reply. `decode`: writes token ids as text, for messages. Raises BackboneError if
    the engine takes no adapter of this model.

    An engine that dies is started again by `EngineProcess`, with the newest adapters, and what was being
    written is asked again; the other replies of the round stay.
    """

    is_remote = True

    def __init__(
        self,
        engine: EngineProcess,
        model: Any,
        frames: FrameCache,
        *,
        pixels: int,
        banned: Sequence[int],
        ends: Sequence[int],
        decode: Callable[[Sequence[int]], str],
    ) -> None:
        self.version = 0
        self._engine = engine
        self._model = model
        self._frames = frames
        self._pixels = pixels
        self._ends = frozenset(ends)
        self._decode = decode
        self._encoded: LRUCache[Path, EncodedFrames] = LRUCache(_VIDEOS)
        self._versions = AdapterVersions(engine, _POLICY)
        self._client = TokenClient(engine.url, banned=banned, ends=ends, sleep=self._patience)
        try:
            self._versions.check_effect(partial(write_random_adapter, model))
        except BaseException:
            self.close()
            raise

    def sync(self, step: int) -> None:
        self._versions.publish(step, partial(write_adapter, self._model))
        self.version = step

    def write(self, draws: Sequence[Draw], sampling: Sampling, on_reply: OnReply) -> list[SampledReply]:
        for video in {draw.row.video for draw in draws if draw.row.prompt_video}:
            # Here and not in the client's threads, of which several would encode the same video.
            self._frames_of(video)

        def take(number: int, drawn: DrawnTokens) -> None:
            self._check_prompt(draws[number], drawn.prompt)
            on_reply(number, self._reply(drawn))

        requests = [TokenRequest(partial(self._messages, draw.row), mix_seed(*draw.seed)) for draw in draws]
        drawn = self._client.draw(self._versions.name, requests, sampling, take)
        return [self._reply(reply) for reply in drawn]

    def close(self) -> None:
        """Cancel what is being written, and remove the adapters' files. The engine goes on."""
        self._client.close()
        self._versions.close()

    async def _patience(self, seconds: float) -> None:
        """Wait before the next try, unless the engine was given up."""
        self._engine.check()
        # Longer waits would outlast the start of the next engine.
        await asyncio.sleep(min(seconds, _TRY_SECONDS))

    def _messages(self, row: GRPORow) -> Messages:
        system = row.system or ""
        if not row.prompt_video:
            return user_message(None, row.text, False, system=system)
        encoded = self._frames_of(row.video)
        as_video = len(encoded.jpegs) > 1
        return user_message(encoded, row.prompt, as_video, system=system, before=row.before)

    def _frames_of(self, video: Path) -> EncodedFrames:
        encoded = self._encoded.get(video)
        if encoded is None:
            encoded = self._encoded[video] = encode_frames(self._frames.frames(video), self._pixels)
        return encoded

    def _check_prompt(self, draw: Draw, ids: tuple[int, ...]) -> None:
        """Raise BackboneError unless the engine's prompt is ours, after which the update scores the reply."""
        if differs := difference(ids, draw.prompt.encoded.ids, self._decode):
            raise BackboneError(
                f"the engine's prompt of row {draw.row.id!r} is not ours, after which its replies are "
                f"trained: {differs}; or set sampler: local"
            )

    def _reply(self, drawn: DrawnTokens) -> SampledReply:
        ids, logprobs = list(drawn.ids), list(drawn.logprobs)
        if drawn.is_ended and ids and ids[-1] in self._ends:
            return SampledReply(ids[:-1], logprobs[:-1], (ids[-1], logprobs[-1]))
        return SampledReply(ids, logprobs)
