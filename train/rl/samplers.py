"""Who writes the replies of a GRPO step: the policy in this process, or engines that serve its adapter.

Both draw each reply from a seed of its own. An engine's log-probabilities differ from those of the update a
little, as all of another implementation do, so the update corrects for them (`importance`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from cachetools import LRUCache

from videopro.backbones import Sampling
from videopro.backbones.qwen import NonFiniteLogits, QwenRunner, SampledReply, check_language_only
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
from videopro.engine.serving import AdapterVersions, Engine, adapter_name
from videopro.errors import BackboneError, Cancellation, VideoProError, cancellable, when_cancelled
from videopro.train.rl.adapter_files import Weights, adapter_weights, random_weights, write_adapter
from videopro.train.rl.data import GRPORow
from videopro.train.rl.engine import TrainingEngines
from videopro.train.rl.prompt_encoder import PolicyPrompt, batches_by_length
from videopro.train.rl.sampling_weights import SamplingWeights
from videopro.train.rl.seeds import mix_seed
from videopro.train.runtime import FrameCache, raise_everywhere


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

    def sync(self, step: int, keep: int | None = None) -> None:
        """Called in every process before replies are drawn, after so many updates. `keep`: an earlier version
        that will be asked for once more."""

    def write(
        self, draws: Sequence[Draw], sampling: Sampling, on_reply: OnReply, version: int | None = None
    ) -> list[SampledReply]:
        """The replies. Those of a remote sampler have the log-probabilities of what they were drawn from,
        after temperature; those of others the model's own. `version`: the policy's that draws, which a remote
        sampler may be asked for when there is a newer one; None: the newest. Raises BackboneError."""

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

    def sync(self, step: int, keep: int | None = None) -> None:
        self.version = step

    def write(
        self, draws: Sequence[Draw], sampling: Sampling, on_reply: OnReply, version: int | None = None
    ) -> list[SampledReply]:
        """See `Sampler`. Raises NonFiniteLogits, whose rows are the indices of draws."""
        assert version in (None, self.version)
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
# Between two looks at an engine that does not answer, and how long they go on: the largest models are loaded
# for minutes.
_TRY_SECONDS = 5.0
_PAUSE_SECONDS = 0.5
_START_SECONDS = 1800.0


class EngineSampler:
    """Engines, which get the adapter before each round under a name with its version.

    `engines` are running; they stay the caller's. `model`: the policy, whose adapter is published. `frames`:
    those of the rows' videos, of at most `pixels` pixels each. `banned` and `ends`: token ids that are never
    drawn, and that end a reply. `decode`: writes token ids as text, for messages. Created and synchronized in
    every process together; then an error of one is raised in all. Raises BackboneError if an engine takes no
    adapter of this model, ConfigError if it would take only a part of it.

    Several engines get prompts in turn, each with all replies to it, which share the prompt's keys and
    values. An engine that dies is started again by its `EngineProcess`, with the newest adapters, and what
    was being written is asked again; the other replies of the round stay.
    """

    is_remote = True

    def __init__(
        self,
        engines: TrainingEngines,
        model: Any,
        frames: FrameCache,
        *,
        pixels: int,
        banned: Sequence[int],
        ends: Sequence[int],
        decode: Callable[[Sequence[int]], str],
    ) -> None:
        self.version = -1
        self._engines = engines
        self._model = model
        self._frames = frames
        self._pixels = pixels
        self._ends = frozenset(ends)
        self._decode = decode
        self._encoded: LRUCache[Path, EncodedFrames] = LRUCache(_VIDEOS)
        self._versions = [AdapterVersions(engine, _POLICY) for engine in engines.started]
        self._clients = [
            TokenClient(engine.url, banned=banned, ends=ends, recover=partial(_patience, engine))
            for engine in engines.engines
        ]
        try:
            # In every process, by the names that all of them have.
            trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
            check_language_only(trained, "this training", "set sampler: local")
            weights = random_weights(self._adapter())
            self._load(lambda versions: versions.check_effect(partial(write_adapter, model, weights)))
        except BaseException:
            self.close()
            raise

    def sync(self, step: int, keep: int | None = None) -> None:
        if step == self.version:
            return
        weights = self._adapter()
        write = partial(write_adapter, self._model, weights)
        self._load(lambda versions: versions.publish(step, write, keep=keep))
        self.version = step

    def _adapter(self) -> Weights:
        return adapter_weights(self._model, needed=bool(self._versions))

    def _load(self, load: Callable[[AdapterVersions], object]) -> None:
        """Load an adapter into the engines that this process started. Returns when all engines have it."""
        failure: VideoProError | None = None
        try:
            for versions in self._versions:
                load(versions)
        except VideoProError as error:
            failure = error
        raise_everywhere(failure, BackboneError)

    def write(
        self, draws: Sequence[Draw], sampling: Sampling, on_reply: OnReply, version: int | None = None
    ) -> list[SampledReply]:
        """See `Sampler`. Sends requests only, so it may run beside the update; not beside itself."""
        name = adapter_name(_POLICY, self.version if version is None else version)
        for video in {draw.row.video for draw in draws if draw.row.prompt_video}:
            # Here and not in the client's threads, of which several would encode the same video.
            self._frames_of(video)
        written: dict[int, SampledReply] = {}

        def draw(client: TokenClient, numbers: Sequence[int]) -> None:
            def take(number: int, drawn: DrawnTokens) -> None:
                self._check_prompt(draws[numbers[number]], drawn.prompt)
                written[numbers[number]] = self._reply(drawn)
                on_reply(numbers[number], written[numbers[number]])

            requests = [
                TokenRequest(partial(self._messages, draws[number].row), mix_seed(*draws[number].seed))
                for number in numbers
            ]
            client.draw(name, requests, sampling, take)

        shares = zip(self._clients, self._shares(draws), strict=True)
        _at_once([partial(draw, client, numbers) for client, numbers in shares if numbers])
        return [written[number] for number in range(len(draws))]

    def _shares(self, draws: Sequence[Draw]) -> list[list[int]]:
        """The indices of the draws that each engine gets: those of one prompt together, prompts in turn, from
        another engine on in each process."""
        turns: dict[PolicyPrompt, int] = {}
        shares: list[list[int]] = [[] for _ in self._clients]
        for number, draw in enumerate(draws):
            turn = turns.setdefault(draw.prompt, self._engines.first + len(turns))
            shares[turn % len(shares)].append(number)
        return shares

    def close(self) -> None:
        """Cancel what is being written, and remove the adapters' files. The engines go on."""
        for client in self._clients:
            client.close()
        for versions in self._versions:
            versions.close()

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


async def _patience(engine: Engine) -> None:
    """Wait until the engine answers. Raises BackboneError if it was given up."""
    end = time.monotonic() + _START_SECONDS
    engine.check()
    # So that an engine which fails at once has the time to be seen dead.
    await asyncio.sleep(_PAUSE_SECONDS)
    while not await asyncio.to_thread(engine.answers) and time.monotonic() < end:
        engine.check()
        await asyncio.sleep(_TRY_SECONDS)


def _at_once(parts: Sequence[Callable[[], None]]) -> None:
    """Run all of them, in threads if they are several. The first error ends the others."""
    if len(parts) == 1:
        parts[0]()
        return
    cancellation = Cancellation()

    def run(part: Callable[[], None]) -> None:
        with cancellable(cancellation):
            part()

    with ThreadPoolExecutor(max(1, len(parts))) as threads, when_cancelled(cancellation.cancel):
        try:
            for done in as_completed([threads.submit(run, part) for part in parts]):
                done.result()
        except BaseException:
            cancellation.cancel()
            raise
