"""From what the user asks to a run that can start: the one call that a command makes before it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from videopro.backbones import Backbone, BackboneConfig, load_backbone, model_needs, read_spec
from videopro.cli import Need, is_setting
from videopro.errors import ConfigError
from videopro.methods.base import Method, RunRequest
from videopro.methods.registry import method_class
from videopro.modules import check_scope


@dataclass(frozen=True)
class PreparedModels:
    """The models of a command, whose settings have been checked. Nothing is loaded yet."""

    model: str
    backbone: Mapping[str, Any]
    """Settings of the model, with those that are added to the user's."""
    notes: tuple[str, ...]
    """What to tell the user about the settings."""
    load: Callable[[], Backbone]
    """Makes the model, in this process or in a worker."""
    needs: Callable[[], list[Need]]
    """Looks up what has to be on this machine to load the model and the others, for `check_needs`; a run that
    has all its answers needs nothing."""


@dataclass(frozen=True)
class PreparedRun(PreparedModels):
    """A run whose settings have been checked. Nothing is loaded yet."""

    method: Method
    options: Mapping[str, Any]
    """Those with which workers create the method: `create(method.name, options)`."""
    identity: Mapping[str, Any]
    """The method's part of the run's key."""


def prepare(request: RunRequest) -> PreparedRun:
    """Check a run and settle what its settings leave open, without loading a model.

    Asks a served planner for its record, and reads the questions. Raises VideoProError for what the user can
    fix: first what is wrong with the settings by themselves, then what a server refuses, then what does not
    go with the questions.
    """
    kind = method_class(request.method)
    for option in fields(kind.Settings):
        if option.name in request.options and not is_setting(option):
            raise ConfigError(
                f"method {kind.name}: {option.name} is no setting: a run finds it out by itself; leave it out"
            )
    options, notes = _with_recorded_prompts(dict(request.options), request.recorded)
    method = kind.with_options(options)
    # A wrong setting of the model shows before a server is asked and the questions are read.
    _model_config(request.model, request.backbone, request.load)
    adapted = method.adapt(replace(request, options=options))
    models = prepare_models(
        request.model,
        adapted.backbone,
        load=request.load,
        names={**asdict(adapted.method.settings), **adapted.models},
        videos=lambda: request.questions().videos,
        notes=(*notes, *adapted.notes),
        needs=adapted.needs,
    )
    return PreparedRun(
        **vars(models), method=adapted.method, options=adapted.options, identity=adapted.method.identity()
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
) -> PreparedModels:
    """Check a model and the others beside it, for what runs programs without a method too, such as a
    synthesis. `names`: the settings that name models, by setting; `videos`: those that will be looked at,
    read after the settings are checked; `needs`: what the others need beside this model. `load` and `notes`
    as in `RunRequest` and `PreparedModels`. Raises VideoProError."""
    config = _model_config(model, backbone, load)
    check_scope({**names, "model": model, **backbone}, videos())
    return PreparedModels(
        model,
        backbone,
        tuple(notes),
        partial(load, model, **backbone),
        lambda: [] if config is None else [*model_needs(config), *needs(config)],
    )


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
    note = f"prompts {file}: not there; the run goes on with those that it recorded"
    return {**options, "prompts": texts}, (note,)
