"""The engines of a GRPO run: they serve the start without its adapter, which answers inside programs, and
each version of the policy's adapter beside it.

Each process has one beside its training, on its GPU, or the processes of a machine share engines on GPUs of
their own (`engine_gpus`). Such an engine is started, watched and ended by one process, which loads the
adapters into it; all processes ask it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import gather_object
from trl import ModelConfig

from videopro.backbones import Backbone, load_backbone, read_spec
from videopro.backbones.qwen import adapter_folder
from videopro.cli import build_settings
from videopro.engine.serving import (
    AttachedEngine,
    Engine,
    EngineProcess,
    EngineSettings,
    ServedModel,
    adapter_rank,
    dedicated_devices,
    engine_devices,
    started,
)
from videopro.errors import BackboneError, ConfigError, VideoProError
from videopro.train.rl.config import VideoGRPOConfig
from videopro.train.runtime import TrainingSetup, raise_everywhere

# Beside a model in training on the same GPU.
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
    """Those of them that this process started."""
    first: int = 0
    """The index of the one that it asks first."""


@contextmanager
def training_engines(
    training: VideoGRPOConfig, model: ModelConfig, start: TrainingSetup
) -> Iterator[TrainingEngines]:
    """This process's engines, until the block ends. Call it in every process, before the model is loaded:
    vLLM measures the memory that is free. Raises ConfigError, and in every process BackboneError or RunError
    if one does not start."""
    if not (training.adapter or model.use_peft):
        raise ConfigError(
            "sampler is 'vllm', and all weights are trained: an engine gets adapters only; set use_peft: "
            "true, or sampler: local"
        )
    named = training.dedicated_gpus
    beside = {} if named else {"memory": _MEMORY}
    settings = build_settings(
        EngineSettings, {**beside, **_start_limit(training), **training.mapping("vllm")}, "vllm"
    )
    if PartialState().num_processes > 1 and settings.start_seconds >= training.ddp_timeout:
        raise ConfigError(
            f"vllm: start_seconds is {settings.start_seconds}, and the processes wait for each other for at "
            f"most {training.ddp_timeout} s; give a larger --ddp_timeout, or fewer start_seconds"
        )
    # In every process, also in those that start none.
    settings.command()
    served = _served(training, model, start)
    logs = Path(str(training.output_dir)) / "engine"
    state = PartialState()
    if not named:
        log = logs / f"rank{state.process_index}.log"
        process = EngineProcess(settings, served, log=log, device=engine_devices(settings.gpus)[0])
        with _started_everywhere([process]):
            yield TrainingEngines(served, [process], [process])
        return
    devices = dedicated_devices(named, settings.gpus, trains_on_gpu=training.device.type == "cuda")
    local, processes = state.local_process_index, int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    # Of this machine's first process, by which machines are told apart: several may have one name.
    machine = state.process_index - local
    host = socket.gethostname() + (f"-rank{machine}" if machine else "")
    names = [f"{host}-gpu{device.replace(',', '-')}" for device in devices]
    failures = [logs / f"{name}.failed" for name in names]
    # By the index of the engine; the processes of a machine start them in turn.
    here = {
        index: EngineProcess(
            settings,
            served,
            log=logs / f"{names[index]}.log",
            device=devices[index],
            failure=failures[index],
        )
        for index in range(local, len(devices), processes)
    }
    with _started_everywhere(list(here.values())):
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
    """Within how many seconds an engine has to answer while other processes wait for it."""
    if PartialState().num_processes == 1:
        return {}
    # Below the limit of a collective operation, whose end would hide which engine did not start.
    return {"start_seconds": max(1, int(training.ddp_timeout * 2 / 3))}


@contextmanager
def _started_everywhere(processes: Sequence[EngineProcess]) -> Iterator[None]:
    """Within, these run, and those of all other processes of the training. If one does not start, all
    processes raise: the others would wait for its process."""
    with ExitStack() as running:
        failure: VideoProError | None = None
        try:
            running.enter_context(started(processes))
        except VideoProError as error:
            failure = error
        raise_everywhere(failure, BackboneError)
        yield


def _served(training: VideoGRPOConfig, model: ModelConfig, start: TrainingSetup) -> ServedModel:
    source = start.checkpoint.source
    is_folder = Path(source).is_dir()
    return ServedModel(
        str(Path(source).absolute()) if is_folder else source,
        "pocket" if model.model_name_or_path == "pocket" else Path(source).name if is_folder else source,
        start.frames,
        _DTYPES.get(str(model.dtype), "auto"),
        adapter_rank(adapter_folder(start.adapter)) if start.adapter else model.lora_r,
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
