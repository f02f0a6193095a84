"""A training that is killed between two checkpoints, for tests of trackers."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from tests.support import sft_world as world
from tests.support.training_runs import LORA, flags
from videopro.train import sft
from videopro.train.finetune import VideoSFTConfig
from videopro.train.runtime import read_settings


class Killed(BaseException):
    """Stands in for a kill."""


class KillBetweenCheckpoints(TrainerCallback):
    """Ends the training after its third step, of which the checkpoint of the second knows nothing."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == 3:
            if args.report_to != ["tensorboard"]:
                # They write behind: wandb each second here, trackio each half.
                time.sleep(2)
                os.kill(os.getpid(), signal.SIGKILL)
            raise Killed


def words(output: Path, tracker: str) -> list[str]:
    """Five steps, each logged and evaluated, with a checkpoint after the second and the fourth."""
    rows = world.folder() / "sft.jsonl"
    training = {"train_data": rows, "max_steps": 5, "save_strategy": "steps", "save_steps": 2}
    evaluation = {"eval_data": rows, "eval_strategy": "steps", "eval_steps": 1}
    given = {**LORA, **training, **evaluation, "per_device_train_batch_size": 1, "report_to": tracker}
    return flags(output, **given)


def killed(output: Path, tracker: str) -> None:
    settings = read_settings(VideoSFTConfig, "sft", words(output, tracker))
    sft.train(*settings, callbacks=[KillBetweenCheckpoints()])
