"""`videopro.json`, the one record in the folder of a model, an adapter or a training's checkpoint: what its
other files do not say.

    {"frames": 64, "pixels": 50176,
     "base": {"name": "Qwen/Qwen3-VL-8B-Instruct", "weights": "0f3a..."},
     "planner": {"base": "Qwen/Qwen3-VL-8B-Instruct", "weights": "0f3a...", "reference": "compact"},
     "versions": {"torch": "2.14.1", ...}}

`frames` and `pixels` are the budgets that it was trained with, `video_marks` the form of a video in its
prompts, `base` is the model that its training began with (the base of an adapter), and `planner` is a
`PlannerRecord`.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from glob import glob
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from videopro import __version__
from videopro.errors import ConfigError, reason_of
from videopro.storage import first_mistake
from videopro.traces import ReferenceForm

MODEL_RECORD = "videopro.json"
TRAINING_RECORD = "training_record.json"
_LIBRARIES = ("torch", "transformers", "trl", "peft", "accelerate", "av")


# Of what stands in the file: nothing more, and of no other type.
_STRICT = ConfigDict(extra="forbid", strict=True)
_Count = Annotated[int, Field(ge=1)]

VideoMarks = Literal["published", "nested"]
"""Where a prompt has `<|vision_start|>` and `<|vision_end|>`: around the tokens of every two frames alone, as
Qwen3-VL and Qwen3.5 were published, or around the whole video too, as transformers 5.10 and newer fill their
chat templates in."""


@dataclass(frozen=True)
class PlannerRecord:
    """The record in a trained planner's folder, so that it runs without settings."""

    __pydantic_config__ = _STRICT

    base: str = ""
    """The model that answers inside its programs, for a planner without an adapter to turn off (merged, or
    trained as a whole): its name or folder. Empty: the model with its adapter off."""
    weights: str = ""
    """The fingerprint of that base."""
    prompts: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The texts of the user's prompts that it was trained on; empty: on our short ones."""
    reference: ReferenceForm = "none"
    """How the prompts that it was trained on describe the modules."""

    def identity(self) -> dict[str, object]:
        """Its part of `Backbone.identity`."""
        form = {"prompts": dict(self.prompts)} if self.prompts else {"planner_prompt": "short"}
        return {"base": self.weights, "reference": self.reference, **form}


@dataclass(frozen=True)
class BaseRecord:
    """The model that a training began with."""

    __pydantic_config__ = _STRICT

    name: str = ""
    """A short name, a hub name (OWNER/NAME), or a folder's whole path."""
    weights: str = ""
    """The fingerprint of its folder."""

    @property
    def is_local(self) -> bool:
        """Whether the name is that of files that can be compared: a folder, or what a plug-in brings. Which
        files of a hub name are here differs between machines."""
        return "/" not in self.name or Path(self.name).is_absolute()

    def is_other_than(self, now: BaseRecord) -> bool:
        """Whether this is another model than `now`, as far as files and hub names tell."""
        if self.weights == now.weights:
            return False
        return self.is_local or now.is_local or self.name != now.name


@dataclass(frozen=True)
class ModelRecord:
    """The content of a `videopro.json`; None and empty: it does not say."""

    __pydantic_config__ = _STRICT

    frames: _Count | None = None
    """Frames per video, and pixels per frame."""
    pixels: _Count | None = None
    base: BaseRecord | None = None
    planner: PlannerRecord | None = None
    """None: it is no planner, or the record does not say."""
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Versions of the libraries that wrote it."""
    video_marks: VideoMarks | None = None

    @property
    def is_trained(self) -> bool:
        """Whether these budgets come from training, rather than defaults."""
        return self.base is not None or self.planner is not None


def read_model_record(folder: Path) -> ModelRecord:
    """The folder's record; empty if it has none. Raises ConfigError for a broken file."""
    path = folder / MODEL_RECORD
    if not path.is_file():
        return ModelRecord()
    try:
        return TypeAdapter(ModelRecord).validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({reason_of(error)})") from error
    except ValidationError as error:
        raise ConfigError(f"{path}: {first_mistake(error)}") from error


def write_model_record(folder: Path, record: ModelRecord) -> None:
    """Write the folder's `videopro.json`. Raises OSError."""
    content: dict[str, Any] = {name: value for name, value in asdict(record).items() if value is not None}
    if record.planner is not None:
        # An empty one says: a planner with an adapter to turn off, on our prompts.
        defaults = asdict(PlannerRecord())
        content["planner"] = {n: value for n, value in content["planner"].items() if value != defaults[n]}
    (folder / MODEL_RECORD).write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")


def budget_notes(
    who: str, record: ModelRecord, settings: Mapping[str, Any], *, prefix: str = ""
) -> Iterator[str]:
    """Where settings (None: unset) differ from what `who` was trained with. `prefix`: of the settings'
    names."""
    if not record.is_trained:
        return
    for name in ("frames", "pixels", "video_marks"):
        setting, trained = settings.get(name), getattr(record, name)
        if setting and trained and setting != trained:
            yield (
                f"{who} was trained with {name}={trained}, but runs with {prefix}{name}={setting}; leave it "
                "out to use the trained value"
            )


def base_notes(who: str, record: ModelRecord, now: Callable[[], BaseRecord]) -> Iterator[str]:
    """Where an adapter `who` is on another model than it was trained on. `now`: the model that it is on."""
    if record.base is not None and record.base.is_other_than(on := now()):
        yield (
            f"{who} was trained on {record.base.name} (files {record.base.weights}), but is applied to "
            f"{on.name} (files {on.weights}): unless both have the same weights, pass the model that it was "
            "trained on"
        )


@cache
def library_versions() -> Mapping[str, str]:
    """The versions of this package, "0.1.0+" and its build, of Python, and of the libraries that answers and
    training depend on, if installed."""
    versions = {"videopro": f"{__version__}+{_build()}", "python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _build() -> str:
    """8 hex digits over this package's code: the same in a checkout, an editable installation and a wheel,
    and others after an edit, also one that was not committed."""
    digest, root = hashlib.sha256(), Path(__file__).parents[1]
    for name in sorted(glob("**/*.py", root_dir=root, recursive=True)):
        if name.startswith("train/pocket/"):  # In no wheel.
            continue
        digest.update(name.encode() + b"\0" + (root / name).read_bytes() + b"\0")
    return digest.hexdigest()[:8]
