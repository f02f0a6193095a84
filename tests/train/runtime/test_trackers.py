"""What trackers were sent of a training that was killed and resumed, read back from their own files."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback

from tests.support import ROOT
from tests.support import sft_world as world
from tests.support.training_runs import LORA, evaluates, flags, saves
from videopro.train import sft
from videopro.train.finetune import VideoSFTConfig
from videopro.train.runtime import read_settings
from videopro.train.runtime.trackers import TrackedRun


class KillBetweenCheckpoints(TrainerCallback):
    """Ends the training after its third step, of which the checkpoint of the second knows nothing."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == 3:
            if args.report_to != ["tensorboard"]:
                # They write behind: wandb each second here, trackio each half.
                time.sleep(2)
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyboardInterrupt


def words(output: Path, tracker: str) -> list[str]:
    """Five steps, each logged and evaluated, with a checkpoint after the second and the fourth."""
    rows = world.folder() / "sft.jsonl"
    given = {**LORA, "max_steps": 5, **saves(every=2), "eval_data": rows, **evaluates(every=1)}
    return flags(output, **given, per_device_train_batch_size=1, report_to=tracker)


def killed(output: Path, tracker: str) -> None:
    settings = read_settings(VideoSFTConfig, "sft", words(output, tracker))
    sft.train(*settings, callbacks=[KillBetweenCheckpoints()])


def events(folder: Path) -> Counter[tuple[str, int]]:
    """How often a figure of a step stands in TensorBoard's files, whatever its readers leave out."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    return Counter(
        (value.tag, event.step)
        for file in folder.glob("events.*")
        for event in EventFileLoader(str(file)).Load()
        for value in event.summary.value
    )


def test_tensorboard_goes_on_in_the_same_folder(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        killed(tmp_path / "run", "tensorboard")
    moved = tmp_path / "renamed"
    (tmp_path / "run").rename(moved)
    assert sft.main(words(moved, "tensorboard")) == 0
    # A run that is done sends nothing again, either.
    assert sft.main(words(moved, "tensorboard")) == 0
    (folder,) = (moved / "work" / "tensorboard").iterdir()
    found = events(folder)
    assert set(found.values()) == {1}
    for tag in ("train/loss", "eval/loss", "train/learning_rate"):
        assert sorted(step for name, step in found if name == tag) == [1, 2, 3, 4, 5]
    assert [step for name, step in found if name == "train/train_runtime"] == [5]


def test_another_run_in_the_folder_is_another_one_for_trackers(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    first = TrackedRun(tmp_path, {"learning_rate": 0.1}, resumes=False)
    assert first.unsent("wandb", 3, ["loss", "epoch"]) == {"loss", "epoch"}
    again = TrackedRun(tmp_path, {"learning_rate": 0.1}, resumes=False)
    assert again.id == first.id
    assert again.unsent("wandb", 2, ["loss"]) == set()
    assert again.unsent("wandb", 3, ["loss", "eval_loss"]) == {"eval_loss"}
    assert again.unsent("trackio", 3, ["loss"]) == {"loss"}
    longer = TrackedRun(tmp_path, {"learning_rate": 0.1, "max_steps": 9}, resumes=True)
    assert longer.id == first.id
    other = TrackedRun(tmp_path, {"learning_rate": 0.2}, resumes=False)
    assert other.id != first.id
    assert other.unsent("wandb", 1, ["loss"]) == {"loss"}


@pytest.mark.kills
@pytest.mark.parametrize("tracker", ["wandb", "trackio"])
def test_a_tracker_goes_on_in_the_same_run(tracker: str, tmp_path: Path) -> None:
    """In processes of their own, of which the first one is killed."""
    pytest.importorskip(tracker)
    run, folder = tmp_path / "run", tmp_path / "trackio"
    own = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "TRACKIO_DIR": str(folder)}
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **own}
    begun = f"from {__name__} import *; killed(Path({str(run)!r}), {tracker!r})"
    first = subprocess.run([sys.executable, "-c", begun], env=settings, cwd=ROOT, check=False)
    assert first.returncode == -signal.SIGKILL
    again = [sys.executable, "train/sft.py", *words(run, tracker)]
    subprocess.run(again, env=settings, check=True, cwd=ROOT)
    if tracker == "wandb":
        files = sorted((run / "work" / "wandb").glob("offline-run-*/run-*.wandb"))
        assert len(files) == 2, "each process writes a file"
        assert len({file.stem for file in files}) == 1, "of the same run"
        return
    (database,) = folder.glob("*.db")
    with sqlite3.connect(database) as connection:
        rows = connection.execute("select run_name, metrics from metrics order by id").fetchall()
    assert len({name for name, _ in rows}) == 1
    lines = [json.loads(metrics) for _, metrics in rows]
    for name in ("train/loss", "eval/loss"):
        assert [line["train/global_step"] for line in lines if name in line] == [1, 2, 3, 4, 5]
