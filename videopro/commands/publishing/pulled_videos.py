"""Where the videos of a pulled dataset or run are on this machine: a link beside its files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from videopro import benchmarks
from videopro.benchmarks import BENCHMARKS
from videopro.cli import read_yaml
from videopro.commands.publishing.artefacts import VIDEOS, Artefact
from videopro.commands.publishing.portable import named_files
from videopro.errors import ConfigError


def put_videos(artefact: Artefact, videos: Path | None) -> None:
    """Link the folder that rows and traces name their videos in to `videos`, or to those that their
    benchmark draws. Prints what is not there. Raises ConfigError if the folder is in the way."""
    if artefact.repo_type == "model":
        return
    lines = [line for path in artefact.folder.glob("*.jsonl") for line in path.read_bytes().split(b"\n")]
    prefix = f"{VIDEOS}/"
    names = sorted({name.removeprefix(prefix) for name in named_files(lines) if name.startswith(prefix)})
    if not names:
        return
    source = videos.resolve() if videos is not None else _drawn_videos(artefact, names)
    link = artefact.folder / VIDEOS
    if source is not None:
        if link.exists() and not link.is_symlink():
            raise ConfigError(
                f"{link}: is a folder; remove it, or put the videos there and leave --videos out"
            )
        link.unlink(missing_ok=True)
        link.symlink_to(source, target_is_directory=True)
    missing = [name for name in names if not (link / name).is_file()]
    if missing:
        fix = "put them there" if link.exists() else "re-run with --videos FOLDER, or put them there"
        print(
            f"{len(missing)} of {len(names)} videos and subtitles are not in {link}, such as {missing[0]}: "
            f"{fix}",
            file=sys.stderr,
        )


def _drawn_videos(artefact: Artefact, names: list[str]) -> Path | None:
    """The folder of the videos that a benchmark draws, if they are missing; None for other videos."""
    config = read_yaml(artefact.folder / "config.yaml") if (artefact.folder / "config.yaml").is_file() else {}
    source = str(config.get("benchmark") or config.get("source"))
    if source not in BENCHMARKS or BENCHMARKS[source].needs_root:
        return None
    identity: Mapping[str, Any] = config.get("identity") or {}
    about = identity.get("protocol") or identity.get("synthesis") or {}
    drawn = benchmarks.load(source, split=about.get("split") or "test", world_seed=config.get("world_seed"))
    if drawn.version != about.get("version"):
        print(
            f"its videos are those of another version of {source} ({about.get('version')}; this one "
            f"makes {drawn.version})",
            file=sys.stderr,
        )
        return None
    stems = {Path(name).stem for name in names}
    items = [item for item in drawn.items if item.video.stem in stems]
    if not items:
        return None
    if drawn.fetch is not None:
        drawn.fetch(items)
    return items[0].video.parent.resolve()
