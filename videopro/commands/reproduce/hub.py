"""The hub of a reproduction: what is still to be downloaded and unpacked, access to gated repositories, and
the manifest against the hub itself."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from huggingface_hub import HfApi, constants
from huggingface_hub.errors import RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile

from videopro.benchmarks import MANIFESTS, Repository, model_repositories
from videopro.commands.doctor import Finding, State, show, size
from videopro.commands.reproduce.parts import Part
from videopro.commands.reproduce.road import Road
from videopro.errors import ConfigError, first_line, first_of

_ROUNDED = 0.02
"""How far a published size may be from the hub's, as a share: pages round them."""


def room(road: Road, part: Part) -> tuple[float, float]:
    """The bytes of a benchmark that are still to be downloaded, and those that unpacking adds to them at its
    peak."""
    count, downloaded, added = road.size(part), 0.0, 0.0
    absent = 1 - count.found / count.videos if count.is_counted else 1.0
    for files in (each for repository in part.repositories for each in repository.needed):
        here = sum(path.stat().st_size for path in part.root.glob(files.pattern))
        all_of_it = max(files.bytes, here) if part.is_downloaded else here
        if absent:
            downloaded += all_of_it - here
        # A compressed tar file is kept until all of it is unpacked.
        is_kept = not road.config.remove_archives or ".tar." in files.name.replace(".tar.part", "")
        pieces = max(len(files.names), len([*part.root.glob(files.pattern)]))
        added += absent * all_of_it * files.is_packed / (1 if is_kept else pieces)
    return downloaded, added


def models(road: Road) -> list[Repository]:
    """The models that are needed; without files those that the manifest does not have."""
    known, needs = model_repositories(), (*road.backbone_needs(), *road.module_needs())
    names = dict.fromkeys(need.hub for need in needs if need.hub)
    return [known.get(name, Repository(name, (), "model")) for name in names]


def access(repository: Repository) -> tuple[State, str]:
    """Whether this machine may download a gated repository."""
    page = f"{constants.ENDPOINT}/{repository.kind}s/{repository.name}"
    asks = repository.gate.asks if repository.gate is not None else ""
    try:
        HfApi().auth_check(repository.name, repo_type=repository.kind)
    except RepositoryNotFoundError:  # also of a gated one
        return "broken", f"no access; {asks} at {page}, and run hf auth login"
    except Exception as error:  # of the HTTP library that this version of the hub's client uses
        return "missing", f"gated: {asks} at {page}; access could not be checked ({first_line(error)})"
    return "ok", "access granted"


def compare(road: Road) -> None:
    """Print each fact of the manifest next to the hub's. Raises ConfigError if any differs."""
    asked = [*models(road), *(each for part in road.benchmarks() for each in part.repositories)]
    findings = [finding for repository in asked for finding in compared(repository)]
    show(findings)
    if wrong := sum(finding.state != "ok" for finding in findings):
        raise ConfigError(f"{wrong} facts differ from the hub (see above); correct them in {MANIFESTS}")


def compared(repository: Repository) -> Iterator[Finding]:
    """The facts about a repository, each with what the hub says."""
    name, kind, api = repository.name, repository.kind, HfApi()
    try:
        info = api.repo_info(name, repo_type=kind)
        tree = api.list_repo_tree(name, recursive=True, repo_type=kind, revision=repository.revision or None)
        listed = {each.path: each for each in tree if isinstance(each, RepoFile)}
    except Exception as error:  # see `access`
        yield Finding(name, "listing", "broken", f"cannot be read ({first_line(error)})")
        return
    yield Finding(name, "name", "ok" if info.id == name else "wrong", f"the hub calls it {info.id}")
    gated = bool(getattr(info, "gated", False))
    state: State = "ok" if gated == (repository.gate is not None) else "wrong"
    yield Finding(name, "gate", state, "gated" if gated else "open to all")
    state = "ok" if repository.revision in ("", info.sha) else "wrong"
    yield Finding(name, "revision", state, f"the newest is {info.sha}")
    for files in repository.files:
        found = {path: each for path, each in listed.items() if fnmatchcase(path, files.pattern)}
        expected = set(found) if "*" in files.names[0] else set(files.names)
        bytes, text = sum(each.size for each in found.values()), ""
        for what, paths in (("not there", expected - set(found)), ("new", set(found) - expected)):
            text += f"; {what}: {first_of(sorted(paths))}" if paths else ""
        if files.bytes and abs(bytes - files.bytes) > _ROUNDED * files.bytes:
            text += f"; not {size(files.bytes)}"
        if files.sha256 and files.sha256 not in [each.lfs.sha256 for each in found.values() if each.lfs]:
            text += "; another sha256"
        state = "ok" if found and not text else "wrong"
        yield Finding(name, files.name, state, f"{len(found)} files, {size(bytes)}{text}")
