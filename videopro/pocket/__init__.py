"""The pocket world: small real videos, questions about them, and a small Qwen3-VL that answers.

`world` makes the videos, `checkpoint` builds the model's parts, `model_dir()` is the shipped model and
`adapter_dir()` an adapter that turns it into a planner or an agent. They cannot answer questions about
real-world video.
"""

from pathlib import Path

from videopro.errors import BackboneError, BenchmarkError
from videopro.settings import did_you_mean


def model_dir() -> Path:
    """The folder of the shipped pocket model, as the Auto classes load it."""
    folder = Path(__file__).parent / "model"
    if not (folder / "model.safetensors").exists():
        raise BackboneError(
            f"the pocket model is not in {folder}: take a full clone, or train it with "
            "train/pocket/language.py"
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
        script = "pocket.sh" if name in PLANNERS else "pocket_agents.sh"
        raise BackboneError(
            f"the adapter {name} is not in {folder}: take a full clone, or train it with launch/{script}"
        )
    return folder


VIDEO_PREFIX = "pocket:"


def find_video(path: Path) -> Path:
    """The file of a pocket video that is named as "pocket:SPLIT/NAME", such as pocket:test/long_004, which is
    made if it is missing; its narration is beside it, as NAME.srt. Any other path is returned as it is.
    Raises BenchmarkError for an unknown name."""
    if not str(path).startswith(VIDEO_PREFIX):
        return path
    # Imported here: it imports what draws and encodes videos.
    from videopro.pocket import world

    split, slash, name = str(path).removeprefix(VIDEO_PREFIX).partition("/")
    if not slash:
        raise BenchmarkError(f"{path}: write pocket:SPLIT/NAME, such as pocket:test/long_004")
    if split not in world.SPLITS:
        raise BenchmarkError(
            f"{path}: there is no split {split!r}; {did_you_mean(split, list(world.SPLITS))}"
        )
    known = [made for made, _, _ in world.video_names(split)]
    if name not in known:
        raise BenchmarkError(
            f"{path}: the split {split!r} has no video {name!r}; it has {known[0]} to {known[-1]}"
        )
    return world.ensure(split, videos={name}) / "videos" / f"{name}.mp4"
