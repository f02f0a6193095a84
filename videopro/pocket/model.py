"""The pocket model as other code asks it: what goes with it, and about which videos it can answer.

About any video but those of the pocket world, its models answer with high confidence, and wrongly. So they
refuse them, before anything is loaded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from videopro.backbones import OwnModel
from videopro.cli import cache_root, did_you_mean
from videopro.errors import BackboneError, BenchmarkError
from videopro.pocket import ADAPTERS, AGENTS, PLANNERS, adapter_dir, model_dir
from videopro.pocket.encoders import ASP_CLIP, ENCODER
from videopro.pocket.manifest import NOTE, write_file
from videopro.question import Question

LAPTOP_MODEL = "Qwen/Qwen3-VL-2B-Instruct"
"""The model to take instead, without a GPU."""

_TEACHER = "pocket-teacher"
# What tells the pocket model's shape from that of any other model.
_SHAPE = ("hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size")


class PocketModel(OwnModel):
    """The small Qwen3-VL that was trained on the pocket world."""

    name = "pocket"
    about = "the shipped model of the pocket world: runs anywhere, but knows pocket videos only"
    adapters = {
        **dict.fromkeys(PLANNERS, "writes programs"),
        **dict.fromkeys(AGENTS, "writes the replies of an agent"),
    }
    planner = PLANNERS[0]
    modules = {
        "encoder": "pocket",
        "text_encoder": "none",
        "ocr": "rapidocr",
        "detector": "backbone",
        "tracker": "detector",
    }
    sample = "test/short_016"
    summarizes = False
    converses = False
    scope = "the pocket model knows the generated pocket videos only; it cannot answer about other videos"

    def folder(self) -> Path:
        return model_dir()

    def adapter(self, name: str) -> Path:
        return adapter_dir(name)

    def owns(self, name: str) -> bool:
        """Its model (also one that was trained from it, or is served under its name), adapters, teacher and
        encoders."""
        model = name.removeprefix("server:").rpartition("@")[0] if name.startswith("server:") else name
        base = model if Path(model).is_dir() else model.partition("+")[0]
        if self.is_at(base) or model in (*ADAPTERS, ENCODER.name, ASP_CLIP.name) or name.startswith(_TEACHER):
            return True
        # languagebind:FOLDER, asp-clip:FOLDER
        return any(_is_made_here(part) for part in (model, model.partition(":")[2]) if part)

    def refusal(self, role: str, name: str, video: Path) -> str:
        if is_pocket_video(video):
            return ""
        return (
            "knows the generated pocket videos only, and answers others wrongly with high confidence; "
            f"{_instead(role, name)}"
        )

    def questions_about(self, video: Path) -> Sequence[Question]:
        """Those that were made with the video; none about other videos."""
        if (recorded := _recorded(video)) is None or (note := _note_of(*recorded)) is None:
            return []
        lines = (note.parents[1] / "questions.jsonl").read_text(encoding="utf-8").splitlines()
        return [
            Question(record["question"], tuple(record["choices"]))
            for record in map(json.loads, lines)
            if Path(record["video"]).stem == note.stem
        ]

    def find_video(self, name: str) -> Path:
        """The file of pocket:SPLIT/NAME; its narration is beside it, as NAME.srt."""
        # Imported here: it imports what draws and encodes videos.
        from videopro.pocket import world

        split, slash, video = name.partition("/")
        if not slash:
            raise BenchmarkError(f"pocket:{name}: write pocket:SPLIT/NAME, such as pocket:test/long_004")
        if split not in world.SPLITS:
            raise BenchmarkError(
                f"pocket:{name}: there is no split {split!r}; {did_you_mean(split, list(world.SPLITS))}"
            )
        videos = [each for each, _, _ in world.video_names(split)]
        if video not in videos:
            raise BenchmarkError(
                f"pocket:{name}: the split {split!r} has no video {video!r}; it has {videos[0]} to "
                f"{videos[-1]}"
            )
        return world.ensure(split, videos={video}) / "videos" / f"{video}.mp4"

    def mark_copy(self, video: Path, digest: str) -> None:
        """Without its manifest beside it, a copy would be refused."""
        size = video.stat().st_size
        if _note_of(size, digest) is not None:
            content = {"video": video.stem, "files": {video.suffix: [size, digest]}}
            write_file(video.with_suffix(NOTE), json.dumps(content).encode())


POCKET = PocketModel()


def is_pocket_video(path: Path) -> bool:
    """Whether a file is a video that the pocket world made, or a link to one: its manifest is beside it."""
    return _recorded(path) is not None


def _recorded(path: Path) -> tuple[int, str] | None:
    """The size and hash in the manifest beside a pocket video; None for another video."""
    try:
        file = path.resolve()
        note = json.loads(file.with_suffix(NOTE).read_bytes())
        size, digest = note["files"][file.suffix]
        # By size and not by hash, which would read every video before a run.
        is_it = note["video"] == file.stem and size == file.stat().st_size
        return (size, digest) if is_it else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _note_of(size: int, digest: str) -> Path | None:
    """The manifest of the video or narration with this size and hash in the cache; None: there is none."""
    for note in cache_root().glob(f"pocket-*/*/videos/*{NOTE}"):
        try:
            made = [tuple(file) for file in json.loads(note.read_bytes())["files"].values()]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        if (size, digest) in made:
            return note.resolve()  # Other phrasings are about the same videos, behind a link.
    return None


def _is_made_here(name: str) -> bool:
    try:
        folder = Path(name).expanduser()
        if not folder.is_dir():
            return False
        encoders = [Path(kind.checkpoint) for kind in (ENCODER, ASP_CLIP)]
        is_shipped = folder.resolve() in [p.resolve() for p in (*encoders, *map(adapter_dir, ADAPTERS))]
        # By its shape too: a model that was trained from the pocket model knows no more than it.
        return is_shipped or _shape(folder) == _shape(model_dir())
    except (OSError, RuntimeError, ValueError, AttributeError, BackboneError):
        return False


def _shape(folder: Path) -> tuple[Any, ...] | None:
    file = folder / "config.json"
    if not file.is_file():
        return None
    config = json.loads(file.read_bytes())
    return tuple(config.get("text_config", {}).get(name) for name in _SHAPE)


def _instead(role: str, name: str) -> str:
    if name.startswith(_TEACHER):
        return "use a language model, api:MODEL@URL" + (
            ", or the model itself, self" if role == "planner" else ""
        )
    if role in ("adapter", "adapter_model"):
        return "leave it out, or use an adapter trained on real videos"
    if role == "encoder":
        return "use languagebind, clip or siglip2"
    return f"use {LAPTOP_MODEL} (on a laptop), a larger hub model, or server:MODEL@URL"
