"""Checkpoints that a run can resume from: each is marked once all of it is on the disk, and only then are
older ones deleted. transformers writes them in place, so a kill or a full disk leaves one without the mark.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback, TrainerState, TrainingArguments

from videopro.errors import RunError
from videopro.storage import parse_json, write_atomically

COMPLETE = "complete.json"
"""The mark: a file with the length of each of the run's logs when the checkpoint was saved."""
UNFINISHED = "unfinished"
"""The folder, in a run's folder, in which the trained weights are written at the end."""
RESUME_HINT = "re-run the same command to resume from the last complete checkpoint"
"""The fix for a full disk."""
STATE = "trainer_state.json"
_NAME = re.compile(r"checkpoint-(\d+)")


class CompleteCheckpoints(TrainerCallback):
    """Marks the checkpoints of a run, and deletes the oldest beyond `save_total_limit`.

    `logs`: files that the run appends to; a run that resumes cuts them back to their length at its
    checkpoint."""

    def __init__(self, training: TrainingArguments, logs: Sequence[Path]) -> None:
        self._logs = tuple(logs)
        # Not by transformers, which deletes the old ones before the new one is marked.
        self._limit, training.save_total_limit = training.save_total_limit, None

    def on_save(self, args: TrainingArguments, state: TrainerState, control: Any, **_: Any) -> None:
        """Called on every rank when it has written its part."""
        ranks = PartialState()
        ranks.wait_for_everyone()
        output = Path(str(args.output_dir))
        folder = output / f"checkpoint-{state.global_step}"
        # On each machine: without a shared disk, each has the states of its own ranks.
        if ranks.is_local_main_process and folder.is_dir():
            mark_complete(folder, self._logs)
        ranks.wait_for_everyone()
        if args.should_save:
            best = state.best_model_checkpoint
            keep_latest(output, self._limit, None if best is None else output / Path(best).name)


def checkpoints(output: Path) -> list[Path]:
    """The checkpoints in a run's folder, complete or not, the latest first."""
    folders = [entry for entry in output.glob("checkpoint-*") if entry.is_dir()]
    return sorted((folder for folder in folders if _NAME.fullmatch(folder.name)), key=step_of, reverse=True)


def step_of(checkpoint: Path) -> int:
    """The step after which a checkpoint was saved, from its name."""
    return int(checkpoint.name.rpartition("-")[2])


def mark_complete(folder: Path, logs: Sequence[Path]) -> None:
    """Flush a checkpoint to the disk, and mark it. Raises OSError."""
    # The mark must not survive a power failure that its files do not.
    for path in (*folder.rglob("*"), folder):
        if not path.is_symlink():
            _flush(path)
    lengths = {log.name: log.stat().st_size for log in logs if log.exists()}
    # Shared: on a shared disk each machine writes the same mark.
    write_atomically(folder / COMPLETE, json.dumps(lengths) + "\n", shared=True)


def keep_latest(output: Path, limit: int | None, best: Path | None) -> None:
    """Delete the oldest checkpoints until `limit` are left, but never the latest or the `best`. None or 0
    keeps all."""
    saved = checkpoints(output)
    protected = {*saved[:1], best} & set(saved)
    surplus = len(saved) - max(limit or len(saved), len(protected))
    deletable = [checkpoint for checkpoint in reversed(saved) if checkpoint not in protected]
    for checkpoint in deletable[: max(0, surplus)]:
        # First the mark: a half-deleted checkpoint is none.
        (checkpoint / COMPLETE).unlink(missing_ok=True)
        shutil.rmtree(checkpoint, ignore_errors=True)


def find_resume_checkpoint(output: Path, logs: Sequence[Path], *, loads_best: bool) -> Path | None:
    """The last complete checkpoint of a run, on every rank; None if there is none and the run starts from the
    beginning. Later, incomplete ones are deleted, and `logs` are cut back to their length at the checkpoint.
    `loads_best`: the best checkpoint is loaded at the end. Raises RunError if that is gone."""
    ranks = PartialState()
    last: list[Path | None] = [None]
    if ranks.is_main_process:
        shutil.rmtree(output / UNFINISHED, ignore_errors=True)
        last = [_last_complete(output)]
        lengths = {} if last[0] is None else parse_json((last[0] / COMPLETE).read_bytes())
        for log in logs:
            if log.exists():
                os.truncate(log, min(log.stat().st_size, lengths.get(log.name, 0)))
    broadcast_object_list(last)
    if last[0] is not None and ranks.is_local_main_process and (last[0] / STATE).is_file():
        _find_best(last[0] / STATE, required=loads_best)
    ranks.wait_for_everyone()
    return last[0]


def _last_complete(output: Path) -> Path | None:
    for checkpoint in checkpoints(output):
        if (checkpoint / COMPLETE).is_file():
            print(f"resuming from {checkpoint}", file=sys.stderr)
            return checkpoint
        print(f"{checkpoint} is incomplete; deleting it", file=sys.stderr)
        shutil.rmtree(checkpoint, ignore_errors=True)
    return None


def _find_best(state: Path, *, required: bool) -> None:
    """Have a trainer's state name the best checkpoint next to its own, wherever the run's folder was when it
    was written: transformers looks for it from the working directory."""
    content = parse_json(state.read_bytes(), infinite=True)
    if not content.get("best_model_checkpoint"):
        return
    best = state.parent.with_name(Path(content["best_model_checkpoint"]).name)
    if required and not best.is_dir():
        raise RunError(
            f"{best}: the best checkpoint so far is missing; put it back, or set another output_dir"
        )
    content["best_model_checkpoint"] = str(best) if best.is_dir() else None
    write_atomically(state, json.dumps(content, indent=2, sort_keys=True) + "\n")


def publish(staged: Path, target: Path) -> None:
    """Rename a file or folder to `target`, replacing a file that is there. Raises OSError."""
    os.replace(staged, target)
    _flush(target.parent)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
