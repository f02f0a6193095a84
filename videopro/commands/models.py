"""videopro models: list the names that `--model`, `--planner`, `--method`, adapters and encoders accept."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from videopro.backbones import MODELS
from videopro.cli import CommandLine, TextTable, exit_status
from videopro.methods import METHODS
from videopro.methods.planners import PLANNERS
from videopro.modules.models.encoders import ENCODERS, EncoderKind


@dataclass(frozen=True)
class ModelsConfig:
    """`videopro models` has no settings."""


COMMAND = CommandLine("models", ModelsConfig)

BACKBONES = {
    "Qwen/Qwen3-VL-8B-Instruct": "a hub name: Qwen2.5-VL, Qwen3-VL (dense or MoE), Qwen3.5 and newer",
    "FOLDER": "a local checkpoint of one of these",
    "server:MODEL@URL": "a model behind an OpenAI-compatible server: vLLM, SGLang, OpenAI",
}
WRITERS = {
    "self": "the backbone writes the programs, with its adapter if it has one",
    "server:MODEL@URL": "a model behind an OpenAI-compatible server; it sees the video",
    "api:MODEL@URL": "a teacher model behind an OpenAI-compatible API",
    "file:PROGRAM.py": "your own program, the same for every question; it is not refined",
}


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 2 for errors that the user can fix."""
    with exit_status(stopped="stopped") as status:
        COMMAND.parse(argv)
        console = Console()
        for title, rows in tables().items():
            if rows:
                console.print(TextTable(title, ("", ""), tuple(rows.items()), lefts=frozenset(("",))))
    return status.code


def tables() -> dict[str, dict[str, str]]:
    """The accepted names and their descriptions, by flag."""
    own = list(MODELS.working())
    adapters = {name: about for model in own for name, about in model.adapters.items()}
    planners = {}
    for planner in PLANNERS.working():
        planners[planner.name] = _first_paragraph(planner)
        planners |= {f"{planner.name}:{name}": about for name, about in planner.variants.items()}
    return {
        "--model": {**{model.name: model.about for model in own}, **BACKBONES},
        "--backbone adapter=": {**adapters, "FOLDER": "an adapter that videopro sft or grpo trained"},
        "--method": {method.name: _first_paragraph(method) for method in METHODS.working()},
        "--planner": {**WRITERS, **planners},
        "--encoder (index), --options encoder= (infer)": {
            kind.name + ("" if kind.checkpoint else ":FOLDER"): _encoder(kind) for kind in ENCODERS.working()
        },
        "plug-ins that cannot be loaded": {
            problem: "" for registry in (MODELS, METHODS, PLANNERS, ENCODERS) for problem in registry.broken()
        },
    }


def _encoder(kind: EncoderKind) -> str:
    if kind.about:
        return kind.about
    return f"{kind.checkpoint}, or {kind.name}:FOLDER_OR_HUB_NAME"


def _first_paragraph(documented: type) -> str:
    return (inspect.getdoc(documented) or "").partition("\n\n")[0]
