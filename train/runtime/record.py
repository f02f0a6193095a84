"""The record of a training run: its settings and data, the rows that were left out, what was logged.

Written when the run begins and again when it ends, so that a run is resumed with the settings it began with.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from accelerate import PartialState
from trl import ModelConfig

from videopro.backbones import folder_fingerprint, library_versions
from videopro.errors import RunError
from videopro.storage import parse_json, write_atomically
from videopro.train.runtime.harmless import deciding_settings
from videopro.train.runtime.rows import digest
from videopro.train.runtime.setup import RECORD, TrainingSetup
from videopro.train.runtime.trained_videos import VideosByStage


class HasKind(Protocol):
    """A row that names its kind."""

    @property
    def kind(self) -> str: ...


def describe_run(
    training: Any, model: ModelConfig, start: TrainingSetup, *, rows: str, adapter: str | None
) -> dict[str, Any]:
    """The facts that decide a run's final weights: all settings but harmless ones, and digests of the files.
    `rows` is the digest of the training file, `adapter` the fingerprint of the adapter that is continued."""
    deciding = {**deciding_settings(training), **deciding_settings(model)}
    deciding |= {
        "data": rows,
        "model": Path(start.checkpoint.source).name,
        "weights": folder_fingerprint(start.checkpoint.folder),
        "adapter": adapter,
        "frames": start.frames,
        "pixels": start.pixels,
        "prompts": None if start.prompts is None else dict(start.prompts.texts),
        "processes": PartialState().num_processes,
    }
    for name in ("eval_data", "eval_questions"):
        if name in deciding:
            deciding[name] = _content(deciding[name])
    # As it will be read back from JSON.
    return json.loads(json.dumps(deciding, default=str))


def _content(spec: str | None) -> str | None:
    """The digest of the file of rows that `eval_data` or `eval_questions` names, wherever it is; another
    value, such as pocket:val, as it is."""
    files = [] if spec is None else [Path(spec), Path(spec) / "questions.jsonl"]
    return next((digest(file) for file in files if file.is_file()), spec)


def check_same_run(output: Path, run: Mapping[str, Any]) -> None:
    """Raise RunError, naming the differences, if a folder has the checkpoints of another run. The same run
    with more steps is allowed. A setting that its record lacks, as it is of newer libraries, is not
    compared."""
    try:
        before = parse_json((output / RECORD).read_text(encoding="utf-8"), infinite=True)["run"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{output}: has checkpoints but no readable {RECORD}; give another output_dir"
        ) from error
    differing = [name for name in run if name in before and before[name] != run[name]]
    if differing and differing != _extended_by(before, run):
        changes = ", ".join(f"{name} was {before[name]!r} and is {run[name]!r}" for name in differing)
        raise RunError(f"{output}: has checkpoints of another run: {changes}; give another output_dir")


def _extended_by(before: Mapping[str, Any], run: Mapping[str, Any]) -> list[str]:
    """The setting that makes a run longer than it was before, if any. At a constant learning rate the longer
    run passes through the weights of the shorter; any other schedule depends on the total length."""
    # Other schedules stretch with the length, so that the first steps differ too.
    if run["lr_scheduler_type"] != "constant":
        return []
    limited = run["max_steps"] > 0
    name = "max_steps" if limited else "num_train_epochs"
    if (before.get("max_steps", 0) > 0) != limited or run[name] <= before.get(name, run[name]):
        return []
    return [name]


def write_record(
    output: Path,
    run: Mapping[str, Any],
    *,
    rows: Sequence[HasKind],
    dropped: Mapping[str, str],
    videos: VideosByStage,
    history: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write the record. `dropped`: the reason for each dropped row, by id; `videos`: those that the planner
    was trained on, by stage; `history`: what was logged."""
    record = {
        "run": run,
        "rows": len(rows),
        "kinds": dict(Counter(row.kind or "unnamed" for row in rows)),
        "dropped": dict(dropped),
        "videos": {stage: list(ids) for stage, ids in videos.items()},
        "versions": library_versions(),
        "history": list(history),
    }
    output.mkdir(parents=True, exist_ok=True)
    write_atomically(output / RECORD, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
