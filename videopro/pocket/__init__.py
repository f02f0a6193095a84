"""The pocket world, the first plug-in: small real videos, questions about them, and a small Qwen3-VL that
answers.

What plugs in is in `model`, `benchmark`, `encoders` and `teacher` (the entry points in pyproject.toml).
`world` makes the videos; `model_dir()` is the shipped model and `adapter_dir()` an adapter that turns it into
a planner or an agent. They cannot answer questions about real-world video."""

from functools import cache
from pathlib import Path

from videopro.errors import BackboneError
from videopro.pocket.manifest import NOTE as NOTE

MODEL_FOLDER = Path(__file__).parent / "model"
"""Where the shipped model is, in a full clone."""


@cache
def model_dir() -> Path:
    """The folder of the shipped pocket model, as the Auto classes load it."""
    folder = MODEL_FOLDER
    # A clone without Git LFS, or a package from an index, has the code and not the weights.
    if not (folder / "model.safetensors").exists():
        raise BackboneError(
            f"the pocket model is not in {folder}; make a full clone, or make it with python -m "
            "videopro.train.pocket"
        )
    return folder


PLANNERS = ("pocket-sft", "pocket-grpo")
"""Shipped adapters that write programs."""

AGENTS = ("pocket-vca", "pocket-lv-looks", "pocket-lv-times", "pocket-lv-words")
"""Shipped adapters that write the replies of agents: of VCA, and of three different agents of LVAgent."""

ADAPTERS = {
    **{name: f"planners/{name.removeprefix('pocket-')}" for name in PLANNERS},
    **{name: f"agents/{name.removeprefix('pocket-')}" for name in AGENTS},
}
"""Shipped adapters for the pocket model, by the name that the setting `adapter` takes, and their folders."""


def adapter_dir(name: str) -> Path:
    """The folder of a shipped adapter, by its name in `ADAPTERS`."""
    folder = Path(__file__).parent / ADAPTERS[name]
    if not (folder / "adapter_model.safetensors").exists():
        # Planners can be made again; agents' adapters ship only (videopro/pocket/agents/RECORD.md).
        trained = ", or train it with launch/pocket.sh" if name in PLANNERS else ""
        raise BackboneError(f"the adapter {name} is not in {folder}; make a full clone{trained}")
    return folder
