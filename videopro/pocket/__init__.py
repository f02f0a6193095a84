"""The pocket world: small real videos, questions about them, and a small Qwen3-VL that answers.

`world` makes the videos, `checkpoint` builds the model's parts, `model_dir()` is the shipped model and
`adapter_dir()` an adapter that turns it into a planner or an agent. They cannot answer questions about
real-world video.
"""

from pathlib import Path

from videopro.cli import did_you_mean
from videopro.errors import BenchmarkError
from videopro.pocket.manifest import NOTE as NOTE
from videopro.pocket.shipped import ADAPTERS as ADAPTERS
from videopro.pocket.shipped import AGENTS as AGENTS
from videopro.pocket.shipped import MODEL_FOLDER as MODEL_FOLDER
from videopro.pocket.shipped import PLANNERS as PLANNERS
from videopro.pocket.shipped import adapter_dir as adapter_dir
from videopro.pocket.shipped import model_dir as model_dir

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
    videos = [video for video, _, _ in world.video_names(split)]
    if name not in videos:
        raise BenchmarkError(
            f"{path}: the split {split!r} has no video {name!r}; it has {videos[0]} to {videos[-1]}"
        )
    return world.ensure(split, videos={name}) / "videos" / f"{name}.mp4"
