"""videopro pull: an adapter, a planner, a dataset or a run from the hub, into a folder that the other
commands read.

    videopro pull mina/planner planner
    videopro pull mina/programs@v1 programs --videos /data/cg_bench/videos

Every file is compared with the hub's checksum, and the folder is read as the other commands will. If it is
stopped, re-run it: what is there is not downloaded again. With HF_HUB_OFFLINE=1, the hub's cache on this
machine is taken.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from huggingface_hub import HfApi, constants, snapshot_download
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

from videopro import __version__
from videopro.cli import CommandLine, check_connections, exit_status, setting
from videopro.commands.publishing.artefacts import Artefact, RepoType, read_artefact
from videopro.commands.publishing.hub_errors import asking_hub
from videopro.commands.publishing.names import split_name
from videopro.commands.publishing.pulled import check_readable, next_commands
from videopro.commands.publishing.pulled_videos import put_videos
from videopro.errors import ConfigError, writing

_AGAIN = "; re-run the same command: what is there is not downloaded again"
_METADATA = Path(".cache") / "huggingface"
"""Where the hub's client notes what it downloaded into a folder."""
_NAMED = 3
"""How many files a message names."""


@dataclass(frozen=True)
class PullConfig:
    """The settings of `videopro pull`."""

    repo: str = field(metadata=setting("its name on the hub: OWNER/NAME[@REVISION]", positional=True))
    folder: Path = field(metadata=setting("folder for it; new, or that of an earlier pull", positional=True))
    repo_type: Literal["model", "dataset"] | None = field(
        default=None, metadata=setting("which one, if the hub has both under this name")
    )
    videos: Path | None = field(
        default=None, metadata=setting("folder on this machine with the videos of a dataset or a run")
    )


COMMAND = CommandLine("pull", PullConfig)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 2 for errors the user can fix."""
    with exit_status("stopped" + _AGAIN) as status:
        config = COMMAND.parse(argv)
        artefact = pull(config)
        print(f"{artefact.kind} {config.repo}: {config.folder}")
        for line in next_commands(artefact):
            print(f"  {line}")
    return status.code


def pull(config: PullConfig) -> Artefact:
    """Download, check, and return what is there. Raises VideoProError."""
    name, revision = split_name(config.repo, revision=True)
    if config.videos is not None and not config.videos.is_dir():
        raise ConfigError(f"--videos {config.videos}: there is no such folder")
    _check_folder(config.folder)
    if constants.HF_HUB_OFFLINE:
        _copy_cached(config, name, revision)
    else:
        check_connections(constants.ENDPOINT)
        _download(config, name, revision)
    artefact = read_artefact(config.folder)
    check_readable(artefact)
    put_videos(artefact, config.videos)
    return artefact


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder}: is a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / _METADATA).is_dir():
        raise ConfigError(f"{folder}: has files of another origin; name a new folder")


def _download(config: PullConfig, name: str, revision: str | None) -> None:
    api = HfApi(library_name="videopro", library_version=__version__)
    folder = config.folder
    with asking_hub(name, revision, again=_AGAIN):
        repo_type = config.repo_type or _repo_type(api, name, revision)
        # One commit for all that follows: a push may come in between.
        commit = api.repo_info(name, repo_type=repo_type, revision=revision).sha
        with writing(str(folder), folder.parent, then="re-run the command, or name another folder"):
            api.snapshot_download(name, repo_type=repo_type, revision=commit, local_dir=folder)
        checked = api.verify_repo_checksums(name, repo_type=repo_type, revision=commit, local_dir=folder)
    damaged = [*(each["path"] for each in checked.mismatches), *checked.missing_paths]
    if damaged:
        raise ConfigError(
            f"{folder}: {_enumeration(damaged)} not as {name} has it: delete {folder}, and pull again"
        )
    # The client leaves files alone that an earlier commit had.
    extra = [path for path in checked.extra_paths if "/" not in path]
    if extra:
        print(f"{folder} also has {', '.join(extra[:_NAMED])}, which {name} does not have", file=sys.stderr)


def _enumeration(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f"{', '.join(paths[:_NAMED])}{more} {'is' if len(paths) == 1 else 'are'}"


def _repo_type(api: HfApi, name: str, revision: str | None) -> RepoType:
    """Whether the repository is of a model or of a dataset. Raises ConfigError if both exist."""
    types: list[RepoType] = []
    missing: RepositoryNotFoundError | None = None
    for repo_type in ("model", "dataset"):
        try:
            api.repo_info(name, repo_type=repo_type, revision=revision)
            types.append(repo_type)
        except GatedRepoError:
            raise
        except RepositoryNotFoundError as error:
            missing = error
    if len(types) == 2:
        raise ConfigError(f"the hub has a model and a dataset {name}; give --repo-type model or dataset")
    if not types and missing is not None:
        raise missing
    return types[0]


def _copy_cached(config: PullConfig, name: str, revision: str | None) -> None:
    """Copy what the hub's cache has."""
    types: tuple[RepoType, ...] = (config.repo_type,) if config.repo_type else ("model", "dataset")
    problem: ConfigError | None = None
    for repo_type in types:
        try:
            with asking_hub(name, revision):
                cached = snapshot_download(
                    name, repo_type=repo_type, revision=revision, local_files_only=True
                )
        except ConfigError as error:
            problem = error
            continue
        with writing(
            str(config.folder), config.folder.parent, then="re-run the command, or name another folder"
        ):
            # The cache has links to its blobs; a copy outlives it.
            shutil.copytree(cached, config.folder, dirs_exist_ok=True)
        print(
            f"HF_HUB_OFFLINE is set: {name} is taken from the hub's cache, and not compared with the hub",
            file=sys.stderr,
        )
        return
    assert problem is not None
    raise problem


if __name__ == "__main__":
    sys.exit(main())
