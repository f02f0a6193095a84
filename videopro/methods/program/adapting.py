"""How the options and the backbone of a run by programs are adapted before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from videopro.backbones import SHIPPED_PLANNER
from videopro.methods.program.settings import ProgramSettings
from videopro.modules import PAPER_FRAMES, ModuleSettings, paper_notes

_SHIPPED_PLANNER = (
    f"planner: the shipped adapter {SHIPPED_PLANNER} (the pocket model itself cannot write programs; "
    "others: --backbone adapter=FOLDER, --planner pocket-teacher)"
)


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
