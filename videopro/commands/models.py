"""videopro models: the names that `--model`, `--planner`, `--method`, adapters and encoders take."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console

from videopro.cli import CommandLine, TextTable, exit_status
from videopro.methods import METHODS
from videopro.modules.models.encoders import CHECKPOINTS
from videopro.pocket import AGENTS, PLANNERS


@dataclass(frozen=True)
class ModelsConfig:
    """`videopro models` has no settings."""


COMMAND = CommandLine("models", ModelsConfig)

BACKBONES = {
    "pocket": "the shipped model of the pocket world: runs anywhere, and knows nothing else",
    "Qwen/Qwen3-VL-8B-Instruct": "a hub name: Qwen2.5-VL, Qwen3-VL (dense or MoE), Qwen3.5 and newer",
    "FOLDER": "a checkpoint of one of these on disk",
    "server:MODEL@URL": "a model behind an OpenAI-compatible server: vLLM, SGLang, OpenAI",
}
WRITERS = {
    "self": "the backbone writes its programs, with its adapter on if it has one",
    "server:MODEL@URL": "a model behind an OpenAI-compatible server, which sees the video",
    "api:MODEL@URL": "a teacher behind an OpenAI-compatible API",
    "pocket-teacher": "an offline stand-in for such a teacher, in the pocket world",
    "pocket-teacher:unread": "the same without its reader of questions",
    "file:PROGRAM.py": "your own program, the same for every question; nothing refines it",
}


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 2 for errors the user can fix."""
    with exit_status(stopped="stopped") as status:
        COMMAND.parse(argv)
        console = Console()
        for title, rows in tables().items():
            console.print(TextTable(title, ("", ""), tuple(rows.items()), lefts=frozenset(("",))))
    return status.code


def tables() -> dict[str, dict[str, str]]:
    """What can be named, and what each is, by the flag that takes it."""
    adapters = dict.fromkeys(PLANNERS, "writes programs")
    adapters |= dict.fromkeys(AGENTS, "writes the replies of an agent")
    encoders = {name: f"{source}, or {name}:FOLDER_OR_HUB_NAME" for name, source in CHECKPOINTS.items()}
    return {
        "--model": BACKBONES,
        "--backbone adapter=": {**adapters, "FOLDER": "an adapter that videopro sft or grpo trained"},
        "--method": {name: _first_paragraph(method) for name, method in METHODS.items()},
        "--planner": WRITERS,
        "--encoder (index), --options encoder= (infer)": {
            "pocket": "the shipped encoder of the pocket world",
            "pocket-asp": "the shipped ASP-CLIP of the pocket world",
            **encoders,
            "asp-clip:FOLDER": "ASP-CLIP as videopro asp-clip trained it",
        },
    }


def _first_paragraph(documented: type) -> str:
    return (inspect.getdoc(documented) or "").partition("\n\n")[0]


if __name__ == "__main__":
    sys.exit(main())
