"""How the options and the backbone of a run by programs are adapted before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from videopro.backbones import SHIPPED_PLANNER
from videopro.methods.planners import FILE, PAPER_TEMPERATURE
from videopro.methods.program.settings import ProgramSettings
from videopro.modules import PAPER_FRAMES, ModuleSettings, paper_notes
from videopro.modules.models.encoders import AUTO_DTYPE, OLD_DTYPE, resolve_dtype

REASONED_CONFIDENCE, ENCODER_DTYPE = "reasoned_confidence", "encoder_dtype"

_SHIPPED_PLANNER = (
    f"planner: the shipped adapter {SHIPPED_PLANNER} (the pocket model itself cannot write programs; "
    "others: --backbone adapter=FOLDER, --planner pocket-teacher)"
)


def as_it_began(options: Mapping[str, Any], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with what a run began with whose command named none when other values were the defaults:
    its temperature, that letters which programs reason are guesses, and the precision of its clip encoder."""
    began = dict(options)
    is_named = options.get("temperature") is not None or options.get("preset") is not None
    if not is_named and recorded.get("temperature") == PAPER_TEMPERATURE:
        began["temperature"] = PAPER_TEMPERATURE
    if recorded and REASONED_CONFIDENCE not in recorded:
        began.setdefault(REASONED_CONFIDENCE, "none")
    if recorded and _leaves_dtype(options):
        began[ENCODER_DTYPE] = recorded.get(ENCODER_DTYPE, OLD_DTYPE)
    return began


def _leaves_dtype(options: Mapping[str, Any]) -> bool:
    """Whether the options leave the precision of the clip encoder to the machine."""
    return bool(options.get(ENCODER_DTYPE, AUTO_DTYPE) == AUTO_DTYPE)


def notes_of_beginning(given: Mapping[str, Any], began: Mapping[str, Any]) -> tuple[str, ...]:
    """What to tell the user of what `as_it_began` added."""
    notes = []
    samples = not str(given.get("planner")).startswith(("pocket-teacher", FILE))
    if samples and given.get("temperature") != began.get("temperature"):
        temperature = began["temperature"]
        notes.append(
            f"temperature: the run goes on with {temperature}, with which it began; a new run is greedy "
            f"unless --options temperature={temperature} is given"
        )
    if REASONED_CONFIDENCE in began and REASONED_CONFIDENCE not in given:
        notes.append(
            f"{REASONED_CONFIDENCE}: the run goes on with none, with which it began; in a new run a letter "
            "that a program reasons is as sure as the calls that decided it"
        )
    dtype = began.get(ENCODER_DTYPE, AUTO_DTYPE)
    if _leaves_dtype(given) and dtype not in (AUTO_DTYPE, here := resolve_dtype(AUTO_DTYPE)):
        notes.append(
            f"{ENCODER_DTYPE}: the run goes on with {dtype}, with which it began; a new run on this machine "
            f"has {here}"
        )
    return tuple(notes)


def adapted_backbone(
    settings: ProgramSettings, model: str, given: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The settings of the backbone, with the frames of a preset, and with the shipped planner if the pocket
    model would have to write programs by itself, which it was never taught (`adapter=null` keeps it as it
    is); and what to tell the user."""
    backbone, notes = paper_backbone(settings, given)
    if settings.planner == "self" and "adapter" not in given and model == "pocket":
        return {**backbone, "adapter": SHIPPED_PLANNER}, (*notes, _SHIPPED_PLANNER)
    return backbone, notes


def paper_backbone(
    settings: ModuleSettings, given: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The settings of the backbone that answers inside programs, with the frames of the preset "paper" if it
    is chosen; and what to tell the user of that preset."""
    if settings.preset != "paper":
        return dict(given), ()
    return {"frames": PAPER_FRAMES, **given}, tuple(paper_notes(asdict(settings)))
