"""A trainer that writes checkpoints atomically, and the choice of the one to resume from.

transformers writes a checkpoint in place, file by file, so that a kill or a full disk leaves a partial one,
which a resumed run then cannot load.
"""

from __future__ import annotations

import logging
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from transformers import Trainer, TrainerState

from videopro.backbones import ModelRecord, write_model_record
from videopro.backbones.qwen import keep_beyond
from videopro.errors import RunError, writing
from videopro.train.runtime.checkpoint_files import (
    UNFINISHED,
    checkpoints,
    find_fault,
    keep_latest,
    publish_checkpoint,
    read_manifest,
    remove,
    truncate_log,
    write_manifest,
)

RESUME_HINT = "re-run the same command to resume from the last complete checkpoint"
"""What to do once a full disk has room again."""
STATE = "trainer_state.json"
_TRANSFORMERS_LOG = logging.getLogger("transformers.trainer")


def _not_of_the_best(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("The best checkpoint ")


class AtomicCheckpointsMixin(Trainer):
    """A mixin: list it before TRL's trainer class in the bases.

    `logs`: files that the run appends to; they are cut back to their length at the checkpoint that a run
    resumes from. Raises RunError if a checkpoint cannot be written, and leaves nothing of it.
    """

    def __init__(self, *arguments: Any, logs: Sequence[Path] = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.logs = tuple(logs)
        self.model_record: ModelRecord | None = None
        """Goes into every checkpoint, which is then a model or an adapter of its own."""
        self.base_folder: Path | None = None
        """Has the tensors beyond the model, which go into every checkpoint of a whole model."""
        self._writing_in: Path | None = None

    @property
    def output(self) -> Path:
        """The run's folder."""
        return Path(str(self.args.output_dir))

    @contextmanager
    def staged_checkpoint(self, name: str) -> Iterator[Path]:
        """A temporary folder, the same on every rank, for files that are moved to the run's folder once they
        are complete. It is removed after the block. Raises RunError for what cannot be written."""
        aside = self.output / UNFINISHED
        state = PartialState()
        if state.is_local_main_process:
            remove(aside)
        state.wait_for_everyone()
        try:
            with writing(name, self.output, then=RESUME_HINT, needed=_bytes_of_last(self.output)):
                aside.mkdir(parents=True, exist_ok=True)
                yield aside
        finally:
            # If a rank fails, the others wait until the launcher stops them.
            remove(aside)

    def _get_output_dir(self, trial: Any) -> str:
        # All parts of TRL and transformers that write into a checkpoint call this.
        return str(self._writing_in) if self._writing_in is not None else super()._get_output_dir(trial)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        name = f"checkpoint-{self.state.global_step}"
        with self.staged_checkpoint(name) as aside:
            self._writing_in = aside
            try:
                super()._save_checkpoint(model, trial)
            finally:
                self._writing_in = None
            best = self._best()
            if self.args.should_save:
                self.save_state_to(aside / name)
            self.state.best_model_checkpoint = None if best is None else str(best)
            self.accelerator.wait_for_everyone()
            self._publish(aside / name, self.output / name)
        if self.args.should_save:
            keep_latest(self.output, self.args.save_total_limit, best)
        if self.args.push_to_hub:
            super()._push_from_checkpoint(str(self.output / name))

    def _run_epoch(self, *arguments: Any, **settings: Any) -> None:
        # Resumed after its last step, within an epoch, transformers would take one more step.
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
        else:
            super()._run_epoch(*arguments, **settings)

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        # Called while the checkpoint is still in the temporary folder; it is pushed from its final place.
        pass

    def _best(self) -> Path | None:
        """The best checkpoint so far, in the run's folder, wherever the state that names it was written."""
        best = self.state.best_model_checkpoint
        return None if best is None else self.output / Path(best).name

    def save_state_to(self, folder: Path) -> None:
        """Write the trainer's state, in which the best checkpoint is relative to the run's folder: that may
        be moved, or reached from another directory."""
        best = self._best()
        state = replace(self.state, best_model_checkpoint=None if best is None else best.name)
        state.save_to_json(str(folder / STATE))

    def _init_training_state(
        self, max_steps: int, per_epoch: int, epochs: int, resume_from_checkpoint: str | None, trial: Any
    ) -> tuple[int, int]:
        # transformers looks for the best checkpoint from the working directory. It forgets one that is not
        # there, with a warning that would be wrong here.
        _TRANSFORMERS_LOG.addFilter(_not_of_the_best)
        try:
            done = super()._init_training_state(max_steps, per_epoch, epochs, resume_from_checkpoint, trial)
        finally:
            _TRANSFORMERS_LOG.removeFilter(_not_of_the_best)
        if resume_from_checkpoint is not None:
            saved = TrainerState.load_from_json(str(Path(resume_from_checkpoint) / STATE))
            self.state.best_model_checkpoint = saved.best_model_checkpoint
            best = self._best()
            self.state.best_model_checkpoint = None if best is None else str(best)
            if best is not None and self.args.load_best_model_at_end and not best.is_dir():
                raise RunError(
                    f"{best}: is missing, and is the best checkpoint so far; put it back, or give another "
                    "output_dir"
                )
        return done

    def complete(self, folder: Path) -> None:
        """Add to a folder of saved weights what transformers does not save."""
        if self.model_record is not None:
            write_model_record(folder, self.model_record)
        if self.base_folder is not None:
            keep_beyond(self.accelerator.unwrap_model(self.model), self.base_folder, folder)

    def _publish(self, staged: Path, target: Path) -> None:
        """Move a checkpoint to its place, once on each machine: without a shared disk, each has the states of
        its own ranks."""
        state = PartialState()
        lengths = {log.name: log.stat().st_size for log in self.logs if log.exists()}
        # Asked before the first one moves it: what a machine knows of a folder on a network file system may
        # be half a minute old, and it would move away the checkpoint that is in place by then.
        is_elsewhere = not _sees_disk_of_first(staged.parent)
        for is_chosen in (state.is_main_process, state.is_local_main_process and is_elsewhere):
            if is_chosen and staged.exists():
                self.complete(staged)
                write_manifest(staged, lengths)
                publish_checkpoint(staged, target)
            state.wait_for_everyone()


def _sees_disk_of_first(folder: Path) -> bool:
    """Whether this folder of this machine is on the disk of the first process. Called in every process."""
    # Under a name that no machine has looked for before, so that none remembers that it is missing.
    mark = [folder / f"seen-{uuid.uuid4().hex}"]
    if PartialState().is_main_process:
        mark[0].touch()
    broadcast_object_list(mark)
    return mark[0].exists()


def find_resume_checkpoint(output: Path, logs: Sequence[Path]) -> Path | None:
    """The last complete checkpoint of a run, on every rank; None if there is none and the run starts from the
    beginning. Later, damaged ones are reported and renamed, and `logs` are cut back to their length at the
    checkpoint."""
    state = PartialState()
    last: list[Path | None] = [None]
    if state.is_main_process:
        remove(output / UNFINISHED)
        last = [_last_complete(output)]
        lengths = {} if last[0] is None else read_manifest(last[0])["logs"]
        for log in logs:
            truncate_log(log, lengths.get(log.name, 0))
    broadcast_object_list(last)
    return last[0]


def _last_complete(output: Path) -> Path | None:
    damaged = False
    for checkpoint in checkpoints(output):
        fault = find_fault(checkpoint)
        if fault is None:
            if damaged:
                print(f"the run resumes from {checkpoint.name}", file=sys.stderr)
            return checkpoint
        # Renamed, since transformers counts every folder called checkpoint-* towards save_total_limit.
        aside = output / f"damaged-{checkpoint.name}"
        publish_checkpoint(checkpoint, aside)
        print(
            f"{checkpoint} is damaged: {fault}; it was renamed {aside.name} and can be deleted",
            file=sys.stderr,
        )
        damaged = True
    if damaged:
        print(f"{output}: no checkpoint is complete, so the run starts from the beginning", file=sys.stderr)
    return None


def _bytes_of_last(output: Path) -> int:
    last = next(iter(checkpoints(output)), None)
    return sum(path.stat().st_size for path in last.rglob("*") if path.is_file()) if last is not None else 0
