"""The engines of a GRPO run: they serve the start without its adapter, which answers inside programs, and
with it each version of the policy's adapter, which writes replies (`EngineSampler`).

Each process has one next to its training, on its GPU, or the processes of a machine share engines on GPUs of
their own (`engine_gpus`). Such an engine is started, watched and ended by one process, which loads the
adapters into it; all processes ask it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from cachetools import LRUCache
from peft import get_peft_model_state_dict
from safetensors.torch import save_file
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from trl import ModelConfig

from videopro.backbones import Backbone, Sampling, load_backbone, read_spec
from videopro.backbones.qwen import (
    SampledReply,
    adapter_folder,
    check_language_only,
)
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
from videopro.cli import build_settings
from videopro.engine.serving import (
    AdapterVersions,
    AttachedEngine,
    Engine,
    EngineProcess,
    EngineSettings,
    ServedModel,
    adapter_name,
    adapter_rank,
    dedicated_devices,
    engine_devices,
    started,
)
from videopro.errors import (
    BackboneError,
    Cancellation,
    ConfigError,
    cancellable,
    when_cancelled,
    writing,
)
from videopro.train.rl.config import VideoGRPOConfig
from videopro.train.rl.data import GRPORow, mix_seed
from videopro.train.rl.prompt_encoder import PolicyPrompt
from videopro.train.rl.samplers import Draw, OnReply
from videopro.train.runtime import FrameCache, TrainingSetup, raised_everywhere

_SPREAD = 0.05
_SEED = 0


Weights = Mapping[str, torch.Tensor]
"""Of an adapter, by the names in its file."""


def adapter_weights(model: Any, *, needed: bool = True) -> Weights:
    """Copies of the weights of a PEFT model's adapter. Called in every process; empty where they are not
    `needed`."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    gathered: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    if is_deepspeed_zero3_enabled():
        import deepspeed

        gathered = deepspeed.zero.GatheredParameters(trained)
    with gathered:
        if not needed:
            return {}
        # Not by save_pretrained, which asks the hub for the base's config.
        weights = get_peft_model_state_dict(model, save_embedding_layers=False)
        return {name: weight.detach().cpu().clone().contiguous() for name, weight in weights.items()}


def random_weights(weights: Weights) -> Weights:
    """Weights of the same form that change every reply; a new adapter's weights change nothing."""
    generator = torch.Generator().manual_seed(_SEED)
    return {
        name: torch.randn(weight.shape, generator=generator).to(weight.dtype) * _SPREAD
        if "lora_B" in name
        else weight
        for name, weight in weights.items()
    }


def write_adapter(model: Any, weights: Weights, folder: Path) -> None:
    """Write an adapter with these weights and the settings of a PEFT model's into a folder. Raises RunError
    if the disk, or the memory that stands for one, does not take it."""
    # safetensors raises its own error for a full disk, not OSError.
    with writing("the engine's adapter", folder, then="re-run the same command to resume"):
        save_file(dict(weights), folder / "adapter_model.safetensors")
        settings = model.peft_config[model.active_adapter]
        settings.save_pretrained(str(folder))


# With a model in training on the same GPU.
_MEMORY = 0.45
# Half an hour of tries, 8 s apart: longer than an engine takes to start.
_RETRIES = 240
_DTYPES = {"bfloat16": "bf16", "float32": "fp32"}


@dataclass(frozen=True)
class TrainingEngines:
    """The engines that a process asks, all of one model."""

    model: ServedModel
    engines: Sequence[Engine]
    started: Sequence[EngineProcess]
    """Engines that this process started."""
    first: int = 0
    """The index of the engine that it asks first."""


@contextmanager
def training_engines(
    training: VideoGRPOConfig, model: ModelConfig, start: TrainingSetup
) -> Iterator[TrainingEngines]:
    """This process's engines, until the block ends. Call it in every process, before the model is loaded:
    vLLM measures the memory that is free. Raises ConfigError, and in every process BackboneError or RunError
    if one does not start."""
    if not (training.adapter or model.use_peft):
        raise ConfigError(
            "sampler is 'vllm', but all weights are trained and engines only take adapters; set use_peft: "
            "true, or sampler: local"
        )
    named = training.dedicated_gpus
    beside = {} if named else {"memory": _MEMORY}
    settings = build_settings(
        EngineSettings, {**beside, **_start_limit(training), **training.mapping("vllm")}, "vllm"
    )
    if PartialState().num_processes > 1 and settings.start_seconds >= training.ddp_timeout:
        raise ConfigError(
            f"vllm: start_seconds is {settings.start_seconds}, but processes wait at most "
            f"{training.ddp_timeout} s for each other; set a larger --ddp_timeout, or fewer start_seconds"
        )
    # In every process, also in those that start none.
    settings.command()
    served = _served(training, model, start)
    logs = Path(str(training.output_dir)) / "engine"
    state = PartialState()
    if named:
        apart = dedicated_devices(named, settings.gpus, trains_on_gpu=training.device.type == "cuda")
        devices: list[str | None] = [*apart]
        local, processes = state.local_process_index, int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        # Of this machine's first process, which identifies the machine: several may have one name.
        machine = state.process_index - local
        host = socket.gethostname() + (f"-rank{machine}" if machine else "")
        names = [f"{host}-gpu{device.replace(',', '-')}" for device in apart]
    else:
        # Each process counts as a machine, with one engine.
        devices, names = engine_devices(settings.gpus)[:1], [f"rank{state.process_index}"]
        local, processes, machine = 0, 1, state.process_index
    # By which the processes that only ask an engine see that it was given up.
    failures = [logs / f"{name}.failed" for name in names]
    # By the index of the engine; the processes of a machine start them in turn.
    here = {
        index: EngineProcess(
            settings,
            served,
            log=logs / f"{names[index]}.log",
            device=devices[index],
            failure=failures[index] if named else None,
        )
        for index in range(local, len(devices), processes)
    }
    with ExitStack() as running:
        with raised_everywhere(BackboneError):
            running.enter_context(started(list(here.values())))
        urls: dict[int, str] = {}
        for started_on, own in gather_object([(machine, {index: e.url for index, e in here.items()})]):
            if started_on == machine:
                urls.update(own)
        engines: list[Engine] = [
            here[index] if index in here else AttachedEngine(urls[index], failure)
            for index, failure in enumerate(failures)
        ]
        yield TrainingEngines(served, engines, list(here.values()), first=local % len(engines))


def _start_limit(training: VideoGRPOConfig) -> dict[str, Any]:
    """The seconds within which an engine must respond while other processes wait for it."""
    if PartialState().num_processes == 1:
        return {}
    # Below the limit of a collective operation, whose end would hide which engine did not start.
    return {"start_seconds": max(1, int(training.ddp_timeout * 2 / 3))}


def _served(training: VideoGRPOConfig, model: ModelConfig, start: TrainingSetup) -> ServedModel:
    source = start.checkpoint.source
    is_folder = Path(source).is_dir()
    return ServedModel(
        str(Path(source).absolute()) if is_folder else source,
        "pocket" if model.model_name_or_path == "pocket" else Path(source).name if is_folder else source,
        start.frames,
        _DTYPES.get(str(model.dtype), "auto"),
        adapter_rank(adapter_folder(start.adapter)) if start.adapter else model.lora_r,
        chat_template=str(start.checkpoint.processor.chat_template),
    )


def answering_engine(engines: TrainingEngines, start: TrainingSetup) -> Backbone:
    """The backbone that asks the base of this process's first engine, for the modules of programs."""
    spec = read_spec(
        f"server:{engines.model.name}@{engines.engines[engines.first].url}",
        frames=start.frames,
        pixels=start.pixels,
        engine="vllm",
        retries=_RETRIES,
    )
    return load_backbone(spec)


_POLICY = "policy"
# Videos whose encoded frames are kept: more than a round of sampling has; about 1 MB each.
_VIDEOS = 256
# Between two looks at an engine that does not answer, and for how long: the largest models are loaded for
# minutes.
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
        with raised_everywhere(BackboneError):
            for versions in self._versions:
                load(versions)

    def write(
        self, draws: Sequence[Draw], sampling: Sampling, on_reply: OnReply, version: int | None = None
    ) -> list[SampledReply]:
        """See `Sampler`. Sends requests only, so it may run during the update, but not twice at once."""
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
        """Cancel requests in flight, and remove the adapters' files. The engines keep running."""
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
        """Raise BackboneError unless the engine's prompt equals the prompt after which the update scores the
        reply."""
        if differs := difference(ids, draw.prompt.encoded.ids, self._decode):
            raise BackboneError(
                f"the engine's prompt for row {draw.row.id!r} differs from the one that training scores: "
                f"{differs}; or set sampler: local"
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
