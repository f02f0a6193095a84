"""A training that is killed between two checkpoints, for tests of trackers, and what wandb wrote offline."""

from __future__ import annotations

import json
import os
import signal
import struct
import time
from collections.abc import Iterator
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


def history(data: bytes) -> Iterator[dict[str, Any]]:
    """The lines that were logged, from an offline run's file: protocol buffers in LevelDB's log format
    (blocks of 32 KiB; each piece has a checksum, a length and a kind, where 1 is whole and 4 the last of
    several), after a header of seven bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    at, whole = 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            record = Record()
            record.ParseFromString(whole)
            whole = b""
            items = record.history.item
            if items:
                yield {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}
