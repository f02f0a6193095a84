"""A run's model served by engines that the command starts: `--engine vllm`.

`Served.of` turns the settings of a local model into the settings of an engine and of its client, and
`Served.start` starts an engine on each GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from videopro.backbones import DEFAULT_FRAMES, MODELS, Backbone, read_spec
from videopro.cli import build_settings
from videopro.engine.serving import (
    EngineProcess,
    EngineSettings,
    ServedModel,
    adapter_rank,
    engine_devices,
    started,
)
from videopro.errors import ConfigError, RunError
from videopro.runs.folder import RunFolder, identity_difference

# Half an hour of tries, 8 s apart: longer than an engine takes to start. One that is given up ends the run.
_RETRIES = 240
# vLLM's own flag, experimental there, with which it takes adapters of the vision tower and the projector.
_WITH_VISION = "--enable-tower-connector-lora"
_OF_LOCAL_MODELS = ("attention", "device_map", "batch_size", "adapter_model", "api_key_env", "engine")


@dataclass(frozen=True)
class Served:
    """A model, with its adapter if it has one, for engines to serve."""

    model: ServedModel
    adapter: str | None
    """The adapter's name on the server."""
    asked_with: Mapping[str, Any]
    """The settings of the backbone that sends the requests."""
    settings: EngineSettings

    @classmethod
    def of(cls, model: str, backbone: Mapping[str, Any], engine: Mapping[str, Any]) -> Served:
        """From the settings of a local model and of `--vllm`. Raises ConfigError for settings that an engine
        does not have and an adapter that it would partly ignore, BackboneError for a missing model or an
        adapter that does not fit it."""
        settings = read_vllm_settings("vllm", engine)
        settings.command()
        unused = [name for name in _OF_LOCAL_MODELS if name in backbone]
        if unused:
            raise ConfigError(f"--backbone {unused[0]}: has no effect with --engine vllm; leave it out")
        config = read_spec(model, **backbone)
        if config.kind == "server":
            raise ConfigError(
                f"--engine vllm starts its own server, but --model {model} is already one; pass a folder or "
                "a hub name, or leave out --engine"
            )
        # Imported late: it imports torch.
        from videopro.backbones.qwen import (
            adapter_folder,
            check_adapter_fits,
            check_language_only,
            find_checkpoint,
            resolve_record,
        )

        checkpoint = find_checkpoint(config.model)
        resolved = resolve_record(config, checkpoint)
        name = model if model in MODELS else _name(config.model)
        adapters, rank, adapter = {}, 0, None
        if config.adapter:
            names = check_adapter_fits(config.adapter, config.model)
            if _WITH_VISION not in settings.flags:
                check_language_only(
                    names,
                    f"adapter {config.adapter!r}",
                    "use --engine local, or merge it (videopro merge) and serve the result",
                )
            folder = adapter_folder(config.adapter)
            adapter = _name(str(backbone["adapter"]))
            adapter = f"{adapter}-adapter" if adapter == name else adapter
            adapters, rank = {adapter: folder}, adapter_rank(folder)
        served = ServedModel(
            str(Path(checkpoint.source).absolute())
            if Path(checkpoint.source).is_dir()
            else checkpoint.source,
            name,
            max(resolved.frames, DEFAULT_FRAMES),
            config.dtype,
            rank,
            adapters,
            str(checkpoint.marked(resolved.video_marks).processor.chat_template),
        )
        asked_with = {key: value for key, value in backbone.items() if key not in ("adapter", "dtype")}
        asked_with = {"retries": _RETRIES, **asked_with, "engine": "vllm"}
        if adapter is not None:
            asked_with["adapter_model"] = adapter
        return cls(served, adapter, asked_with, settings)

    def check(self, folder: RunFolder) -> None:
        """Compare the model with a finished run's model, without starting an engine. Raises RunError if it is
        another."""
        recorded = (folder.recorded_identity() or {}).get("model") or {}
        now = {"kind": "server", "model": self.model.name, "weights": self.model.source}
        now["adapter_model"] = self.adapter  # type: ignore[assignment]
        lines = identity_difference({"model": {name: recorded.get(name) for name in now}}, {"model": now})
        if lines:
            raise RunError(
                f"{folder.path}: contains another run; set another --output, or use the settings of that run:"
                + "".join(f"\n  {line}" for line in lines)
            )

    @contextmanager
    def start(
        self, logs: Path, load: Callable[..., Backbone], *, rank: int = 0, most: int | None = None
    ) -> Iterator[Engines]:
        """Run engines, one on each GPU (at most `most`), until the block ends, and make their clients: `load`
        with their addresses. `logs`: the folder of their logs, whose names start with this process's `rank`.
        Raises BackboneError if one does not start."""
        devices = engine_devices(self.settings.gpus)[:most]
        processes = [
            EngineProcess(
                self.settings,
                self.model,
                log=logs / f"rank{rank}-engine{'' if device is None else '-' + device.replace(',', '-')}.log",
                device=device,
            )
            for device in devices
        ]
        with started(processes):
            yield Engines(
                processes,
                [
                    partial(load, f"server:{self.model.name}@{process.url}", **self.asked_with)
                    for process in processes
                ],
            )


@dataclass(frozen=True)
class Engines:
    """Running engines."""

    processes: Sequence[EngineProcess]
    loaders: Sequence[Callable[[], Backbone]]
    """Makes the backbone that uses the engine with the same index."""

    def check(self) -> None:
        """Raise BackboneError if an engine failed for good."""
        for process in self.processes:
            process.check()


def read_vllm_settings(engine: str, mapping: Mapping[str, Any]) -> EngineSettings:
    """The settings of `--vllm`. Raises ConfigError for invalid ones, and for settings of an engine that is
    not used."""
    if engine != "vllm" and mapping:
        raise ConfigError("--vllm: has no effect without --engine vllm; add that, or leave --vllm out")
    return build_settings(EngineSettings, mapping, "vllm")


def _name(source: str) -> str:
    path = Path(source).expanduser()
    return path.resolve().name if path.is_dir() else source
