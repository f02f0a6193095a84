"""How a model is asked: the settings, else its own record or that of its adapter.

A setting always counts. Where it differs from what the model was trained with, or where nothing says what
that was, the user is told; the traces of a run have the same words (`Backbone.notes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from videopro.backbones.base import BackboneConfig
from videopro.backbones.model_record import (
    MODEL_RECORD,
    ModelRecord,
    PlannerRecord,
    base_notes,
    budget_notes,
)
from videopro.backbones.qwen.find import Checkpoint, adapter_folder, fetch_record, find_source


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
    yield from budget_notes(who, record, config.frames, config.pixels)
    if config.adapter and not (record.frames and record.pixels) and not (config.frames and config.pixels):
        yield (
            f"{who} has no {MODEL_RECORD} that says with how many frames and pixels it was trained; it is "
            f"shown {resolved.frames} frames of {resolved.pixels:,} pixels, as its base. If it was trained "
            "with others, set frames and pixels"
        )
