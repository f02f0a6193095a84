"""The pocket world: small real videos, questions about them, and a small Qwen3-VL that answers.

`world` makes the videos, `checkpoint` builds the model's parts, `model_dir()` is the shipped model and
`planner_dir()` an adapter that turns it into a planner. They cannot answer questions about real-world video.
"""

from pathlib import Path

from videopro.errors import BackboneError


def model_dir() -> Path:
    """The folder of the shipped pocket model, as the Auto classes load it."""
    folder = Path(__file__).parent / "model"
    if not (folder / "model.safetensors").exists():
        raise BackboneError(
            f"the pocket model is not in {folder}: take a full clone, or train it with "
            "train/pocket/language.py"
        )
    return folder


PLANNERS = {"pocket-sft": "sft", "pocket-grpo": "grpo"}
"""Shipped adapters for the pocket model, by the name that the setting `adapter` takes, and their folders."""


def planner_dir(name: str) -> Path:
    """The folder of a shipped adapter, by its name in `PLANNERS`."""
    folder = Path(__file__).parent / "planners" / PLANNERS[name]
    if not (folder / "adapter_model.safetensors").exists():
        raise BackboneError(
            f"the adapter {name} is not in {folder}: take a full clone, or train it with launch/pocket.sh"
        )
    return folder
