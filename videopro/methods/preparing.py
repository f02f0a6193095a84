"""From what the user asks to a run that can start: the one call that a command makes before it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from videopro.backbones import Backbone, BackboneConfig, model_needs
from videopro.cli import Need, without_recorded
from videopro.methods.base import Adaptation, Method
from videopro.methods.registry import method_class
from videopro.methods.requests import RunRequest
from videopro.modules import check_scope


@dataclass(frozen=True)
class PreparedRun:
    """A run whose settings have been checked. Nothing is loaded yet."""

    method: Method
    options: Mapping[str, Any]
    """Those with which workers create the method: `create(method.name, options)`."""
    model: str
    backbone: Mapping[str, Any]
    """Settings of the model, with those that the method adds."""
    notes: tuple[str, ...]
    """What to tell the user about the settings."""
    identity: Mapping[str, Any]
    """The method's part of the run's key."""
    load: Callable[[], Backbone]
    """Makes the model, in this process or in a worker."""
    needs: Callable[[], list[Need]]
    """Looks up what has to be on this machine to load the model and the method's own, for `check_needs`; a
    run that has all its answers needs nothing."""


def prepare(request: RunRequest) -> PreparedRun:
    """Check a run and settle what its settings leave open, without loading a model.

    Asks a served planner for its record, and reads the questions. Raises VideoProError for what the user can
    fix: first what is wrong with the settings by themselves, then what a server refuses, then what does not
    go with the questions.
    """
    kind = method_class(request.method)
    options = without_recorded(kind.Settings, request.options, request.recorded)
    options, notes = _with_recorded_prompts(options, request.recorded)
    method = kind.with_options(options)
    # A wrong setting of the model shows before a server is asked and the questions are read.
    request.model_config(request.backbone)
    made = method.adapt(replace(request, options=options))
    check_scope(
        {**asdict(made.method.settings), **made.models, "model": request.model, **made.backbone},
        request.questions().videos,
    )
    return PreparedRun(
        made.method,
        made.options,
        request.model,
        made.backbone,
        (*notes, *made.notes),
        made.method.identity(),
        partial(request.load, request.model, **made.backbone),
        partial(_needs, request.model_config(made.backbone), made),
    )


def _needs(model: BackboneConfig | None, made: Adaptation) -> list[Need]:
    return [] if model is None else [*model_needs(model), *made.needs(model)]


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
