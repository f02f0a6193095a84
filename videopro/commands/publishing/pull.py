"""videopro pull: download an adapter, a planner, a dataset or a run from the hub, into a folder for the other
commands.

    videopro pull mina/planner planner
    videopro pull mina/programs@v1 programs --videos /data/cg_bench/videos

Every file is verified against the hub's checksum, and the folder is read as by the other commands. If it is
stopped, re-run it; existing files are not downloaded again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import HfApi, get_token

from videopro import __version__, benchmarks
from videopro.backbones import read_model_record
from videopro.benchmarks import BENCHMARKS
from videopro.cli import CommandLine, exit_status, option, read_yaml, setting
from videopro.commands.publishing.artefacts import VIDEOS, Artefact, RepoType, read_artefact
from videopro.commands.publishing.card import base_name, train_commands, use_command
from videopro.commands.publishing.hub import asking_hub, check_hub, split_name
from videopro.commands.publishing.portable import named_files
from videopro.errors import ConfigError, writing
from videopro.runs import RunFolder

_AGAIN = "; re-run the same command; existing files are not downloaded again"
_METADATA = Path(".cache") / "huggingface"
"""Where the hub's client records what it downloaded into a folder."""


@dataclass(frozen=True)
class PullConfig:
    """The settings of `videopro pull`."""

    repo: str = field(metadata=setting("hub name: OWNER/NAME[@REVISION]", positional=True))
    folder: Path = field(metadata=setting("target folder: new, or from an earlier pull", positional=True))
    repo_type: Literal["model", "dataset"] | None = option(
        None, "repository type, if the hub has both under this name"
    )
    videos: Path | None = option(None, "local folder with the videos of a dataset or a run")


COMMAND = CommandLine("pull", PullConfig)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 2 for errors that the user can fix."""
    with exit_status("stopped" + _AGAIN) as status:
        config = COMMAND.parse(argv)
        artefact = pull(config)
        print(f"{artefact.kind} {config.repo}: {config.folder}")
        for line in next_commands(artefact):
            print(f"  {line}")
    return status.code


def pull(config: PullConfig) -> Artefact:
    """Download, verify, and return the artefact. Raises VideoProError."""
    name, revision = split_name(config.repo)
    if config.videos is not None and not config.videos.is_dir():
        raise ConfigError(f"--videos {config.videos}: no such folder; pass the folder of the videos")
    if config.folder.exists() and not config.folder.is_dir():
        raise ConfigError(f"{config.folder}: is a file; pass a folder")
    # Files of another origin would be taken for what was pulled.
    if config.folder.is_dir() and any(config.folder.iterdir()) and not (config.folder / _METADATA).is_dir():
        raise ConfigError(f"{config.folder}: contains files from elsewhere; pass a new folder")
    check_hub(get_token(), needed=False)
    _download(config, name, revision)
    artefact = read_artefact(config.folder)
    # Read as the commands do that use it: a later version may have written it.
    if artefact.kind == "run":
        RunFolder(artefact.folder).read()
    elif artefact.repo_type == "model":
        read_model_record(artefact.folder)
    if artefact.repo_type == "dataset":
        _put_videos(artefact, config.videos)
    return artefact


def next_commands(artefact: Artefact) -> list[str]:
    """Commands to try next."""
    folder = str(artefact.folder)
    if artefact.kind == "run":
        return [f"videopro view {folder} --open", f"videopro report {folder} --output report"]
    if artefact.kind == "dataset":
        return train_commands(folder, artefact.files())
    return [use_command(artefact, folder, base_name(artefact))]


def _download(config: PullConfig, name: str, revision: str | None) -> None:
    api = HfApi(library_name="videopro", library_version=__version__)
    folder = config.folder
    with asking_hub(name, revision, again=_AGAIN):
        repo_type = config.repo_type or _repo_type(api, name)
        # One commit for all that follows: a push may come in between.
        commit = api.repo_info(name, repo_type=repo_type, revision=revision).sha
        with writing(str(folder), folder.parent, then="re-run the command, or pass another folder"):
            api.snapshot_download(name, repo_type=repo_type, revision=commit, local_dir=folder)
        checked = api.verify_repo_checksums(name, repo_type=repo_type, revision=commit, local_dir=folder)
    damaged = [*(each["path"] for each in checked.mismatches), *checked.missing_paths]
    if damaged:
        raise ConfigError(
            f"{folder}: differs from {name}: {', '.join(damaged)}; delete {folder}, and pull again"
        )


def _repo_type(api: HfApi, name: str) -> RepoType:
    """Whether the repository is a model or a dataset. Raises ConfigError if both exist."""
    kinds: tuple[RepoType, RepoType] = ("model", "dataset")
    types = [kind for kind in kinds if api.repo_exists(name, repo_type=kind)]
    if len(types) == 2:
        raise ConfigError(f"the hub has both a model and a dataset {name}; set --repo-type model or dataset")
    # One that does not exist is asked for once more, which says why.
    return types[0] if types else "model"


# ---- videos ------------------------------------------------------------------------------------------------


def _put_videos(artefact: Artefact, videos: Path | None) -> None:
    """Link the folder in which rows and traces name their videos to `videos`, or to the videos that their
    benchmark generates. Prints what is missing. Raises ConfigError if a folder is in the way."""
    prefix = f"{VIDEOS}/"
    named = {name for rows in artefact.folder.glob("*.jsonl") for name in named_files(rows)}
    names = sorted(name.removeprefix(prefix) for name in named if name.startswith(prefix))
    if not names:
        return
    source = videos.resolve() if videos is not None else _drawn_videos(artefact, names)
    link = artefact.folder / VIDEOS
    if source is not None:
        if link.exists() and not link.is_symlink():
            raise ConfigError(
                f"{link}: is a folder; remove it, or put the videos there and leave out --videos"
            )
        link.unlink(missing_ok=True)
        link.symlink_to(source, target_is_directory=True)
    missing = [name for name in names if not (link / name).is_file()]
    if missing:
        fix = "put them there" if link.exists() else "re-run with --videos FOLDER, or put them there"
        print(
            f"{len(missing)} of {len(names)} videos and subtitles are missing in {link}, such as "
            f"{missing[0]}; {fix}",
            file=sys.stderr,
        )


def _drawn_videos(artefact: Artefact, names: Sequence[str]) -> Path | None:
    """The folder of the videos that a benchmark generates, if they are missing; None for other videos."""
    config = read_yaml(artefact.folder / "config.yaml") if (artefact.folder / "config.yaml").is_file() else {}
    source = str(config.get("benchmark") or config.get("source"))
    if source not in BENCHMARKS or BENCHMARKS[source].needs_root:
        return None
    identity: dict[str, Any] = config.get("identity") or {}
    about = identity.get("protocol") or identity.get("synthesis") or {}
    split = about.get("split") or "test"
    drawn = benchmarks.load(source, split=split, world_seed=config.get("world_seed"))
    if drawn.version != about.get("version"):
        print(f"its videos belong to another version of {source} ({about.get('version')})", file=sys.stderr)
        return None
    # A video and its subtitles have one stem.
    stems = {Path(name).stem for name in names}
    items = [item for item in drawn.items if item.video.stem in stems]
    if items and drawn.fetch is not None:
        drawn.fetch(items)
    return items[0].video.parent.resolve() if items else None
