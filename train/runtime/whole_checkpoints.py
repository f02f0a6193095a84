"""A trainer whose checkpoints appear whole or not at all, and the choice of one to go on from.

transformers writes a checkpoint file by file in its place, so that a kill or a full disk leaves half of one,
which the same command then cannot load. Knows trainers and a checkpoint's folder; must not know what is
learned.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from transformers import Trainer

from videopro.storage import writing
from videopro.train.runtime.checkpoint_faults import STATE, find_fault
from videopro.train.runtime.checkpoint_files import (
    UNFINISHED,
    checkpoints,
    keep_latest,
    publish_checkpoint,
    read_manifest,
    remove,
    truncate_log,
    write_manifest,
)

RESUME_HINT = "the same command goes on from the last checkpoint that is whole"
"""What to do once a full disk has room again."""


class AtomicCheckpointsMixin(Trainer):
    """To be inherited from before a trainer's own class.

    `logs`: files that the run appends to; a run that goes on from a checkpoint has them as they were then.
    Raises RunError where a checkpoint cannot be written, and leaves nothing of it.
    """

    def __init__(self, *arguments: Any, logs: Sequence[Path] = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.logs = tuple(logs)
        self._writing_in: Path | None = None

    @property
    def output(self) -> Path:
        """The run's folder."""
        return Path(str(self.args.output_dir))

    @contextmanager
    def staged_checkpoint(self, what: str) -> Iterator[Path]:
        """A folder, the same on every rank, for what is to be put into the run's folder once it is whole;
        removed, with whatever is in it, behind the block. Raises RunError for what cannot be written."""
        aside = self.output / UNFINISHED
        state = PartialState()
        if state.is_local_main_process:
            remove(aside)
        state.wait_for_everyone()
        try:
            with writing(what, self.output, then=RESUME_HINT, needed=_bytes_of_last(self.output)):
                aside.mkdir(parents=True, exist_ok=True)
                yield aside
        finally:
            # A rank that fails leaves the others waiting: whoever started them ends them.
            remove(aside)

    def _get_output_dir(self, trial: Any) -> str:
        # Asked for by every part of TRL and transformers that writes into a checkpoint.
        return str(self._writing_in) if self._writing_in is not None else super()._get_output_dir(trial)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        name = f"checkpoint-{self.state.global_step}"
        with self.staged_checkpoint(name) as aside:
            self._writing_in = aside
            try:
                super()._save_checkpoint(model, trial)
            finally:
                self._writing_in = None
            self._name_best(aside, name)
            self.accelerator.wait_for_everyone()
            self._put_in_place(aside / name, self.output / name)
        if self.args.should_save:
            best = self.state.best_model_checkpoint
            keep_latest(self.output, self.args.save_total_limit, Path(best) if best else None)
        if self.args.push_to_hub:
            super()._push_from_checkpoint(str(self.output / name))

    def _run_epoch(self, *arguments: Any, **settings: Any) -> None:
        # Resumed behind its last step, in the midst of an epoch, transformers would take one step more.
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
        else:
            super()._run_epoch(*arguments, **settings)

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        # Called while the checkpoint is aside; it goes to the hub from its place.
        pass

    def _name_best(self, aside: Path, name: str) -> None:
        """If the checkpoint is the best so far, it is to be found at its place."""
        if self.state.best_model_checkpoint == str(aside / name):
            self.state.best_model_checkpoint = str(self.output / name)
            if self.args.should_save:
                self.state.save_to_json(str(aside / name / STATE))

    def _put_in_place(self, made: Path, place: Path) -> None:
        """Once on each machine: where they share no disk, each has the states of its own ranks."""
        state = PartialState()
        lengths = {log.name: log.stat().st_size for log in self.logs if log.exists()}
        for mine in (state.is_main_process, state.is_local_main_process):
            if mine and made.exists():
                write_manifest(made, lengths)
                publish_checkpoint(made, place)
            state.wait_for_everyone()


def find_resume_checkpoint(output: Path, logs: Sequence[Path], *, weights_only: bool) -> Path | None:
    """The last whole checkpoint of a run, on every rank; None: there is none, and the run starts from the
    beginning. Later ones that are damaged are named and set aside, and `logs` are cut to what they were when
    the run was there."""
    state = PartialState()
    found: list[Path | None] = [None]
    if state.is_main_process:
        remove(output / UNFINISHED)
        found = [_last_complete(output, weights_only)]
        lengths = _lengths(found[0])
        for log in logs:
            # A checkpoint of an older version tells nothing of them.
            if lengths is not None:
                truncate_log(log, lengths.get(log.name, 0))
    broadcast_object_list(found)
    return found[0]


def _last_complete(output: Path, weights_only: bool) -> Path | None:
    damaged = False
    for one in checkpoints(output):
        why = find_fault(one, weights_only=weights_only)
        if why is None:
            if damaged:
                print(f"the run goes on from {one.name}", file=sys.stderr)
            return one
        # Under another name, since transformers counts whatever is called a checkpoint as one to keep.
        aside = output / f"damaged-{one.name}"
        publish_checkpoint(one, aside)
        print(f"{one} is damaged: {why}; it is set aside as {aside.name} and may be deleted", file=sys.stderr)
        damaged = True
    if damaged:
        print(f"{output}: no checkpoint is whole, so the run starts from the beginning", file=sys.stderr)
    return None


def _lengths(checkpoint: Path | None) -> dict[str, int] | None:
    """How long the logs were at a checkpoint; None where it does not tell."""
    if checkpoint is None:
        return {}
    manifest = read_manifest(checkpoint)
    return None if manifest is None else manifest["logs"]


def _bytes_of_last(output: Path) -> int:
    last = next(iter(checkpoints(output)), None)
    return sum(one.stat().st_size for one in last.rglob("*") if one.is_file()) if last is not None else 0
