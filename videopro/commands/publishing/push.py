"""videopro push: upload an adapter, a planner, a dataset or a run to the hub, with a card from its records.

    videopro push runs/sft mina/planner --results runs/videopro
    videopro push runs/synth mina/programs --dry-run

A new repository is private unless you pass --public. Videos, keys, and paths and addresses of this machine
are not uploaded; the command lists what it leaves out. If it is stopped, re-run it; uploaded files are not
sent again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from huggingface_hub import HfApi, get_token
from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError

from videopro import __version__
from videopro.cli import CommandLine, exit_status, option, setting
from videopro.commands.publishing.artefacts import (
    CARD_JSON,
    CARD_MD,
    GRPO,
    SFT,
    TRAINING_RECORD,
    Artefact,
    read_artefact,
)
from videopro.commands.publishing.card import (
    Card,
    RunSummary,
    base_name,
    data_card,
    model_card,
    recorded_base,
    run_card,
    with_edits,
)
from videopro.commands.publishing.hub import asking_hub, check_hub, split_name
from videopro.commands.publishing.portable import StagedFile, refuse_secrets, stage
from videopro.errors import ConfigError, writing

_AGAIN = "; re-run the same command; uploaded files are not sent again"
_CARD = "README.md"


@dataclass(frozen=True)
class PushConfig:
    """The settings of `videopro push`."""

    folder: Path = field(
        metadata=setting("folder of an adapter, a planner, a dataset or a run", positional=True)
    )
    repo: str = field(metadata=setting("hub name: OWNER/NAME", positional=True))
    public: bool = option(False, "make a new repository public; without this, it is private")
    base: str | None = option(None, "hub name of the base model, if it was a local folder")
    results: tuple[str, ...] = option((), "run folders of this model whose tables go into its card")
    dry_run: bool = option(False, "list the files and print the card, without any connection")


COMMAND = CommandLine("push", PushConfig)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit status: 0, or 2 for errors that the user can fix."""
    with exit_status("stopped" + _AGAIN) as status:
        push(COMMAND.parse(argv))
    return status.code


def push(config: PushConfig) -> str:
    """Push a folder, or with `dry_run` show what would be pushed. Returns the commit's address, "" without
    one. Raises VideoProError."""
    if split_name(config.repo)[1] is not None:
        raise ConfigError(f"{config.repo}: pass OWNER/NAME; a push goes to the branch main")
    artefact = read_artefact(config.folder)
    is_model, base, names = artefact.repo_type == "model", "", dict[str, str]()
    for name in ("base", "results"):
        if getattr(config, name) and not is_model:
            raise ConfigError(f"--{name}: for adapters and planners; {config.folder} is a {artefact.kind}")
    if is_model:
        base, recorded = base_name(artefact, config.base), recorded_base(artefact)
        # A folder of this machine means nothing on another, where the hub's name is found.
        names = {recorded: base} if base and recorded else {}
    staged = stage(artefact, names)
    card = _card(config, artefact, base, staged)
    # It has tables of other folders too.
    refuse_secrets([(Path(_CARD), card.content)])
    _show(config, artefact, staged)
    if is_model and not base:
        print(
            "the base model's hub name is unknown; pass --base OWNER/NAME so that others can find it",
            file=sys.stderr,
        )
    if config.dry_run:
        print(f"\n{card.content}")
        return ""
    check_hub(get_token(), needed=True)
    api = HfApi(library_name="videopro", library_version=__version__)
    with asking_hub(config.repo, again=_AGAIN):
        address = _upload(api, config, artefact, staged, _with_edits(api, config, artefact, card))
    print(f"pushed: {address}")
    print(f"try it: videopro pull {config.repo} {config.repo.rpartition('/')[2]}")
    return address


def _card(config: PushConfig, artefact: Artefact, base: str, staged: Sequence[StagedFile]) -> Card:
    named = (SFT, GRPO, CARD_JSON, CARD_MD, TRAINING_RECORD, "config.yaml")
    # As uploaded, not as on this machine.
    texts = {file.name: file.read() for file in staged if file.name in named}
    if artefact.kind == "dataset":
        return data_card(config.repo, texts)
    if artefact.kind == "run":
        return run_card(artefact.folder, config.repo, texts["config.yaml"])
    return model_card(
        artefact,
        config.repo,
        texts.get(TRAINING_RECORD, "{}"),
        base=base,
        results=[RunSummary.read(Path(folder)) for folder in config.results],
    )


def _with_edits(api: HfApi, config: PushConfig, artefact: Artefact, card: Card) -> Card:
    """The card with the edits of the card on the hub. Raises ConfigError for a public repository without
    --public."""
    try:
        there = api.repo_info(config.repo, repo_type=artefact.repo_type)
        if not there.private and not config.public:
            raise ConfigError(
                f"{config.repo} is public, so anyone could read the files; pass --public to allow that, or "
                "make it private on the hub"
            )
        path = api.hf_hub_download(config.repo, _CARD, repo_type=artefact.repo_type)
    # A new repository, or one without a card.
    except (RepositoryNotFoundError, EntryNotFoundError):
        return card
    return with_edits(card, type(card).load(path, ignore_metadata_errors=True))


def _show(config: PushConfig, artefact: Artefact, staged: Sequence[StagedFile]) -> None:
    """Print what is uploaded, what was replaced in it, and what is left out."""
    print(f"{artefact.kind} {config.folder} -> {artefact.repo_type} {config.repo}")
    for file in staged:
        changes = "" if file.text is None else "   without paths and addresses of this machine"
        print(f"  {file.name:<32} {file.size / 1e6:>9,.1f} MB{changes}")
    if left_out := artefact.left_out():
        print(f"  not pushed (not part of the {artefact.kind}): {', '.join(left_out)}")


def _upload(
    api: HfApi, config: PushConfig, artefact: Artefact, staged: Sequence[StagedFile], card: Card
) -> str:
    with TemporaryDirectory(prefix="videopro-push-") as name:
        folder = Path(name)
        with writing("the files to push", folder, then="re-run the command, or set TMPDIR"):
            (folder / _CARD).write_text(card.content, encoding="utf-8")
            for file in staged:
                if file.text is None:
                    (folder / file.name).symlink_to(file.source.resolve())
                else:
                    (folder / file.name).write_text(file.text, encoding="utf-8")
        api.create_repo(config.repo, repo_type=artefact.repo_type, private=not config.public, exist_ok=True)
        commit = api.upload_folder(
            repo_id=config.repo,
            repo_type=artefact.repo_type,
            folder_path=folder,
            commit_message=f"{artefact.kind} pushed by videopro {__version__}",
        )
    return str(commit.commit_url)
