"""videopro push: an adapter, a planner, a dataset or a run to the hub, with a card made from its records.

    videopro push runs/sft mina/planner --results runs/videopro
    videopro push runs/synth mina/programs --dry-run

A new repository is private unless --public is given. Videos, keys and what names this machine stay here; the
command lists what it leaves out. If it is stopped, re-run it: what the hub has is not sent again.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from huggingface_hub import DatasetCard, HfApi, ModelCard, constants, get_token
from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError

from videopro import __version__
from videopro.cli import CommandLine, check_connections, exit_status, key_problem, parse_yaml, setting
from videopro.commands.publishing.artefacts import (
    CARD,
    CARD_JSON,
    CARD_MD,
    Artefact,
    read_artefact,
)
from videopro.commands.publishing.bases import Base, find_base
from videopro.commands.publishing.card_text import with_edits
from videopro.commands.publishing.data_card import data_card
from videopro.commands.publishing.hub_errors import NO_TOKEN, asking_hub
from videopro.commands.publishing.model_card import model_card
from videopro.commands.publishing.names import split_name
from videopro.commands.publishing.run_card import RunSummary, run_card
from videopro.commands.publishing.staging import StagedFile, refuse_secrets, stage, write_staged
from videopro.errors import ConfigError, writing
from videopro.storage import parse_json

Card = ModelCard | DatasetCard
_AGAIN = "; re-run the same command: what the hub has is not sent again"


@dataclass(frozen=True)
class PushConfig:
    """The settings of `videopro push`."""

    folder: Path = field(
        metadata=setting("folder of an adapter, a planner, a dataset or a run", positional=True)
    )
    repo: str = field(metadata=setting("its name on the hub: OWNER/NAME", positional=True))
    public: bool = field(
        default=False, metadata=setting("let everybody read it; a new repository is private without this")
    )
    base: str | None = field(
        default=None,
        metadata=setting("hub name of the model that it was trained on, where that was a local folder"),
    )
    results: tuple[str, ...] = field(
        default=(), metadata=setting("folders of runs with this model, whose tables go into its card")
    )
    datasets: tuple[str, ...] = field(
        default=(), metadata=setting("hub names of the datasets that it was trained on, for its card")
    )
    license: str | None = field(
        default=None,
        metadata=setting("licence for the card, such as apache-2.0; unset: what the card on the hub says"),
    )
    revision: str | None = field(default=None, metadata=setting("branch to push to; unset: main"))
    dry_run: bool = field(
        default=False, metadata=setting("list the files and print the card; connects to nothing")
    )


COMMAND = CommandLine("push", PushConfig)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 2 for errors the user can fix."""
    with exit_status("stopped" + _AGAIN) as status:
        config = COMMAND.parse(argv)
        push(config)
    return status.code


def push(config: PushConfig) -> str:
    """Push a folder, or with `dry_run` show what would be pushed. Returns the commit's address, "" without
    one. Raises VideoProError."""
    split_name(config.repo, revision=False)
    artefact = read_artefact(config.folder)
    is_model = artefact.repo_type == "model"
    for name in ("base", "results", "datasets"):
        if getattr(config, name) and not is_model:
            raise ConfigError(
                f"--{name}: is for adapters and planners; {config.folder} is of kind {artefact.kind}"
            )
    base = find_base(artefact, config.base) if is_model else Base("", "")
    staged = stage(artefact, base=base.hub_name)
    card = _card(config, artefact, base, staged)
    # It has tables of other folders too.
    refuse_secrets([(Path(CARD), card.content)])
    if not config.dry_run:
        api = HfApi(library_name="videopro", library_version=__version__)
        card = _with_edits(config, artefact, api, card)
    _show(config, artefact, base, staged)
    if config.dry_run:
        print(f"\n{card.content}")
        return ""
    return _upload(config, artefact, api, staged, card.content)


# ---- the card ----------------------------------------------------------------------------------------------


def _card(config: PushConfig, artefact: Artefact, base: Base, staged: Sequence[StagedFile]) -> Card:
    contents = {file.name: file for file in staged}
    if artefact.repo_type == "model":
        results = [RunSummary.read(Path(folder)) for folder in config.results]
        return model_card(
            artefact, staged, config.repo, base, results, datasets=config.datasets, license=config.license
        )
    if artefact.kind == "run":
        settings = parse_yaml(contents["config.yaml"].read())
        return run_card(artefact, config.repo, settings, license=config.license)
    rows = {name: file.read().count("\n") for name, file in contents.items() if name.endswith(".jsonl")}
    text = contents[CARD_MD].read() if CARD_MD in contents else ""
    return data_card(config.repo, parse_json(contents[CARD_JSON].read()), text, rows, license=config.license)


def _with_edits(config: PushConfig, artefact: Artefact, api: HfApi, card: Card) -> Card:
    """The card with what is written in the one on the hub. Checks, on the way, that the push may happen."""
    _check_token(config, api)
    with asking_hub(config.repo, config.revision):
        try:
            there = api.repo_info(config.repo, repo_type=artefact.repo_type)
        except RepositoryNotFoundError:
            return card
        if not there.private and not config.public:
            raise ConfigError(
                f"{config.repo} is public: everybody could read what is pushed; give --public if you mean "
                "that, or make it private on the hub"
            )
        if there.private and config.public:
            print(f"{config.repo} stays private: its visibility is changed on the hub", file=sys.stderr)
        try:
            path = api.hf_hub_download(
                config.repo, CARD, repo_type=artefact.repo_type, revision=config.revision
            )
        # A card that nobody wrote, or a branch that this push makes.
        except (EntryNotFoundError, RevisionNotFoundError):
            return card
        before: Any = type(card).load(path, ignore_metadata_errors=True)
    merged: Card = with_edits(card, before)
    return merged


def _check_token(config: PushConfig, api: HfApi) -> None:
    """Raise ConfigError if there is no token that may write to the owner of the repository."""
    if constants.HF_HUB_OFFLINE:
        raise ConfigError(
            f"{config.repo}: HF_HUB_OFFLINE is set; unset it, or look at the card with --dry-run"
        )
    check_connections(constants.ENDPOINT)
    token = get_token()
    if not token:
        raise ConfigError(f"{NO_TOKEN} to one with write access; --dry-run needs none")
    if problem := key_problem(token):
        raise ConfigError(f"the token of the hub cannot be sent: {problem}; copy it again")
    with asking_hub(config.repo):
        account = api.whoami()
    role = ((account.get("auth") or {}).get("accessToken") or {}).get("role")
    if role == "read":
        raise ConfigError(
            "the token of the hub may only read; make one with write access on its page of tokens"
        )
    owner = config.repo.partition("/")[0]
    owners = [account.get("name"), *(each.get("name") for each in account.get("orgs") or ())]
    if owner not in owners:
        raise ConfigError(
            f"{config.repo}: the token is of {account.get('name')}, who may write to "
            f"{', '.join(map(str, owners))} and not to {owner}"
        )


# ---- the files ---------------------------------------------------------------------------------------------


def _show(config: PushConfig, artefact: Artefact, base: Base, staged: Sequence[StagedFile]) -> None:
    """Print what goes up, what was replaced in it, and what stays here."""
    total = sum(file.size for file in staged)
    visible = "public" if config.public else "private"
    print(
        f"{artefact.kind} {config.folder} -> {artefact.repo_type} {config.repo} ({visible}), {_bytes(total)}"
    )
    for file in staged:
        changes = f"   {file.changes}" if file.changes else ""
        print(f"  {file.name:<32} {_bytes(file.size):>9}{changes}")
    left_out = list(artefact.left_out())
    for reason, count in Counter(reason for _, reason in left_out).items():
        names = [name for name, other in left_out if other == reason]
        more = f" and {count - 3} more" if count > 3 else ""
        print(f"  not pushed: {', '.join(names[:3])}{more}: {reason}")
    if artefact.repo_type == "model" and not base.name:
        print(f"the base is {base.sentence}: give --base OWNER/NAME, so that others find it", file=sys.stderr)
    if artefact.repo_type == "model" and not config.results:
        print("the card has no results: give runs with this model as --results", file=sys.stderr)


def _upload(config: PushConfig, artefact: Artefact, api: HfApi, staged: list[StagedFile], card: str) -> str:
    with (
        TemporaryDirectory(prefix="videopro-push-") as name,
        asking_hub(config.repo, config.revision, again=_AGAIN),
    ):
        folder = Path(name)
        with writing("the files to push", folder, then="re-run the command, or set TMPDIR"):
            write_staged(staged, folder)
            (folder / CARD).write_text(card, encoding="utf-8")
        api.create_repo(config.repo, repo_type=artefact.repo_type, private=not config.public, exist_ok=True)
        if config.revision:
            api.create_branch(
                config.repo, branch=config.revision, repo_type=artefact.repo_type, exist_ok=True
            )
        commit = api.upload_folder(
            repo_id=config.repo,
            repo_type=artefact.repo_type,
            folder_path=folder,
            revision=config.revision,
            commit_message=f"{artefact.kind} pushed by videopro {__version__}",
        )
    print(f"pushed: {commit.commit_url}")
    print(f"to try it: videopro pull {config.repo} {config.repo.rpartition('/')[2]}")
    return str(commit.commit_url)


def _bytes(count: int) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count = count / 1000  # type: ignore[assignment]
    return f"{count:.1f} GB"


if __name__ == "__main__":
    sys.exit(main())
