"""wandb, trackio and TensorBoard: a resumed training goes on in the same run. It sends the steps after its
last checkpoint again, with the same figures."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import Trainer
from transformers.integrations import TensorBoardCallback

from videopro.storage import parse_json, write_atomically


class TrackedRun:
    """What trackers call a training, kept in its folder, which may be moved: an id and a name."""

    def __init__(self, output: Path, run: Mapping[str, Any], *, resumes: bool) -> None:
        """`run`: what decides its weights. A folder without a checkpoint may be used for another run, which
        is another one for the trackers too."""
        digest = hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()
        self.folder = output / "work"
        file = self.folder / "tracked.json"
        known = parse_json(file.read_text(encoding="utf-8")) if file.exists() else {}
        if not known or not (resumes or known["digest"] == digest):
            run_id = uuid.uuid4().hex[:16]
            known = {"id": run_id, "name": f"{output.resolve().name}-{run_id[:6]}", "digest": digest}
            write_atomically(file, json.dumps(known, indent=1) + "\n")
        self.id: str = known["id"]
        self.name: str = known["name"]


def track(trainer: Trainer, run: TrackedRun) -> None:
    """Have the trainer's trackers go on with a run. Called in the main process, the only one that sends."""
    # By its name, transformers has trackio resume it. wandb reads its settings from the environment.
    trainer.args.run_name = trainer.args.run_name or run.name
    os.environ.setdefault("WANDB_RUN_ID", run.id)
    os.environ.setdefault("WANDB_RESUME", "allow")
    os.environ.setdefault("WANDB_DIR", str(run.folder))
    board: Any = trainer.pop_callback(TensorBoardCallback)
    if board is not None:
        board.logging_dir = board.logging_dir or str(run.folder / "tensorboard" / run.id)
        trainer.add_callback(board)
