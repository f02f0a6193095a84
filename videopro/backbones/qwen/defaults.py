"""`videopro.json` in the folder of a checkpoint or an adapter: what its other files do not say.

    {"frames": 64, "pixels": 50176, "planner": {"base": "Qwen/Qwen3-VL-8B-Instruct", "weights": "0f3a..."}}

`frames` and `pixels` are the budgets that a checkpoint was trained for. `planner` is a `PlannerRecord`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from videopro.backbones.base import DEFAULT_FRAMES, DEFAULT_PIXELS, PlannerRecord, check_keys
from videopro.errors import ConfigError
from videopro.storage import parse_json

DEFAULTS_FILE = "videopro.json"


@dataclass(frozen=True)
class Defaults:
    """The content of a `videopro.json`."""

    frames: int = DEFAULT_FRAMES
    pixels: int = DEFAULT_PIXELS
    planner: PlannerRecord | None = None


def read_defaults(folder: Path) -> Defaults:
    """The folder's defaults; the paper's budgets where it says nothing. Raises ConfigError for a broken
    file."""
    path = folder / DEFAULTS_FILE
    if not path.is_file():
        return Defaults()
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON ({error})") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: must be a JSON object with 'frames' or 'pixels', not {found!r}")
    check_keys(found, [field.name for field in fields(Defaults)])
    for key in found.keys() - {"planner"}:
        if not isinstance(found[key], int) or found[key] < 1:
            raise ConfigError(f"{path}: {key} is {found[key]!r}; it must be a whole number of at least 1")
    if "planner" in found:
        found["planner"] = _planner(found["planner"], path)
    return Defaults(**found)


def write_defaults(folder: Path, defaults: Defaults) -> None:
    """Write the folder's `videopro.json`. Raises OSError."""
    content: dict[str, Any] = {"frames": defaults.frames, "pixels": defaults.pixels}
    if defaults.planner is not None:
        content["planner"] = {name: value for name, value in asdict(defaults.planner).items() if value}
    (folder / DEFAULTS_FILE).write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")


def _planner(found: Any, path: Path) -> PlannerRecord:
    if not isinstance(found, dict):
        raise ConfigError(f'{path}: planner must be an object such as {{"base": NAME}}, not {found!r}')
    check_keys(found, [field.name for field in fields(PlannerRecord)])
    for name in ("base", "weights"):
        if not isinstance(found.get(name, ""), str):
            raise ConfigError(f"{path}: planner: {name} is {found[name]!r}; it must be a text")
    texts = found.get("prompts", {})
    if not isinstance(texts, Mapping) or not all(isinstance(text, str) for text in texts.values()):
        raise ConfigError(f"{path}: planner: prompts is {texts!r}; it must be an object of texts")
    return PlannerRecord(**found)


def lasting_name(source: str) -> str:
    """The name by which another command finds a model: "pocket", a hub name, or a folder's whole path."""
    path = Path(source).expanduser()
    if not path.is_dir():
        return source
    # Imported by name: `pocket` is a higher layer than `backbones`.
    shipped = Path(import_module("videopro.pocket").__file__ or "").parent / "model"
    return "pocket" if path.resolve() == shipped.resolve() else str(path.resolve())
