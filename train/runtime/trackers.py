"""wandb, trackio and TensorBoard: a resumed training continues the same run, and logs no step twice."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback
from transformers.integrations import TensorBoardCallback, TrackioCallback, WandbCallback

from videopro.storage import parse_json, write_atomically


class TrackedRun:
    """What trackers know of a training, kept in its folder, which may be moved: the run's id and name, and
    the last step that each tracker was sent, with the names of the figures."""

    def __init__(self, output: Path, run: Mapping[str, Any], *, resumes: bool) -> None:
        """`run`: what decides its weights. A folder without a checkpoint may be used for another run, which
        is another one for the trackers too."""
        digest = hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()
        self.folder = output / "work"
        self._file = self.folder / "tracked.json"
        known = parse_json(self._file.read_text(encoding="utf-8")) if self._file.exists() else {}
        if not known or not (resumes or known["digest"] == digest):
            run_id = uuid.uuid4().hex[:16]
            name = f"{output.resolve().name}-{run_id[:6]}"
            known = {"id": run_id, "name": name, "digest": digest, "sent": {}}
        self.id: str = known["id"]
        self.name: str = known["name"]
        self._known = known

    def knows(self, tracker: str) -> bool:
        """Whether anything of this run was sent to a tracker."""
        return tracker in self._known["sent"]

    def unsent(self, tracker: str, step: int, names: Collection[str]) -> set[str]:
        """The names not yet sent to a tracker at this step; marks them as sent."""
        last, sent = self._known["sent"].get(tracker, (-1, ()))
        if step < last:
            return set()
        before = set(sent) if step == last else set()
        new = set(names) - before
        if new:
            # Before they are sent: a kill between the two loses a line, and doubles none.
            self._known["sent"][tracker] = (step, sorted(before | new))
            write_atomically(self._file, json.dumps(self._known, indent=1) + "\n")
        return new


class _SentOnce(TrainerCallback):
    """A mixin: list it before a tracker's callback in the bases."""

    NAME: str

    def __init__(self, run: TrackedRun) -> None:
        super().__init__()
        self.run = run

    def on_log(self, args: Any, state: Any, control: Any, *others: Any, **kwargs: Any) -> None:
        logs: dict[str, Any] = kwargs.pop("logs")
        if new := self.run.unsent(self.NAME, state.global_step, logs):
            logs = {name: value for name, value in logs.items() if name in new}
            super().on_log(args, state, control, *others, logs=logs, **kwargs)


class _Wandb(_SentOnce, WandbCallback):
    NAME = "wandb"

    def setup(self, args: Any, state: Any, model: Any, **kwargs: Any) -> None:
        if self._wandb.run is None:
            self._wandb.init(
                # As transformers has it.
                project=os.environ.get("WANDB_PROJECT", "huggingface"),
                name=args.run_name,
                id=os.environ.get("WANDB_RUN_ID", self.run.id),
                resume="allow",
                dir=str(self.run.folder),
                # What it has not written when the training is killed is lost: 15 s of it by default.
                settings={"x_transaction_log_flush_interval": 1.0},
            )
        super().setup(args, state, model, **kwargs)


class _Trackio(_SentOnce, TrackioCallback):
    """transformers resumes the run of the same name."""

    NAME = "trackio"


class _TensorBoard(_SentOnce, TensorBoardCallback):
    NAME = "tensorboard"

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.logging_dir = self.logging_dir or str(self.run.folder / "tensorboard" / self.run.id)
        # It writes the settings, which are there already.
        if not self.run.knows(self.NAME):
            super().on_train_begin(args, state, control, **kwargs)


def track(trainer: Trainer, run: TrackedRun) -> None:
    """Have the trainer's trackers continue a run. Called in the main process, the only one that logs."""
    trainer.args.run_name = trainer.args.run_name or run.name
    for kind, ours in (
        (WandbCallback, _Wandb),
        (TrackioCallback, _Trackio),
        (TensorBoardCallback, _TensorBoard),
    ):
        if trainer.pop_callback(kind) is not None:
            trainer.add_callback(ours(run))
