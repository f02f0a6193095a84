"""Finds a Qwen vision-language checkpoint by its name: folder, config, processor, and what it records of
itself. Loads no weights; errors say how to fix the problem.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from transformers import AutoConfig, AutoProcessor
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor
from transformers.processing_utils import ProcessorMixin
from transformers.utils.hub import cached_file

from videopro.backbones.base import DEFAULT_FRAMES, DEFAULT_PIXELS, BackboneConfig
from videopro.backbones.fingerprint import folder_fingerprint
from videopro.backbones.model_record import (
    MODEL_RECORD,
    TRAINING_RECORD,
    BaseRecord,
    ModelRecord,
    PlannerRecord,
    VideoMarks,
    base_notes,
    budget_notes,
    read_model_record,
)
from videopro.backbones.own_models import lasting_name, missing_folder
from videopro.errors import BackboneError


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
    record: ModelRecord = field(default_factory=ModelRecord)
    """What its folder records of it."""
    video_marks: VideoMarks = "nested"
    """What the chat template of `processor` makes of a video."""

    def marked(self, marks: VideoMarks) -> Checkpoint:
        """The same with a processor that makes this of a video."""
        processor: Any = copy.copy(self.processor)
        # A bare placeholder is filled in with the marked frames by every version. Qwen2.5-VL's one pair of
        # marks is its template's.
        if marks == "published" and isinstance(processor.video_processor, Qwen3VLVideoProcessor):
            processor.chat_template = processor.chat_template.replace(_MARKED_VIDEO, "<|video_pad|>")
        return replace(self, processor=processor, video_marks=marks)

    @property
    def frames(self) -> int:
        """The budgets from training, else the paper's."""
        return self.record.frames or DEFAULT_FRAMES

    @property
    def pixels(self) -> int:
        """See `frames`."""
        return self.record.pixels or DEFAULT_PIXELS

    @property
    def planner(self) -> PlannerRecord | None:
        """What it records of itself as a planner."""
        return self.record.planner

    @property
    def as_base(self) -> BaseRecord:
        """What a training that begins with it records as its base."""
        return BaseRecord(lasting_name(self.source), folder_fingerprint(self.folder))


_MARKED_VIDEO = "<|vision_start|><|video_pad|><|vision_end|>"


def find_checkpoint(name: str) -> Checkpoint:
    """The checkpoint for a name, without its weights. Raises `BackboneError` or `ConfigError`, which say how
    to fix the problem."""
    source = find_source(name, "model")
    settings = _settings(name, source)
    folder = _folder(source)
    processor = _processor(name, source)
    return Checkpoint(name, source, folder, settings, processor, fetch_record(source, folder))


def made_from(checkpoint: Checkpoint, planner: PlannerRecord | None) -> PlannerRecord:
    """What a planner records that was made from a checkpoint and has no adapter to turn off. `planner`: the
    record of its prompts. A planner that was made from another planner has the base of that one."""
    before = checkpoint.planner
    if before is None or not before.base:
        before = PlannerRecord(checkpoint.as_base.name, checkpoint.as_base.weights)
    trained = planner or PlannerRecord()
    return replace(before, prompts=trained.prompts, reference=trained.reference)


def fetch_record(source: str, folder: Path) -> ModelRecord:
    """The record in a folder, which is first fetched if the source is a hub name and has one."""
    _fetch(source, MODEL_RECORD)
    return read_model_record(folder)


def find_records(name: str, role: Literal["model", "adapter"]) -> tuple[Path, ModelRecord]:
    """The folder of a model or an adapter, and its record; its training's record is in the folder then, if it
    has one. Of the hub, only these files are fetched. Raises BackboneError, ConfigError for a broken
    record."""
    source = find_source(name, role)
    folder = _folder(source, "adapter_config.json" if role == "adapter" else "config.json")
    _fetch(source, TRAINING_RECORD)
    return folder, fetch_record(source, folder)


def _fetch(source: str, file: str) -> None:
    """Fetch a file that a repository of the hub may have; of a folder, nothing."""
    if not Path(source).is_dir():
        cached_file(
            source,
            file,
            # Most models have no such file, and a machine without a network has it in the cache or not at
            # all.
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )


def adapter_folder(adapter: str) -> Path:
    return _folder(find_source(adapter, "adapter"), "adapter_config.json")


def find_source(name: str, role: str) -> str:
    """The path of an existing folder, else the hub name. Raises BackboneError for a name that is neither."""
    path = Path(name).expanduser()
    if path.is_dir():
        return str(path)
    if path.exists():
        raise BackboneError(f"{role} {name!r} is a file; pass the folder with its config and weights")
    # A hub name is OWNER/NAME; what looks like a path is one, even if it is missing.
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        raise BackboneError(f"{role} {name!r}: {missing_folder(role)}")
    return name


def _settings(name: str, source: str) -> Any:
    """The checkpoint's config. Raises BackboneError unless it is that of a Qwen model with vision."""
    if Path(source).is_dir() and not (Path(source) / "config.json").is_file():
        hint = ""
        if (Path(source) / "adapter_config.json").is_file():
            hint = " (it contains an adapter: pass its base as the model and this folder as 'adapter')"
        raise BackboneError(
            f"model {name!r}: the folder has no config.json{hint}; save_pretrained writes one"
        )
    try:
        settings = AutoConfig.from_pretrained(source)
    except OSError as error:
        raise BackboneError(_unreachable(name, source, error)) from error
    # KeyError is transformers' error for a model type that it does not know yet.
    except (ValueError, KeyError) as error:
        raise BackboneError(
            f"model {name!r}: its config cannot be read ({first_line(error)}); it may need a newer "
            "transformers"
        ) from error
    is_supported = type(settings) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
    if (
        not is_supported
        or not settings.model_type.startswith("qwen")
        or "vision_config" not in settings.to_dict()
    ):
        raise BackboneError(
            f"model {name!r} is of type {settings.model_type!r}, not a Qwen vision-language model; use "
            "Qwen2.5-VL, Qwen3-VL, Qwen3.5 or newer, or serve it and use 'server:MODEL@URL'"
        )
    return settings


def _unreachable(name: str, source: str, error: BaseException) -> str:
    if Path(source).is_dir():
        return f"model {name!r}: a file is missing or broken ({first_line(error)}); save or download it again"
    return (
        f"model {name!r} is not a folder here and cannot be downloaded from the hub ({first_line(error)}); "
        "check the name and the network, set HF_TOKEN for a gated model, or pass a local folder"
    )


def _processor(name: str, source: str) -> ProcessorMixin:
    try:
        processor = AutoProcessor.from_pretrained(source)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BackboneError(
            f"model {name!r}: its processor cannot be loaded ({first_line(error)}); save it next to the "
            "weights with AutoProcessor.from_pretrained(BASE).save_pretrained(FOLDER)"
        ) from error
    # Without a processor's files, AutoProcessor returns a bare tokenizer.
    if not isinstance(processor, ProcessorMixin) or "video_processor" not in processor.get_attributes():
        raise BackboneError(
            f"model {name!r}: the processor is missing (found only {type(processor).__name__}); save it next "
            "to the weights with AutoProcessor.from_pretrained(BASE).save_pretrained(FOLDER)"
        )
    if processor.chat_template is None:
        raise BackboneError(
            f"model {name!r}: the processor has no chat template; save chat_template.jinja next to it"
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


def first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:300] or type(error).__name__


@dataclass(frozen=True)
class ResolvedRecord:
    """What counts for a model with its adapter, if it has one."""

    frames: int
    pixels: int
    record: ModelRecord
    """The adapter's, else the model's."""
    planner: PlannerRecord | None
    """What it records of itself as a planner; the base that answers is the model's in any case, as an
    adapter on a merged planner leaves that planner when it is turned off."""
    notes: tuple[str, ...]
    """Where settings and record differ, and what nothing says."""
    video_marks: VideoMarks


def resolve_record(config: BackboneConfig, checkpoint: Checkpoint) -> ResolvedRecord:
    """What counts for the model of `config`. Raises BackboneError for an adapter that cannot be found,
    ConfigError for a broken record."""
    record = checkpoint.record
    if config.adapter:
        record = fetch_record(find_source(config.adapter, "adapter"), adapter_folder(config.adapter))
    resolved = ResolvedRecord(
        frames=config.frames or record.frames or checkpoint.frames,
        pixels=config.pixels or record.pixels or checkpoint.pixels,
        record=record,
        planner=_planner(record.planner, checkpoint.planner),
        notes=(),
        video_marks=config.video_marks or record.video_marks or checkpoint.record.video_marks or "published",
    )
    notes = list(_budget_notes(config, resolved))
    if config.adapter:
        notes += base_notes(f"adapter {config.adapter!r}", record, lambda: checkpoint.as_base)
    return replace(resolved, notes=tuple(notes))


def _planner(adapter: PlannerRecord | None, model: PlannerRecord | None) -> PlannerRecord | None:
    if adapter is None or model is None:
        return adapter or model
    return replace(adapter, base=model.base, weights=model.weights)


def _budget_notes(config: BackboneConfig, resolved: ResolvedRecord) -> Iterator[str]:
    record = resolved.record
    who = f"adapter {config.adapter!r}" if config.adapter else f"model {config.model!r}"
    yield from budget_notes(who, record, vars(config))
    if config.adapter and not (record.frames and record.pixels) and not (config.frames and config.pixels):
        yield (
            f"{who} has no {MODEL_RECORD} with the frames and pixels that it was trained with; it gets "
            f"{resolved.frames} frames of {resolved.pixels:,} pixels, as its base. If it was trained with "
            "others, set frames and pixels"
        )
