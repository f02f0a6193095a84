"""How the options and the backbone of a run by programs are adapted before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from videopro.backbones import MODELS
from videopro.methods.program.settings import ProgramSettings
from videopro.modules import PAPER_FRAMES, ModuleSettings, paper_notes


def adapted_backbone(
    settings: ProgramSettings, model: str, given: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The settings of the backbone, with the frames of a preset, and with the adapter that a plug-in's model
    brings for planning if it would have to write programs by itself, which it was never taught
    (`adapter=null` keeps it as it is); and what to tell the user."""
    backbone, notes = paper_backbone(settings, given)
    planner = MODELS[model].planner if model in MODELS else ""
    if settings.planner == "self" and "adapter" not in given and planner:
        note = (
            f"planner: the shipped adapter {planner} (the {model} model itself cannot write programs; "
            "others: --backbone adapter=FOLDER, --planner NAME)"
        )
        return {**backbone, "adapter": planner}, (*notes, note)
    return backbone, notes


def paper_backbone(
    settings: ModuleSettings, given: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The settings of the backbone that answers inside programs, with the frames of the preset "paper" if it
    is chosen; and what to tell the user of that preset."""
    if settings.preset != "paper":
        return dict(given), ()
    return {"frames": PAPER_FRAMES, **given}, tuple(paper_notes(asdict(settings)))
