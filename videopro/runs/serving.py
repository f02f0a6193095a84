"""A run's model behind engines that the command starts itself: `--engine vllm`.

From the settings of a model in this process, `Served.of` makes what an engine serves and how it is asked, and
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
    """A model, with its adapter if it has one, as engines serve it."""

    model: ServedModel
    adapter: str | None
    """The name of the adapter there."""
    asked_with: Mapping[str, Any]
    """The settings of the backbone that asks for them."""
    settings: EngineSettings

    @classmethod
    def of(cls, model: str, backbone: Mapping[str, Any], engine: Mapping[str, Any]) -> Served:
        """For the settings of a local model and of `--vllm`. Raises ConfigError for settings that an engine
        does not have and an adapter that it would leave out in part, BackboneError for a model that is not
        there, or an adapter that does not fit it."""
        settings = read_vllm_settings("vllm", engine)
        settings.command()
        unused = [name for name in _OF_LOCAL_MODELS if name in backbone]
        if unused:
            raise ConfigError(f"--backbone {unused[0]}: has no effect with --engine vllm; leave it out")
        config = read_spec(model, **backbone)
        if config.kind == "server":
            raise ConfigError(
                f"--engine vllm starts a server of its own, and --model {model} is one; give a folder or a "
                "hub name, or leave --engine out"
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
        )
        asked_with = {key: value for key, value in backbone.items() if key not in ("adapter", "dtype")}
        asked_with = {"retries": _RETRIES, **asked_with, "engine": "vllm"}
        if adapter is not None:
            asked_with["adapter_model"] = adapter
        return cls(served, adapter, asked_with, settings)

    def check(self, folder: RunFolder) -> None:
        """Compare the model with that of a finished run, by what is known without an engine. Raises RunError
        if it is another."""
        recorded = (folder.recorded_identity() or {}).get("model") or {}
        now = {"kind": "server", "model": self.model.name, "weights": self.model.source}
        now["adapter_model"] = self.adapter  # type: ignore[assignment]
        lines = identity_difference({"model": {name: recorded.get(name) for name in now}}, {"model": now})
        if lines:
            raise RunError(
                f"{folder.path}: contains another run; give another --output, or the settings of that run:"
                + "".join(f"\n  {line}" for line in lines)
            )

    @contextmanager
    def start(
        self, logs: Path, load: Callable[..., Backbone], *, rank: int = 0, most: int | None = None
    ) -> Iterator[Engines]:
        """Engines, one on each GPU (at most `most`), until the block ends, and what asks each of them: `load`
        with their addresses. `logs`: the folder of their logs, which begin with this process's `rank`. Raises
        BackboneError if one does not start."""
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
    """Makes the backbone that asks the engine of the same index."""

    def check(self) -> None:
        """Raise BackboneError if one was given up."""
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
