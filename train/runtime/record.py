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
from transformers import TrainingArguments
from trl import ModelConfig

from videopro.backbones import folder_fingerprint, library_versions
from videopro.backbones.qwen import Checkpoint
from videopro.errors import RunError
from videopro.storage import parse_json, write_atomically


class HasKind(Protocol):
    """A row that names its kind."""

    @property
    def kind(self) -> str: ...


RECORD = "training_record.json"

# The settings that decide the final weights; the rest (logging, saving, evaluating) may change on resume.
_TRAINING = (
    *("seed", "data_seed", "num_train_epochs", "max_steps", "per_device_train_batch_size"),
    *("gradient_accumulation_steps", "learning_rate", "lr_scheduler_type"),
    *("warmup_steps", "optim", "weight_decay", "max_grad_norm", "adam_beta1", "adam_beta2", "adam_epsilon"),
    *("loss_type", "bf16", "fp16"),
)
_MODEL = ("dtype", "use_peft", "lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "use_rslora")


def describe_run(
    training: TrainingArguments,
    model: ModelConfig,
    found: Checkpoint,
    *,
    rows: str,
    frames: int,
    pixels: int,
    also: Sequence[str],
) -> dict[str, Any]:
    """The facts that decide a run's final weights. `rows` is the digest of its training file, `also` names
    settings specific to this kind of run."""
    facts = {name: getattr(training, name) for name in (*_TRAINING, *also)}
    facts |= {name: getattr(model, name) for name in (*_MODEL, "load_in_4bit", "load_in_8bit", "use_dora")}
    facts |= {
        "data": rows,
        "model": Path(found.source).name,
        "weights": folder_fingerprint(found.folder),
        "frames": frames,
        "pixels": pixels,
        "processes": PartialState().num_processes,
    }
    # As it will be read back from JSON.
    return json.loads(json.dumps(facts, default=str))


def check_same_run(output: Path, run: Mapping[str, Any]) -> None:
    """Raise RunError, naming the differences, if a folder has the checkpoints of another run. The same run
    with more steps is allowed."""
    try:
        before = parse_json((output / RECORD).read_text(encoding="utf-8"), infinite=True)["run"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{output}: has checkpoints but no readable {RECORD}; give another output_dir"
        ) from error
    differing = [name for name in run if before.get(name) != run[name]]
    if differing and differing != _extended_by(before, run):
        changes = ", ".join(f"{name} was {before.get(name)!r} and is {run[name]!r}" for name in differing)
        raise RunError(f"{output}: has checkpoints of another run: {changes}; give another output_dir")


def _extended_by(before: Mapping[str, Any], run: Mapping[str, Any]) -> list[str]:
    """The setting that makes a run longer than it was before, if any. At a constant learning rate the longer
    run passes through the weights of the shorter; any other schedule depends on the total length."""
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
    history: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write the record. `dropped`: the reason for each dropped row, by id; `history`: what was logged."""
    record = {
        "run": run,
        "rows": len(rows),
        "kinds": dict(Counter(row.kind or "unnamed" for row in rows)),
        "dropped": dict(dropped),
        "versions": library_versions(),
        "history": list(history),
    }
    output.mkdir(parents=True, exist_ok=True)
    write_atomically(output / RECORD, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
