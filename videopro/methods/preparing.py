"""Turns a user's request into a run that can start: the one call that a command makes before answering."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from videopro.backbones import (
    MODELS,
    Backbone,
    BackboneConfig,
    check_scope,
    load_backbone,
    model_needs,
    read_spec,
)
from videopro.cli import Need, is_setting
from videopro.errors import ConfigError
from videopro.methods.base import Method, RunRequest
from videopro.methods.planners import PLANNERS
from videopro.methods.registry import METHODS, takes
from videopro.modules import PROGRAM_MODULES
from videopro.modules.models import TRANSCRIBERS
from videopro.modules.models.encoders import ENCODERS
from videopro.plugins import Registry, Used, check_same, used_plugins


@dataclass(frozen=True)
class PreparedModels:
    """The models of a command, whose settings have been checked. Nothing is loaded yet."""

    model: str
    backbone: Mapping[str, Any]
    """Settings of the model, with those that are added to the user's."""
    notes: tuple[str, ...]
    """Notes to the user about the settings."""
    load: Callable[[], Backbone]
    """Makes the model, in this process or in a worker."""
    plugins: tuple[Used, ...]
    """The plug-ins that take part."""
    needs: Callable[[], list[Need]]
    """Looks up what has to be on this machine to load the model and the others, for `check_needs`; a run that
    has all its answers needs nothing."""


@dataclass(frozen=True)
class PreparedRun(PreparedModels):
    """A run whose settings have been checked. Nothing is loaded yet."""

    method: Method
    options: Mapping[str, Any]
    """Those with which workers create the method: `create(address, options)`."""
    address: str
    """The method's name, or its file."""
    identity: Mapping[str, Any]
    """The method's part of the run's key, with the plug-ins that take part."""


def prepare(request: RunRequest) -> PreparedRun:
    """Check a run and resolve its unset settings, without loading a model.

    Asks a served planner for its record, and reads the questions. Raises VideoProError for what the user can
    fix: first what is wrong with the settings by themselves, then what a server refuses, then what does not
    go with the questions.
    """
    plugin = METHODS.find(request.method)
    kind = plugin.value
    for option in fields(kind.Settings):
        if option.name in request.options and not is_setting(option):
            raise ConfigError(
                f"method {kind.name}: {option.name} is not a setting: a run detects it; leave it out"
            )
    options, notes = _with_recorded_prompts(dict(request.options), request.recorded)
    with plugin.located():
        method = kind.with_options(options)
    # A wrong setting of the model shows before a server is asked and the questions are read.
    _model_config(request.model, request.backbone, request.load)
    adapted = method.adapt(replace(request, options=options))
    models = prepare_models(
        request.model,
        adapted.backbone,
        load=request.load,
        names={**asdict(adapted.method.settings), **adapted.models},
        plugins={"method": request.method, "roles": list(adapted.models.values())},
        videos=lambda: request.questions().videos,
        notes=(*notes, *adapted.notes),
        needs=adapted.needs,
    )
    return PreparedRun(
        **vars(models),
        method=adapted.method,
        address=plugin.address,
        options=adapted.options,
        identity={**adapted.method.identity(), **plugin_identity(models.plugins)},
    )


def prepare_models(
    model: str,
    backbone: Mapping[str, Any],
    *,
    load: Callable[..., Backbone],
    names: Mapping[str, Any],
    videos: Callable[[], Iterable[Path]],
    notes: Sequence[str],
    needs: Callable[[BackboneConfig], Sequence[Need]],
    plugins: Mapping[str, Any] = MappingProxyType({}),
) -> PreparedModels:
    """Check a model and the others used with it, for what runs programs without a method too, such as a
    synthesis. `names`: the settings that name models, by setting; `videos`: those that will be looked at,
    read after the settings are checked; `needs`: what the others need in addition to this model;
    `plugins`: what else may name plug-ins, as a setting in `_NAMED_BY`. `load` and `notes`
    as in `RunRequest` and `PreparedModels`. Raises VideoProError."""
    config = _model_config(model, backbone, load)
    named = {**names, "model": model, **backbone}
    used = used_plugins(_named_plugins({**named, **plugins}))
    check_scope(named, videos())
    return PreparedModels(
        model,
        backbone,
        tuple(notes),
        partial(_load_with, used, load, model, **backbone) if used else partial(load, model, **backbone),
        used,
        lambda: [] if config is None else [*model_needs(config), *needs(config)],
    )


def plugin_identity(plugins: Sequence[Used]) -> dict[str, Any]:
    """What a run's key has of the plug-ins that take part; nothing without any."""
    versions = {f"{plugin.kind} {plugin.name}": plugin.version for plugin in plugins}
    return {"plugins": versions} if versions else {}


def named_plugins(named: Mapping[str, Any]) -> dict[str, Any]:
    """`plugin_identity` of the plug-ins that these settings name. Raises VideoProError for one that cannot be
    loaded."""
    return plugin_identity(used_plugins(_named_plugins(named)))


def _load_with(
    plugins: Sequence[Used], load: Callable[..., Backbone], model: str, **backbone: Any
) -> Backbone:
    """Load the model where a worker runs, if it has the plug-ins of the command."""
    check_same(plugins, f"worker on {platform.node()}")
    return load(model, **backbone)


_NAMED_BY: Mapping[str, Registry[Any]] = {
    **dict.fromkeys(("model", "answerer", "roles"), MODELS),
    "method": METHODS,
    "planner": PLANNERS,
    "teacher": PLANNERS,
    "encoder": ENCODERS,
    "speech": TRANSCRIBERS,
    "extra_modules": PROGRAM_MODULES,
}


def _named_plugins(named: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The plug-ins among the names that settings have, with their kinds."""
    for setting, registry in _NAMED_BY.items():
        value = named.get(setting) or ()
        for each in [value] if isinstance(value, str) else value:
            # MODEL+ADAPTER, PLANNER:VARIANT, ENCODER:CHECKPOINT
            name = str(each).partition("+" if registry is MODELS else ":")[0]
            if name in registry:
                yield registry.kind, name


def _model_config(
    model: str, backbone: Mapping[str, Any], load: Callable[..., Backbone]
) -> BackboneConfig | None:
    """The model with these settings; None if nothing is known of it, because tests load it. Raises
    ConfigError for settings that are invalid."""
    return read_spec(model, **backbone) if load is load_backbone else None


def _with_recorded_prompts(
    options: dict[str, Any], recorded: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The options, with the texts that the folder's run recorded if the file of its prompts is gone; and what
    to tell the user about that."""
    file, texts = options.get("prompts"), recorded.get("prompts")
    if not isinstance(file, str) or not texts or Path(file).expanduser().exists():
        return options, ()
    note = f"prompts {file}: not found; the run continues with the prompts that it recorded"
    return {**options, "prompts": texts}, (note,)


def favouring_answers(
    method: str, options: Mapping[str, Any], *, shows_subtitles: bool = False
) -> dict[str, Any]:
    """Options for somebody who waits for one answer, where a benchmark's run follows a rule. They favour
    getting one: an answer that a refinement lost is kept, the model answers if no program or agent did, and a
    direct question is shown the subtitles that it was given. What is set overrides them."""
    # The paper's preset keeps the paper's rule: the last program's answer counts, and nothing replaces it.
    if method in ("program", "adaptive", "videopro") and options.get("preset") == "paper":
        return dict(options)
    if method != "native":
        favoured = {"final": "last-answered", "fallback": "native"}
        return {**{name: rule for name, rule in favoured.items() if takes(method, name, rule)}, **options}
    return {"subtitles": "all", **options} if shows_subtitles else dict(options)
