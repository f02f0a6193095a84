"""What a folder is that is pushed or was pulled, found from the records that training, synthesis and runs
write into it, and which of its files belong to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from videopro.cli import read_yaml
from videopro.errors import ConfigError
from videopro.runs import RunFolder
from videopro.storage import parse_json

Kind = Literal["adapter", "planner", "dataset", "run"]
RepoType = Literal["model", "dataset"]

CARD = "README.md"
VIDEOS = "videos"
"""The folder that a dataset or run on the hub names its videos in; it is not on the hub itself."""
MODEL_RECORD, TRAINING_RECORD = "videopro.json", "training_record.json"
ADAPTER_CONFIG = "adapter_config.json"
SFT, GRPO, HELD_OUT = "sft.jsonl", "grpo.jsonl", "held_out.jsonl"
CARD_JSON, CARD_MD = "card.json", "CARD.md"
"""The files of a dataset, as videopro synthesize writes them (docs/synthesis.md)."""

_PROCESSOR = (
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "merges.txt"),
    *("special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "chat_template.json"),
    *("processor_config.json", "preprocessor_config.json", "video_preprocessor_config.json"),
)
_RECORDS = (MODEL_RECORD, TRAINING_RECORD)
_FILES: Mapping[Kind, tuple[str, ...]] = {
    "adapter": (ADAPTER_CONFIG, "adapter_model.safetensors", *_RECORDS, *_PROCESSOR),
    "planner": (
        *("config.json", "generation_config.json", "model.safetensors.index.json", "*.safetensors"),
        *(*_RECORDS, *_PROCESSOR),
    ),
    "dataset": (*(SFT, GRPO, HELD_OUT, CARD_JSON, CARD_MD, "config.yaml", "records.jsonl", "prompts.jsonl"),),
    "run": ("config.yaml", "traces.jsonl", "prompts.jsonl", "summary.json", "grades.jsonl"),
}
"""Patterns of the files that belong to each kind. Only these go up: what else a folder holds is unknown."""

_REASONS: tuple[tuple[str, str], ...] = (
    (CARD, "the hub's card is made from the records; edit it on the hub, where edits are kept"),
    ("checkpoint-*", "a checkpoint of the training, with its optimizer"),
    ("work", "locks, logs and replies of the commands that made it"),
    (".cache", "what the hub's client noted about a download"),
    (VIDEOS, "videos and their subtitles are never uploaded"),
    *((f"*{ending}", "a video: never uploaded") for ending in (".mp4", ".mkv", ".webm", ".avi", ".mov")),
    *((f"*{ending}", "subtitles: never uploaded") for ending in (".srt", ".vtt", ".ass")),
    *((f"*{ending}", "a pickle: loading it runs code") for ending in (".bin", ".pt", ".pth", ".pkl")),
    ("trainer_state.json", "the trainer's state; what it logged is in the training record"),
)


@dataclass(frozen=True)
class Artefact:
    """A folder of one kind, with what its own records say."""

    kind: Kind
    folder: Path

    @property
    def repo_type(self) -> RepoType:
        """What the hub calls a repository of this kind."""
        return "model" if self.kind in ("adapter", "planner") else "dataset"

    def files(self) -> list[str]:
        """The names of the files that belong to it, in alphabetical order."""
        names = {path.name for pattern in _FILES[self.kind] for path in self.folder.glob(pattern)}
        return sorted(name for name in names if (self.folder / name).is_file())

    def left_out(self) -> Iterator[tuple[str, str]]:
        """(name, reason) of the other files and folders in it."""
        belonging = set(self.files())
        for path in sorted(self.folder.iterdir()):
            if path.name not in belonging:
                yield path.name + ("/" if path.is_dir() else ""), self._reason(path.name)

    def _reason(self, name: str) -> str:
        reasons = (reason for pattern, reason in _REASONS if PurePosixPath(name).match(pattern))
        return next(reasons, f"no part of {_NOUNS[self.kind]}")

    def json(self, name: str) -> dict[str, Any]:
        """The object in one of its files; empty without the file. Raises ConfigError for a broken one."""
        return _read_object(self.folder / name)


_NOUNS: Mapping[Kind, str] = {
    "adapter": "an adapter",
    "planner": "a planner",
    "dataset": "a dataset",
    "run": "a run",
}


def read_artefact(folder: Path) -> Artefact:
    """What a folder is. Raises ConfigError for a folder of no kind, and for one that is not complete."""
    if not folder.is_dir():
        raise ConfigError(
            f"{folder}: there is no such folder; give that of an adapter, a planner, a dataset or a run"
        )
    if (folder / ADAPTER_CONFIG).is_file():
        return _checked(Artefact("adapter", folder), ADAPTER_CONFIG, "adapter_model.safetensors")
    if (folder / "config.json").is_file():
        return _checked_model(folder)
    if (folder / CARD_JSON).is_file() and "about" in _read_object(folder / CARD_JSON):
        return _checked_dataset(folder)
    if (folder / "config.yaml").is_file():
        return _checked_run(folder)
    raise ConfigError(
        f"{folder}: is no adapter ({ADAPTER_CONFIG}), no planner (config.json), no dataset ({CARD_JSON}) and "
        "no run (config.yaml); give the folder that videopro sft, grpo, merge, synthesize or infer wrote"
    )


def _checked(artefact: Artefact, *needed: str) -> Artefact:
    folder = artefact.folder
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        raise ConfigError(
            f"{folder}: looks like {_NOUNS[artefact.kind]}, and {', '.join(missing)} is missing; finish the "
            "command that writes it"
        )
    if artefact.repo_type == "model" and not any((folder / name).is_file() for name in _RECORDS):
        raise ConfigError(
            f"{folder}: has no {MODEL_RECORD} and no {TRAINING_RECORD}, so nothing says how it was trained; "
            "push what videopro sft, grpo or merge wrote"
        )
    return artefact


def _checked_model(folder: Path) -> Artefact:
    artefact = _checked(Artefact("planner", folder), "config.json")
    index = folder / "model.safetensors.index.json"
    try:
        parts = (
            sorted(set(_read_object(index)["weight_map"].values()))
            if index.is_file()
            else ["model.safetensors"]
        )
    except (KeyError, AttributeError, TypeError) as error:
        raise ConfigError(f"{index}: lists no weights ({type(error).__name__}: {error})") from error
    return _checked(artefact, *map(str, parts))


def _checked_dataset(folder: Path) -> Artefact:
    artefact = Artefact("dataset", folder)
    rows = [name for name in (SFT, GRPO) if (folder / name).is_file()]
    if not rows:
        raise ConfigError(f"{folder}: has a {CARD_JSON} and neither {SFT} nor {GRPO}; write it again")
    return artefact


def _checked_run(folder: Path) -> Artefact:
    settings = read_yaml(folder / "config.yaml")
    if "run_key" not in settings:
        raise ConfigError(f"{folder / 'config.yaml'}: has no run_key, so it is not that of a run")
    if "synthesis" in (settings.get("identity") or {}):
        raise ConfigError(
            f"{folder}: is a synthesis without datasets; re-run its videopro synthesize, which writes them "
            "at the end"
        )
    if RunFolder(folder).is_running():
        raise ConfigError(
            f"{folder}: a command is answering questions of this run; push it when that is done"
        )
    return _checked(Artefact("run", folder), "traces.jsonl", "summary.json")


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = parse_json(path.read_bytes(), infinite=True)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); restore it") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: is no JSON object; restore it")
    return content
