"""The model that an adapter or a planner was made from, as the hub knows it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from videopro.backbones import MODELS, ModelRecord, read_model_record
from videopro.cli import is_hub_name
from videopro.commands.publishing.artefacts import ADAPTER_CONFIG, MODEL_RECORD, Artefact
from videopro.errors import ConfigError

# Where the hub's client keeps a model: models--OWNER--NAME/snapshots/COMMIT.
_CACHED = re.compile(r"models--(?P<owner>[^/]+?)--(?P<name>[^/]+)/snapshots/")


@dataclass(frozen=True)
class Base:
    """The base of a model."""

    name: str
    """Its name on the hub, or that of a plug-in's model; "": it has none."""
    sentence: str
    """For the card."""

    @property
    def hub_name(self) -> str:
        """Its name on the hub; "" if it has none."""
        return "" if self.name in MODELS else self.name


def find_base(artefact: Artefact, named: str | None = None) -> Base:
    """The base that the records name. `named`: what the user says that it is called on the hub. Raises
    ConfigError for a name that is none of the hub, and for one that contradicts the record."""
    recorded = _recorded(artefact)
    cached = _CACHED.search(recorded)
    base = f"{cached['owner']}/{cached['name']}" if cached else recorded
    if named is not None:
        if not is_hub_name(named):
            raise ConfigError(f"--base {named}: is no name on the hub, such as Qwen/Qwen3-VL-8B-Instruct")
        if base != named and (base in MODELS or _is_name(base)):
            raise ConfigError(
                f"--base {named}: {artefact.folder / MODEL_RECORD} says that it was trained on {base}; "
                "leave --base out"
            )
        return Base(named, f"[{named}](https://huggingface.co/{named})")
    if base in MODELS:
        return Base(base, f"{base}, {MODELS[base].about}")
    if _is_name(base):
        return Base(base, f"[{base}](https://huggingface.co/{base})")
    if not base:
        return Base("", "not recorded")
    sentence = (
        f"`{Path(base).name}`, a folder of the machine that trained it; its name on the hub is not known"
    )
    return Base("", sentence)


def _is_name(name: str) -> bool:
    return bool(name) and is_hub_name(name) and not Path(name).is_absolute()


def _recorded(artefact: Artefact) -> str:
    record: ModelRecord = read_model_record(artefact.folder)
    if record.planner is not None and record.planner.base:
        return record.planner.base
    if record.base is not None:
        return record.base.name
    return str(artefact.json(ADAPTER_CONFIG).get("base_model_name_or_path") or "")
