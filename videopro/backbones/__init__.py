"""VideoLLMs behind one interface: the Qwen-VL family in transformers, and any OpenAI-compatible server.

Importing this package loads no model library; `load_backbone` imports the one it needs.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from videopro.backbones.address import ServerSettings as ServerSettings
from videopro.backbones.address import check_key_name as check_key_name
from videopro.backbones.address import default_key_name as default_key_name
from videopro.backbones.address import read_address as read_address
from videopro.backbones.address import without_address as without_address
from videopro.backbones.base import DEFAULT_FRAMES as DEFAULT_FRAMES
from videopro.backbones.base import DEFAULT_PIXELS as DEFAULT_PIXELS
from videopro.backbones.base import YES_NO as YES_NO
from videopro.backbones.base import Backbone as Backbone
from videopro.backbones.base import BackboneConfig as BackboneConfig
from videopro.backbones.base import ChoiceRequest as ChoiceRequest
from videopro.backbones.base import GenerateRequest as GenerateRequest
from videopro.backbones.base import Generation as Generation
from videopro.backbones.base import Interleaved as Interleaved
from videopro.backbones.base import Sampling as Sampling
from videopro.backbones.base import Stills as Stills
from videopro.backbones.base import Visual as Visual
from videopro.backbones.base import YesNoRequest as YesNoRequest
from videopro.backbones.checks import check_alive as check_alive
from videopro.backbones.checks import has_files_of as has_files_of
from videopro.backbones.checks import identify as identify
from videopro.backbones.checks import model_needs as model_needs
from videopro.backbones.fingerprint import folder_fingerprint as folder_fingerprint
from videopro.backbones.model_record import MODEL_RECORD as MODEL_RECORD
from videopro.backbones.model_record import BaseRecord as BaseRecord
from videopro.backbones.model_record import ModelRecord as ModelRecord
from videopro.backbones.model_record import PlannerRecord as PlannerRecord
from videopro.backbones.model_record import VideoMarks as VideoMarks
from videopro.backbones.model_record import budget_notes as budget_notes
from videopro.backbones.model_record import library_versions as library_versions
from videopro.backbones.model_record import read_model_record as read_model_record
from videopro.backbones.model_record import write_model_record as write_model_record
from videopro.backbones.own_models import MODELS as MODELS
from videopro.backbones.own_models import OwnModel as OwnModel
from videopro.backbones.own_models import check_scope as check_scope
from videopro.backbones.own_models import expected_model as expected_model
from videopro.backbones.own_models import find_video as find_video
from videopro.backbones.own_models import knowing_models as knowing_models
from videopro.backbones.own_models import own_model as own_model
from videopro.backbones.own_models import owner_of as owner_of
from videopro.backbones.process import hide_weights_bar as hide_weights_bar
from videopro.backbones.process import loaded_whole as loaded_whole
from videopro.backbones.process import sharing_gpu as sharing_gpu
from videopro.backbones.texts import reply_notes as reply_notes
from videopro.backbones.texts import stored_thoughts as stored_thoughts
from videopro.errors import ConfigError


def read_spec(spec: str, **overrides: Any) -> BackboneConfig:
    """The config for a model's short name.

    A plug-in's name, or its file, is the model that it brings, whose adapters may have short names too;
    "server:MODEL@URL" is a served model; anything else is a hub name or a folder. Raises `ConfigError` for a
    malformed spec or an unknown override.
    """
    for name in ("model", "kind", "base_url"):
        if name in overrides:
            raise ConfigError(
                f"backbone: {name} is not a setting; pass the model as server:MODEL@URL, a hub name or a "
                "folder"
            )
    settings: dict[str, Any] = {"model": spec}
    _check_near("model", spec, tuple(MODELS))
    if spec in MODELS:
        plugin = MODELS.find(spec)
        folder = plugin.value.folder()
        settings = {"model": plugin.address, "kind": "own"} if folder is None else {"model": str(folder)}
        adapter = str(overrides.get("adapter") or "")
        if adapter in plugin.value.adapters:
            overrides["adapter"] = str(plugin.value.adapter(adapter))
        else:
            _check_near("adapter", adapter, tuple(plugin.value.adapters))
    elif spec.startswith("server:"):
        model, url = read_address(spec, "backbone")
        settings = {"model": model, "kind": "server", "base_url": url}
    elif spec.startswith("api:"):
        raise ConfigError(
            "backbone 'api:...': answers need log-probabilities, which api: does not request; pass "
            "server:MODEL@URL"
        )
    elif "://" in spec:
        # Not shown: it may hold a password.
        raise ConfigError(
            "backbone: the model is a URL; write server:MODEL@URL, as in server:qwen@http://localhost:8000/v1"
        )
    return BackboneConfig.from_mapping({**settings, **overrides})


def _check_near(setting: str, name: str, names: tuple[str, ...]) -> None:
    """Raise ConfigError for a misspelled short name that is not a folder. A name with a slash is a path or a
    repository on the hub."""
    if "/" in name:
        return
    near = difflib.get_close_matches(name, names, n=1)
    if near and name not in names and not Path(name).expanduser().exists():
        raise ConfigError(f"{setting} {name!r}: there is no such folder; did you mean {near[0]!r}?")


def load_backbone(spec: str | BackboneConfig, **overrides: Any) -> Backbone:
    """Load a backbone by name or config.

    `spec` is a plug-in's name or file, a hub name, a folder, "server:MODEL@URL" or a `BackboneConfig`;
    `overrides` are fields of `BackboneConfig`. Raises `ConfigError` for invalid settings and `BackboneError`
    for a model that cannot be loaded."""
    config = read_spec(spec, **overrides) if isinstance(spec, str) else spec.but(**overrides)
    if config.kind == "server":
        from videopro.backbones.server import ServerBackbone

        return ServerBackbone(config)
    if config.kind == "own":
        return MODELS[config.model].load(config)
    from videopro.backbones.qwen import QwenBackbone

    return QwenBackbone(config)
