"""The engine of a GRPO run: it serves the start without its adapter, which answers inside programs, and each
version of the policy's adapter beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelerate import PartialState
from trl import ModelConfig

from videopro.backbones import Backbone, load_backbone, read_spec
from videopro.backbones.qwen import adapter_folder
from videopro.cli import build_settings
from videopro.engine.serving import (
    EngineProcess,
    EngineSettings,
    ServedModel,
    adapter_rank,
    engine_devices,
)
from videopro.errors import ConfigError
from videopro.train.rl.config import VideoGRPOConfig
from videopro.train.runtime import TrainingSetup

# Beside a model in training on the same GPU.
_MEMORY = 0.45
# About half an hour of tries: longer than an engine takes to start again.
_RETRIES = 64
_DTYPES = {"bfloat16": "bf16", "float32": "fp32"}


@contextmanager
def training_engine(
    training: VideoGRPOConfig, model: ModelConfig, start: TrainingSetup
) -> Iterator[EngineProcess]:
    """This process's engine, until the block ends. Start it before the model is loaded: vLLM measures the
    memory that is free. Raises ConfigError or BackboneError."""
    if not (training.adapter or model.use_peft):
        raise ConfigError(
            "sampler is 'vllm', and all weights are trained: an engine gets adapters only; set use_peft: "
            "true, or sampler: local"
        )
    settings = build_settings(EngineSettings, {"memory": _MEMORY, **training.mapping("vllm")}, "vllm")
    source = start.checkpoint.source
    is_folder = Path(source).is_dir()
    rank = adapter_rank(adapter_folder(start.adapter)) if start.adapter else model.lora_r
    served = ServedModel(
        str(Path(source).absolute()) if is_folder else source,
        "pocket" if model.model_name_or_path == "pocket" else Path(source).name if is_folder else source,
        start.frames,
        _DTYPES.get(str(model.dtype), "auto"),
        rank,
    )
    process = PartialState().process_index
    log = Path(str(training.output_dir)) / "engine" / f"rank{process}.log"
    with EngineProcess(settings, served, log=log, device=engine_devices(settings.gpus)[0]) as engine:
        yield engine


def answering_engine(engine: EngineProcess, start: TrainingSetup) -> Backbone:
    """The backbone that asks the engine's base, for the modules of programs."""
    spec = read_spec(
        f"server:{engine.model.name}@{engine.url}",
        frames=start.frames,
        pixels=start.pixels,
        engine="vllm",
        retries=_RETRIES,
    )
    return load_backbone(spec)
