"""Loads a Qwen vision-language checkpoint (weights, processor, adapter), with clear errors, and keeps what
its files have beyond the model: tensors such as the `mtp.*` of Qwen3.5 (a head that guesses further tokens,
for engines), which transformers drops on loading.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import PeftConfig, PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from peft.utils import load_peft_weights
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from transformers import AutoModelForImageTextToText, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
from transformers.processing_utils import ProcessorMixin

from videopro.backbones.base import BackboneConfig
from videopro.backbones.fingerprint import folder_fingerprint
from videopro.backbones.model_record import ModelRecord, PlannerRecord
from videopro.backbones.process import hide_weights_bar, loaded_whole
from videopro.backbones.qwen.find import (
    Checkpoint,
    adapter_folder,
    find_checkpoint,
    find_source,
    first_line,
    resolve_record,
)
from videopro.backbones.qwen.inputs import QwenInputs
from videopro.backbones.qwen.layers import attend_by_chunk
from videopro.backbones.qwen.runner import QwenRunner
from videopro.errors import BackboneError, ConfigError
from videopro.storage import non_finite, non_finite_in
from videopro.video import Frame

logger = logging.getLogger(__name__)


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
    identity: Mapping[str, object]
    """What `Backbone.identity` returns."""
    planner: PlannerRecord | None = None
    """What the checkpoint, or the adapter's folder, records of it as a planner."""
    record: ModelRecord | None = None
    """What the adapter's folder, or else the checkpoint, records of its training."""
    notes: tuple[str, ...] = ()
    """What the user was warned of."""


def load_weights(checkpoint: Checkpoint, device: torch.device | None, **options: Any) -> PreTrainedModel:
    """Load a checkpoint's model and move it to `device` unless that is None; `options` go to from_pretrained.
    Raises BackboneError for weights that are broken, incomplete or too large."""
    name = checkpoint.name
    hide_weights_bar()
    try:
        loaded: Any = AutoModelForImageTextToText.from_pretrained(
            checkpoint.source, config=checkpoint.settings, output_loading_info=True, **options
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
        raise BackboneError(f"model {name!r}: its weights cannot be loaded ({first_line(error)})") from error
    if info["missing_keys"]:
        examples = ", ".join(sorted(info["missing_keys"])[:3])
        raise BackboneError(
            f"model {name!r}: {len(info['missing_keys'])} weights are missing ({examples}, ...) and would be "
            "random; the folder or download is incomplete, or the checkpoint has another architecture"
        )
    # Checked after the move to the device: a GPU does this quickly.
    damaged = non_finite(model.named_parameters())
    if damaged is not None:
        raise BackboneError(
            f"model {name!r}: {_locate(checkpoint.folder, damaged)} contains NaN or infinite weights; "
            "download or save the checkpoint again"
        )
    # For `keep_beyond`.
    model.unexpected_tensors = tuple(sorted(info["unexpected_keys"]))
    attend_by_chunk(model)
    loaded_model: PreTrainedModel = model
    return loaded_model


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
    checkpoint = find_checkpoint(name)
    resolved = resolve_record(config, checkpoint)
    checkpoint = checkpoint.marked(resolved.video_marks)
    for note in resolved.notes:
        logger.warning("warning: %s", note)
    device_map, device = _device(config)
    dtype = _dtype(config, device)
    with loaded_whole():
        model = load_weights(
            checkpoint,
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
        processor=checkpoint.processor,
        frames=resolved.frames,
        pixels=resolved.pixels,
        identity=checkpoint_identity(config, checkpoint),
        planner=resolved.planner,
        record=resolved.record,
        notes=resolved.notes,
    )


def checkpoint_identity(config: BackboneConfig, checkpoint: Checkpoint) -> dict[str, object]:
    """What `Backbone.identity` returns for a checkpoint with its adapter on; reads files but loads no
    weights. Raises BackboneError."""
    _, device = _device(config)
    resolved = resolve_record(config, checkpoint)
    checkpoint = checkpoint.marked(resolved.video_marks)
    source = Path(checkpoint.source)
    return {
        **config.answering(),
        "model": source.name if source.is_dir() else checkpoint.source,
        "weights": folder_fingerprint(checkpoint.folder),
        "adapter": folder_fingerprint(adapter_folder(config.adapter)) if config.adapter else None,
        "dtype": str(_dtype(config, device)).removeprefix("torch."),
        "frames": resolved.frames,
        "pixels": resolved.pixels,
        "video_marks": resolved.video_marks,
        **video_settings(checkpoint),
        **(resolved.planner.identity() if resolved.planner is not None else {}),
    }


def video_settings(checkpoint: Checkpoint) -> dict[str, str]:
    """What the installed transformers makes of a video, from one of two temporal patches of 2 x 2 tokens:
    `video_prompt`, the text with its marks, and `video_positions`, in time, height and width, of the visual
    tokens and of the next one, from the first visual token on."""
    inputs = QwenInputs(checkpoint.processor, frames=4, pixels=2**20, device=torch.device("cpu"))
    picture = np.full((2 * inputs.patch, 2 * inputs.patch, 3), 127, dtype=np.uint8)
    head = inputs.head([Frame(picture, time) for time in (0.5, 1.5, 4.0, 7.0)])
    text = re.sub(r"(<\|video_pad\|>)+", r"\1...", inputs.tokenizer.decode(head.ids))
    # The rule is the model's own, and needs no weights: they are on no device, but where inputs go to.
    settings = copy.deepcopy(checkpoint.settings)
    settings.get_text_config().num_hidden_layers = settings.vision_config.depth = 1
    model_class: Any = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING[type(settings)]
    with loaded_whole(), torch.device("meta"):
        model = model_class(settings)
    model.set_input_embeddings(torch.nn.Embedding(1, 1))
    positions, next_position = QwenRunner(model, ends=(), pad=0).positions(head)
    seen = positions[:, 0, torch.tensor(head.types) > 0]
    first = int(seen[0, 0])
    rows = (" ".join(map(str, row)) for row in (seen - first).tolist())
    return {
        "video_prompt": text[text.index("<", text.rfind("user\n") + 1) :],
        "video_positions": f"t {next(rows)}; h {next(rows)}; w {next(rows)}; next {next_position - first}",
    }


def _device(config: BackboneConfig) -> tuple[str | None, torch.device]:
    """The device_map for from_pretrained (None: move the whole model to the device), and the device for
    inputs."""
    if config.device_map in ("auto", "balanced", "sequential"):
        return config.device_map, torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if config.device_map is None:
        return None, torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(config.device_map)
        # torch.device accepts names of devices that are not there; an empty tensor on it does not.
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise BackboneError(
            f"device_map {config.device_map!r} is not a device of this machine ({first_line(error)}); use "
            "'cpu', 'cuda', 'cuda:N' or 'auto'"
        ) from error
    return None, device


def _dtype(config: BackboneConfig, device: torch.device) -> torch.dtype:
    if config.dtype == "auto":
        # Most CPUs compute in bf16 more slowly than in fp32.
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    return {"bf16": torch.bfloat16, "fp32": torch.float32}[config.dtype]


def attach_adapter(model: PreTrainedModel, adapter: str, name: str, *, trained: bool = False) -> PeftModel:
    """Insert an adapter's layers into the model. Its weights are frozen unless `trained`. Raises
    BackboneError unless the weights of the adapter's file match the inserted layers exactly."""
    source = find_source(adapter, "adapter")
    if Path(source).is_dir() and not (Path(source) / "adapter_config.json").is_file():
        raise BackboneError(
            f"adapter {adapter!r}: the folder has no adapter_config.json; peft's save_pretrained writes one"
        )
    # peft only warns of missing weights, and warnings cannot be caught in one thread alone.
    names = getattr(model, "_checkpoint_conversion_mapping", {})
    try:
        settings = PeftConfig.from_pretrained(source)
        settings.inference_mode = not trained
        if not trained:
            # peft reads the base's config below, and would ask the hub for a plug-in's name.
            settings.base_model_name_or_path = model.name_or_path
        adapted = PeftModel.from_pretrained(model, source, config=settings, is_trainable=trained)
        weights = load_peft_weights(source, device="cpu", key_mapping=names)
        # The same weights once more, for its list of what they do not set: all of the base, too.
        result: Any = set_peft_model_state_dict(adapted, weights)
    except json.JSONDecodeError as error:
        raise BackboneError(
            f"adapter {adapter!r}: adapter_config.json is not valid JSON ({error}); download it again"
        ) from error
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, SafetensorError) as error:
        raise BackboneError(
            f"adapter {adapter!r} does not fit model {name!r} ({first_line(error)}); use the base model "
            "it was trained on"
        ) from error
    damaged = non_finite(weights.items())
    if damaged is not None:
        raise BackboneError(
            f"adapter {adapter!r}: its file (adapter_model.safetensors in {source}) contains NaN or infinite "
            f"weights, the first in tensor {damaged}; train it again, or use an earlier checkpoint"
        )
    # The adapter's own carry its name. Unexpected ones are counted: peft renames them.
    missing = [key for key in result.missing_keys if ".default" in key]
    expected = len(get_peft_model_state_dict(adapted))
    if missing or len(weights) != expected:
        raise BackboneError(
            f"adapter {adapter!r} does not fit model {name!r}: its file has {len(weights)} weights, but "
            f"{expected} are needed (missing: {', '.join(missing)[:200] or 'none'}); use the base model it "
            "was trained on"
        )
    return adapted if trained else adapted.eval().requires_grad_(False)


# In the names of both: a Qwen model's projector is a part of its vision tower there.
_VISUAL = ".visual."


def check_adapter_fits(adapter: str, model: str) -> list[str]:
    """The names of the adapter's weights in a model. Raises BackboneError unless they are those of modules
    that the model has."""
    checkpoint = find_checkpoint(model)
    with torch.device("meta"):
        empty = AutoModelForImageTextToText.from_config(checkpoint.settings)
    with warnings.catch_warnings():
        # Copying weights into a model without any does nothing, and torch says so for each of them. peft
        # warns of what is missing, which is raised as an error.
        warnings.filterwarnings("ignore", message=".*copying from a non-meta parameter")
        warnings.filterwarnings("ignore", message="Found missing adapter keys")
        adapted = attach_adapter(empty, adapter, model)
    # The adapter's own carry its name.
    return [name for name, _ in adapted.named_parameters() if ".default" in name]


def check_language_only(names: Iterable[str], adapter: str, instead: str) -> None:
    """Raise ConfigError if a weight of an adapter belongs to the vision tower or to the projector, whose
    adapters vLLM leaves out. `names`: of its weights in a model; `adapter`: what it is, for the message."""
    beside = next((name for name in names if _VISUAL in f".{name}"), None)
    if beside is not None:
        raise ConfigError(
            f"{adapter} adapts more than the language model ({beside}), which vLLM would ignore; {instead}"
        )


# ---- tensors beyond the model ------------------------------------------------------------------------------

_INDEX = "model.safetensors.index.json"


def keep_beyond(model: Any, base: Path, folder: Path) -> list[str]:
    """Copy what the checkpoint in `base` has beyond the model, unchanged, to the same model's files in
    `folder`, and list it in their index. Returns the names. Does nothing if `folder` has no safetensors of a
    whole model. Raises BackboneError if the base's weights are in another format, and OSError."""
    saved = _files(folder)
    if not saved:
        return []
    unexpected: tuple[str, ...] = getattr(model, "unexpected_tensors", ())
    # transformers drops what fits these without listing it as unexpected.
    patterns = [re.compile(pattern) for pattern in model._keys_to_ignore_on_load_unexpected or ()]
    stored = _files(base)
    if unexpected and not stored:
        raise BackboneError(
            f"{base}: has tensors beyond the model ({', '.join(unexpected[:3])}, ...) that are not in "
            "safetensors, so they cannot be kept; convert the checkpoint to safetensors first"
        )
    # transformers may name a tensor of a foreign part differently from its file; the first word is the same.
    modules = {name.partition(".")[0] for name in saved}
    foreign = {name.partition(".")[0] for name in unexpected} - modules
    beyond = sorted(
        name
        for name in stored.keys() - saved.keys()
        if name in unexpected
        or name.partition(".")[0] in foreign
        or any(pattern.search(name) for pattern in patterns)
    )
    if beyond:
        tensors = {}
        for name in beyond:
            with safe_open(base / stored[name], framework="pt") as content:
                tensors[name] = content.get_tensor(name)
        _add(folder, saved, tensors)
    return beyond


def _files(folder: Path) -> dict[str, str]:
    """The file of each tensor of a whole model in safetensors; empty without one."""
    index = folder / _INDEX
    if index.is_file():
        return dict(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
    file = folder / "model.safetensors"
    if not file.is_file():
        return {}
    with safe_open(file, framework="pt") as content:
        return dict.fromkeys(content.keys(), file.name)


def _add(folder: Path, saved: Mapping[str, str], tensors: Mapping[str, torch.Tensor]) -> None:
    """Add a file of tensors, number the files anew, and write the index."""
    before = sorted(set(saved.values()))
    count = len(before) + 1
    renamed = {name: f"model-{number:05}-of-{count:05}.safetensors" for number, name in enumerate(before, 1)}
    last = f"model-{count:05}-of-{count:05}.safetensors"
    for name in before:
        os.replace(folder / name, folder / renamed[name])
    save_file(dict(tensors), folder / last, metadata={"format": "pt"})
    weight_map = {name: renamed[file] for name, file in saved.items()} | dict.fromkeys(tensors, last)
    written = {"metadata": {}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / _INDEX).write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
