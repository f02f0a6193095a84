"""Loads a Qwen vision-language checkpoint (config, weights, processor, adapter), with clear errors."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from peft import PeftConfig, PeftModel, get_peft_model_state_dict
from peft.utils import load_peft_weights
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
from transformers.processing_utils import ProcessorMixin
from transformers.utils.hub import cached_file

from videopro.backbones.base import BackboneConfig, PlannerRecord
from videopro.backbones.fingerprint import folder_fingerprint
from videopro.backbones.qwen.defaults import lasting_name, read_defaults
from videopro.errors import BackboneError
from videopro.library_messages import hide_weights_bar
from videopro.storage import non_finite, non_finite_in


@dataclass(frozen=True)
class LoadedModel:
    """A checkpoint in memory."""

    model: PreTrainedModel
    """The base model, with the adapter's layers inserted."""
    adapter: PeftModel | None
    """The adapter around the same model, to turn it on and off."""
    processor: ProcessorMixin
    frames: int
    pixels: int
    facts: Mapping[str, object]
    """What `Backbone.identity` returns."""
    planner: PlannerRecord | None = None
    """What the checkpoint, or the adapter's folder, records of it as a planner."""


@dataclass(frozen=True)
class Checkpoint:
    """A valid checkpoint, without its weights."""

    name: str
    """The name that the user gave."""
    source: str
    """Folder or hub name."""
    folder: Path
    settings: Any
    """The model's config."""
    processor: ProcessorMixin
    frames: int
    """The budgets it was trained for; see `videopro.backbones.qwen.defaults`."""
    pixels: int
    planner: PlannerRecord | None = None
    """What it records of itself as a planner."""


def find_checkpoint(name: str) -> Checkpoint:
    """The checkpoint for a name, without its weights. Raises `BackboneError` or `ConfigError`, which say how
    to fix the problem."""
    source = _source(name, "model")
    settings = _settings(name, source)
    folder = _folder(source)
    own = read_defaults(folder)
    processor = _processor(name, source)
    return Checkpoint(name, source, folder, settings, processor, own.frames, own.pixels, own.planner)


def load_weights(found: Checkpoint, device: torch.device | None, **options: Any) -> PreTrainedModel:
    """Load a checkpoint's model and move it to `device` unless that is None; `options` go to from_pretrained.
    Raises BackboneError for weights that are broken, incomplete or too large."""
    name = found.name
    hide_weights_bar()
    try:
        loaded: Any = AutoModelForImageTextToText.from_pretrained(
            found.source, config=found.settings, output_loading_info=True, **options
        )
        model, info = loaded
        if device is not None:
            model = model.to(device)
    except torch.OutOfMemoryError as error:
        raise BackboneError(
            f"model {name!r} does not fit into the memory of {device or 'the devices'}; use a smaller model, "
            "dtype 'bf16', or device_map 'auto' to spread it"
        ) from error
    except (OSError, ValueError, RuntimeError, ImportError, KeyError, SafetensorError) as error:
        raise BackboneError(f"model {name!r}: its weights cannot be loaded ({_first_line(error)})") from error
    if info["missing_keys"]:
        examples = ", ".join(sorted(info["missing_keys"])[:3])
        raise BackboneError(
            f"model {name!r}: {len(info['missing_keys'])} weights are missing ({examples}, ...) and would be "
            "random; the folder or download is incomplete, or the checkpoint is of another architecture"
        )
    # Checked after the move to the device: a GPU does this quickly.
    damaged = non_finite(model.named_parameters())
    if damaged is not None:
        raise BackboneError(
            f"model {name!r}: {_locate(found.folder, damaged)} holds NaN or infinite weights; download or "
            "save the checkpoint again"
        )
    whole: PreTrainedModel = model
    return whole


def _locate(folder: Path, parameter: str) -> str:
    """The damaged file and tensor, by the tensor's name in the file."""
    for file in sorted(folder.glob("*.safetensors")):
        name = non_finite_in(file)
        if name is not None:
            return f"{file}: tensor {name}"
    return f"{folder}: parameter {parameter}"


def load_model(config: BackboneConfig) -> LoadedModel:
    """Load the model and adapter of `config`. Raises `BackboneError` or `ConfigError`, which say how to fix
    the problem."""
    name = config.model
    found = find_checkpoint(name)
    device_map, device = _device(config)
    dtype = _dtype(config, device)
    model = load_weights(
        found,
        device if device_map is None else None,
        dtype=dtype,
        attn_implementation=config.attention,
        device_map=device_map,
    )
    model.eval().requires_grad_(False)
    adapter = attach_adapter(model, config.adapter, name) if config.adapter else None
    return LoadedModel(
        model=model,
        adapter=adapter,
        processor=found.processor,
        frames=config.frames or found.frames,
        pixels=config.pixels or found.pixels,
        facts=checkpoint_facts(config, found),
        planner=planner_record(config, found),
    )


def planner_record(config: BackboneConfig, found: Checkpoint) -> PlannerRecord | None:
    """What the adapter's folder records, else the checkpoint's; the base is the checkpoint's in any case, as
    an adapter on a merged planner leaves that planner when it is turned off."""
    if not config.adapter:
        return found.planner
    own = read_defaults(_adapter_folder(config.adapter)).planner
    if own is None or found.planner is None:
        return own or found.planner
    return replace(own, base=found.planner.base, weights=found.planner.weights)


def made_from(found: Checkpoint, own: PlannerRecord | None) -> PlannerRecord:
    """What a planner records that was made from a checkpoint and has no adapter to turn off. `own`: the
    record of its prompts. A planner that was made from another planner has the base of that one."""
    before = found.planner
    if before is None or not before.base:
        before = PlannerRecord(lasting_name(found.source), folder_fingerprint(found.folder))
    return replace(before, prompts={} if own is None else own.prompts)


def _adapter_folder(adapter: str) -> Path:
    return _folder(_source(adapter, "adapter"), "adapter_config.json")


def checkpoint_facts(config: BackboneConfig, found: Checkpoint) -> dict[str, object]:
    """What `Backbone.identity` returns for a checkpoint with its adapter on; reads files but loads no
    weights. Raises BackboneError."""
    _, device = _device(config)
    planner = planner_record(config, found)
    model_class: Any = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING[type(found.settings)]
    return {
        "kind": "qwen",
        "model": Path(found.source).name if Path(found.source).is_dir() else found.source,
        "class": model_class.__name__,
        "weights": folder_fingerprint(found.folder),
        "adapter": folder_fingerprint(_adapter_folder(config.adapter)) if config.adapter else None,
        "dtype": str(_dtype(config, device)).removeprefix("torch."),
        "attention": config.attention,
        "frames": config.frames or found.frames,
        "pixels": config.pixels or found.pixels,
        **(planner.facts() if planner is not None else {}),
    }


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:300] or type(error).__name__


def _source(name: str, what: str) -> str:
    """The path of an existing folder, else the hub name. Raises BackboneError for a name that is neither."""
    path = Path(name).expanduser()
    if path.is_dir():
        return str(path)
    if path.exists():
        raise BackboneError(f"{what} {name!r} is a file; give the folder with its config and weights")
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise BackboneError(
            f"{what} {name!r}: there is no such folder; give an existing one or a hub name such as "
            "Qwen/Qwen3-VL-8B-Instruct"
        )
    return name


def _settings(name: str, source: str) -> Any:
    """The checkpoint's config. Raises BackboneError unless it is that of a Qwen model with vision."""
    if Path(source).is_dir() and not (Path(source) / "config.json").is_file():
        hint = ""
        if (Path(source) / "adapter_config.json").is_file():
            hint = " (it contains an adapter: give its base as the model and this folder as 'adapter')"
        raise BackboneError(
            f"model {name!r}: the folder has no config.json{hint}; save_pretrained writes one"
        )
    try:
        settings = AutoConfig.from_pretrained(source)
    except OSError as error:
        raise BackboneError(_unreachable(name, source, error)) from error
    except (ValueError, KeyError) as error:
        raise BackboneError(
            f"model {name!r}: its config cannot be read ({_first_line(error)}); it may need a newer "
            "transformers"
        ) from error
    known = type(settings) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
    if not known or not settings.model_type.startswith("qwen") or "vision_config" not in settings.to_dict():
        raise BackboneError(
            f"model {name!r} is of type {settings.model_type!r}, not a Qwen model with vision; use "
            "Qwen2.5-VL, Qwen3-VL, Qwen3.5 or newer, or serve it and use 'server:MODEL@URL'"
        )
    return settings


def _unreachable(name: str, source: str, error: BaseException) -> str:
    if Path(source).is_dir():
        return (
            f"model {name!r}: a file is missing or broken ({_first_line(error)}); save or download it again"
        )
    return (
        f"model {name!r} is not a folder here and cannot be downloaded from the hub ({_first_line(error)}); "
        "check the name and the network, set HF_TOKEN for a gated model, or give a local folder"
    )


def _processor(name: str, source: str) -> ProcessorMixin:
    try:
        processor = AutoProcessor.from_pretrained(source)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BackboneError(
            f"model {name!r}: its processor cannot be loaded ({_first_line(error)}); save it beside the "
            "weights with AutoProcessor.from_pretrained(BASE).save_pretrained(FOLDER)"
        ) from error
    # Without a processor's files, AutoProcessor returns a bare tokenizer.
    if not isinstance(processor, ProcessorMixin) or "video_processor" not in processor.get_attributes():
        raise BackboneError(
            f"model {name!r}: the processor is missing (found only {type(processor).__name__}); save it "
            "beside the weights with AutoProcessor.from_pretrained(BASE).save_pretrained(FOLDER)"
        )
    if processor.chat_template is None:
        raise BackboneError(
            f"model {name!r}: the processor has no chat template; save chat_template.jinja beside it"
        )
    return processor


def _folder(source: str, file: str = "config.json") -> Path:
    """The folder with the checkpoint's files: `source` itself, or its folder in the hub cache."""
    if Path(source).is_dir():
        return Path(source)
    try:
        return Path(str(cached_file(source, file))).parent
    except OSError as error:
        raise BackboneError(_unreachable(source, source, error)) from error


def _device(config: BackboneConfig) -> tuple[str | None, torch.device]:
    """The device_map for from_pretrained (None: move the whole model to the device), and the device for
    inputs."""
    if config.device_map in ("auto", "balanced", "sequential"):
        return config.device_map, torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if config.device_map is None:
        return None, torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(config.device_map)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise BackboneError(
            f"device_map {config.device_map!r} is not a device of this machine ({_first_line(error)}); use "
            "'cpu', 'cuda', 'cuda:N' or 'auto'"
        ) from error
    return None, device


def _dtype(config: BackboneConfig, device: torch.device) -> torch.dtype:
    if config.dtype == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    return {"bf16": torch.bfloat16, "fp32": torch.float32}[config.dtype]


def attach_adapter(model: PreTrainedModel, adapter: str, name: str, *, trained: bool = False) -> PeftModel:
    """Insert an adapter's layers into the model. Its weights are frozen unless `trained`. Raises
    BackboneError unless the weights of the adapter's file match the inserted layers exactly."""
    source = _source(adapter, "adapter")
    if Path(source).is_dir() and not (Path(source) / "adapter_config.json").is_file():
        raise BackboneError(
            f"adapter {adapter!r}: the folder has no adapter_config.json; peft's save_pretrained writes one"
        )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            settings = PeftConfig.from_pretrained(source)
            settings.inference_mode = not trained
            if not trained:
                # peft reads the base's config below, and would ask the hub for a name such as "pocket".
                settings.base_model_name_or_path = model.name_or_path
            adapted = PeftModel.from_pretrained(model, source, config=settings, is_trainable=trained)
            weights = load_peft_weights(source, device="cpu")
        except (OSError, ValueError, RuntimeError, KeyError, TypeError, SafetensorError) as error:
            raise BackboneError(
                f"adapter {adapter!r} does not fit model {name!r} ({_first_line(error)}); use the base model "
                "it was trained on"
            ) from error
    damaged = non_finite(weights.items())
    if damaged is not None:
        raise BackboneError(
            f"adapter {adapter!r}: its file (adapter_model.safetensors in {source}) holds NaN or infinite "
            f"weights, the first in tensor {damaged}; train it again, or take an earlier checkpoint"
        )
    # peft only warns about missing weights and says nothing about unexpected ones. Names cannot be compared:
    # peft renames the weights of older versions.
    messages = [str(warning.message) for warning in caught]
    missing = [message for message in messages if "missing adapter keys" in message]
    expected = len(get_peft_model_state_dict(adapted))
    if missing or len(weights) != expected:
        raise BackboneError(
            f"adapter {adapter!r} does not fit model {name!r}: its file has {len(weights)} weights and "
            f"{expected} are needed ({', '.join(missing)[:200]}); use the base model it was trained on"
        )
    for warning in caught:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return adapted if trained else adapted.eval().requires_grad_(False)
