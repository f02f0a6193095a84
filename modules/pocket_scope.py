"""What the pocket world's models may look at: pocket videos.

About any other video they answer with high confidence, and wrongly. So commands refuse them there, before
anything is loaded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from videopro.errors import BackboneError, ConfigError
from videopro.modules.loading import is_pocket
from videopro.modules.models.encoders import pocket_asp_folder, pocket_folder
from videopro.pocket import ADAPTERS, NOTE, adapter_dir, model_dir

LAPTOP_MODEL = "Qwen/Qwen3-VL-2B-Instruct"
"""The model to take instead, without a GPU."""

_TEACHER = "pocket-teacher"
_ENCODERS = ("pocket", "pocket-asp")
# What tells the pocket model's shape from that of any other model.
_SHAPE = ("hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size")


def check_scope(
    parts: Mapping[str, Any], videos: Iterable[Path], *, roles: Mapping[str, str] | None = None
) -> None:
    """Raise ConfigError, with what to take instead, if one of `parts` is of the pocket world and one of
    `videos` is not. A video that is not there is passed over: that is another error.

    `parts`: by setting, the names that were given (in lists and mappings too), such as {"model": "pocket",
    "planner": "pocket-teacher"}. `roles`: what a setting does, if not what its name says.
    """
    pocket_part = next(_of_pocket(parts), None)
    if pocket_part is None:
        return
    other = next((path for path in videos if path.is_file() and not is_pocket_video(path)), None)
    if other is None:
        return
    setting, name = pocket_part
    raise ConfigError(
        f"{other}: {setting} {name!r} knows the generated pocket videos only, and would be sure of wrong "
        f"answers; {_instead((roles or {}).get(setting, setting), name)}"
    )


def is_pocket_video(path: Path) -> bool:
    """Whether a file is a video that the pocket world made, or a link to one: its manifest is beside it."""
    try:
        file = path.resolve()
        note = json.loads(file.with_suffix(NOTE).read_bytes())
        size, _ = note["files"][file.suffix]
        # By size and not by hash, which would read every video before a run.
        return bool(note["video"] == file.stem and size == file.stat().st_size)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False


def is_of_pocket(name: str) -> bool:
    """Whether a name that a command takes is of something that the pocket world made: its model (also one
    that was trained from it, or is served under its name), adapter, teacher or encoder."""
    model = name.removeprefix("server:").rpartition("@")[0] if name.startswith("server:") else name
    if is_pocket(name) or model in (*ADAPTERS, *_ENCODERS) or name.startswith(_TEACHER):
        return True
    # languagebind:FOLDER, asp-clip:FOLDER
    return any(_is_made_here(part) for part in (model, model.partition(":")[2]) if part)


def _is_made_here(name: str) -> bool:
    try:
        folder = Path(name).expanduser()
        if not folder.is_dir():
            return False
        shipped = [pocket_folder(), pocket_asp_folder(), *map(adapter_dir, ADAPTERS)]
        is_shipped = folder.resolve() in [each.resolve() for each in shipped]
        # By its shape too: a model that was trained from the pocket model knows no more than it.
        return is_shipped or _shape(folder) == _shape(model_dir())
    except (OSError, RuntimeError, ValueError, AttributeError, BackboneError):
        return False


def _shape(folder: Path) -> tuple[Any, ...] | None:
    file = folder / "config.json"
    if not file.is_file():
        return None
    config = json.loads(file.read_bytes())
    return tuple(config.get("text_config", {}).get(name) for name in _SHAPE)


def _of_pocket(parts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for setting, value in parts.items():
        for name in _names(value):
            if is_of_pocket(name):
                yield setting, name


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, str | Path):
        yield str(value)
    elif isinstance(value, Mapping):
        yield from _names(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _names(each)


def _instead(setting: str, name: str) -> str:
    if name.startswith(_TEACHER):
        return "take a language model, api:MODEL@URL" + (
            ", or the model itself, self" if setting == "planner" else ""
        )
    if setting in ("adapter", "adapter_model"):
        return "leave it out, or give an adapter that was trained on real videos"
    if setting == "encoder":
        return "take languagebind, clip or siglip2"
    return f"take {LAPTOP_MODEL} (on a laptop), a larger hub model, or server:MODEL@URL"
