"""What is known here of a served model: its own record, if its files are on this machine too.

vLLM's list of models names the folder or hub name of each (`root`), and the base of an adapter (`parent`).
The shipped pocket model and its adapters are known by their names as well.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    budget_notes,
    lasting_name,
    read_model_record,
    read_training_run,
)
from videopro.errors import BackboneError
from videopro.pocket import ADAPTERS, adapter_dir, model_dir

Cards = Mapping[str, Mapping[str, Any]]
"""The server's list of models, by name."""


@dataclass(frozen=True)
class ServedRecord:
    """A served model, as far as it is known here. Without files here, only its name is known."""

    name: str
    folder: Path | None = None
    """The checkpoint, or that of an adapter's base, on this machine."""
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

    def notes(self, who: str, frames: int | None, pixels: int | None) -> tuple[str, ...]:
        """Those of its base, and where the settings (None: unset) differ from what `who` was trained with."""
        return (*self.base_notes, *budget_notes(who, self.record, frames, pixels))


def find_served(cards: Cards, name: str) -> ServedRecord:
    """What is known of the model that a server knows as `name`. Raises ConfigError for a broken
    `videopro.json`, BackboneError for a broken record of a training."""
    card = cards.get(name, {})
    parent = card.get("parent")
    if parent is None:
        # Only a hub name or a folder has a root; servers that say nothing have no card, or none with it.
        return _checkpoint(name, card.get("root"))
    root = cards.get(str(parent), {}).get("root")
    base = _checkpoint(str(parent), root)
    folder = _adapter_folder(name, card.get("root"))
    if folder is None:
        return replace(
            base,
            name=name,
            frames=None,
            pixels=None,
            planner=None,
            elsewhere=str(card["root"]),
            record=ModelRecord(),
        )
    own = read_model_record(folder)
    # Of an adapter of an earlier version, which has no record, or one of its prompts alone.
    run = read_training_run(folder) if own.base is None else None
    return replace(
        base,
        name=name,
        frames=own.frames or (base.frames if run is None else int(run["frames"])),
        pixels=own.pixels or (base.pixels if run is None else int(run["pixels"])),
        planner=_adapters_planner(own, is_planner=run is not None),
        elsewhere="",
        record=own,
        base_notes=_base_notes(name, own, root, base.folder),
    )


def _base_notes(name: str, own: ModelRecord, root: object, folder: Path | None) -> tuple[str, ...]:
    """See `ServedRecord.base_notes`. `root`: where the server has the base from."""
    if folder is None:
        return ()
    source = root if isinstance(root, str) else str(folder)
    now = BaseRecord(lasting_name(source), folder_fingerprint(folder))
    return tuple(base_notes(f"adapter {name!r}", own, lambda: now))


def served_weights(cards: Cards, name: str) -> dict[str, str]:
    """What tells a served model's weights from those of another one under the same name: `root`, the folder
    or hub name that the server has them from, and, if that folder is on this machine, the fingerprint of its
    `files`. Empty for a server that does not say."""
    root = cards.get(name, {}).get("root")
    if not isinstance(root, str):
        return {}
    folder = Path(root).expanduser()
    return {"root": root, **({"files": folder_fingerprint(folder)} if folder.is_dir() else {})}


def _checkpoint(name: str, root: object) -> ServedRecord:
    folder = _folder(name, root)
    if folder is None:
        is_path = isinstance(root, str) and (root.startswith(("/", ".", "~")) or root.count("/") != 1)
        return ServedRecord(name, elsewhere=str(root) if is_path and root != name else "")
    own = read_model_record(folder)
    return ServedRecord(
        name, folder, own.frames or DEFAULT_FRAMES, own.pixels or DEFAULT_PIXELS, own.planner, record=own
    )


def _folder(name: str, root: object) -> Path | None:
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
    return model_dir() if name == "pocket" else None


def _adapter_folder(name: str, root: object) -> Path | None:
    if isinstance(root, str) and (Path(root).expanduser() / "adapter_config.json").is_file():
        return Path(root).expanduser()
    return adapter_dir(name) if name in ADAPTERS else None


def _adapters_planner(own: ModelRecord, is_planner: bool) -> PlannerRecord | None:
    """What an adapter records of its prompts: the texts of its user's, else, of a planner that was trained
    here, ours. None for one of another origin."""
    if own.planner is not None:
        return replace(own.planner, base="", weights="")
    return PlannerRecord() if is_planner else None


def budget(served: ServedRecord, frames: int | None, pixels: int | None, ask: str) -> tuple[int, int, str]:
    """The frames a call and the pixels a frame, and a note for the user where they are a guess. `frames` and
    `pixels` are the settings (None: unset), and `ask` says how to give them.

    Raises BackboneError for a model whose files are elsewhere: it may have been made for other ones.
    """
    found_frames, found_pixels = frames or served.frames, pixels or served.pixels
    if found_frames and found_pixels:
        return found_frames, found_pixels, ""
    if served.elsewhere:
        raise BackboneError(
            f"the server has {served.name!r} from {served.elsewhere}, which is not on this machine, so "
            f"nothing says with how many frames and pixels it was trained; give {ask} (as in its "
            f"{MODEL_RECORD}, or the training_record.json of an older one)"
        )
    frames, pixels = found_frames or DEFAULT_FRAMES, found_pixels or DEFAULT_PIXELS
    return (
        frames,
        pixels,
        f"nothing says for how many frames and pixels {served.name!r} was made; it is shown {frames} frames "
        f"of {pixels:,} pixels each. If it was made for others, give {ask}",
    )
