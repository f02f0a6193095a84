"""What this machine has of a served model: its folder, and what that records of the model's training.

vLLM's list of models names the folder or hub name of each (`root`), and the base of an adapter (`parent`).
Where that folder is on this machine too, the model's own record is read. The models of plug-ins and their
adapters are recognised by their names as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from videopro.backbones.base import DEFAULT_FRAMES, DEFAULT_PIXELS
from videopro.backbones.fingerprint import folder_fingerprint
from videopro.backbones.model_record import (
    MODEL_RECORD,
    BaseRecord,
    ModelRecord,
    PlannerRecord,
    base_notes,
    read_model_record,
)
from videopro.backbones.own_models import MODELS, lasting_name
from videopro.errors import BackboneError

Cards = Mapping[str, Mapping[str, Any]]
"""The server's list of models, by name."""


@dataclass(frozen=True)
class ServedRecord:
    """What this machine has of a served model. Without its files, that is its name only."""

    name: str
    folder: Path | None = None
    """The checkpoint, or that of an adapter's base."""
    frames: int | None = None
    """Frames a call and pixels a frame for which it was made; None: nothing here says so."""
    pixels: int | None = None
    planner: PlannerRecord | None = None
    """What it records of itself as a planner; None: it is not one, or nothing here says so."""
    elsewhere: str = ""
    """The folder of the server's machine that holds its files, if it is not here."""
    record: ModelRecord = field(default_factory=ModelRecord)
    """What its folder, or its adapter's, records of its training; empty: nothing here says so."""
    base_notes: tuple[str, ...] = ()
    """What the user has to know of an adapter's base."""

    def budget(self, frames: int | None, pixels: int | None, settings: str) -> tuple[int, int, str]:
        """The frames a call and the pixels a frame, and a note for the user where they are a guess. `frames`
        and `pixels` are the user's (None: unset), and `settings` says how to give them.

        Raises BackboneError for a model whose files are elsewhere: it may have been made for other ones.
        """
        frames, pixels = frames or self.frames, pixels or self.pixels
        if frames and pixels:
            return frames, pixels, ""
        if self.elsewhere:
            raise BackboneError(
                f"the server has {self.name!r} from {self.elsewhere}, which is not on this machine, so "
                f"nothing says with how many frames and pixels it was trained; give {settings} (as in its "
                f"{MODEL_RECORD})"
            )
        frames, pixels = frames or DEFAULT_FRAMES, pixels or DEFAULT_PIXELS
        note = (
            f"nothing says for how many frames and pixels {self.name!r} was made; it is shown {frames} "
            f"frames of {pixels:,} pixels each. If it was made for others, give {settings}"
        )
        return frames, pixels, note


def find_served(cards: Cards, name: str) -> ServedRecord:
    """The record of the model that a server lists as `name`. Raises ConfigError for a broken
    `videopro.json`."""
    card = cards.get(name, {})
    parent = card.get("parent")
    if parent is None:
        # Only a hub name or a folder has a root; servers that say nothing have no card, or none with it.
        return _find_checkpoint(name, card.get("root"))
    base_root = cards.get(str(parent), {}).get("root")
    base = _find_checkpoint(str(parent), base_root)
    folder = _adapter_folder(name, card.get("root"))
    if folder is None:
        # The base's budgets may not be the adapter's.
        return ServedRecord(name, base.folder, elsewhere=str(card.get("root") or "another machine"))
    record = read_model_record(folder)
    planner = None if record.planner is None else replace(record.planner, base="", weights="")
    notes: Iterable[str] = ()
    if base.folder is not None:
        source = base_root if isinstance(base_root, str) else str(base.folder)
        now = BaseRecord(lasting_name(source), folder_fingerprint(base.folder))
        notes = base_notes(f"adapter {name!r}", record, lambda: now)
    return ServedRecord(
        name,
        base.folder,
        record.frames or base.frames,
        record.pixels or base.pixels,
        planner,
        record=record,
        base_notes=tuple(notes),
    )


def _find_checkpoint(name: str, root: object) -> ServedRecord:
    folder = _checkpoint_folder(name, root)
    if folder is None:
        is_path = isinstance(root, str) and (root.startswith(("/", ".", "~")) or root.count("/") != 1)
        return ServedRecord(name, elsewhere=str(root) if is_path and root != name else "")
    record = read_model_record(folder)
    frames, pixels = record.frames or DEFAULT_FRAMES, record.pixels or DEFAULT_PIXELS
    return ServedRecord(name, folder, frames, pixels, record.planner, record=record)


def _checkpoint_folder(name: str, root: object) -> Path | None:
    """The checkpoint's folder on this machine: the server's own path, or in the cache of the hub."""
    if isinstance(root, str):
        path = Path(root).expanduser()
        if (path / "config.json").is_file():
            return path
        if root.count("/") == 1:
            from huggingface_hub import try_to_load_from_cache

            cached = try_to_load_from_cache(root, "config.json")
            if isinstance(cached, str):
                return Path(cached).parent
    return MODELS[name].folder() if name in tuple(MODELS) else None


def _adapter_folder(name: str, root: object) -> Path | None:
    if isinstance(root, str) and (Path(root).expanduser() / "adapter_config.json").is_file():
        return Path(root).expanduser()
    return next((own.adapter(name) for own in MODELS.working() if name in own.adapters), None)
