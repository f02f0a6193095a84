"""A training run that is killed or out of disk resumes from its last complete checkpoint."""

import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import TrainerCallback

from tests.support import sft_world as world
from tests.support.training_runs import LORA, adapter, assert_equal, evaluates, flags, saves, two_processes
from videopro.storage import files, sole_writer
from videopro.train import sft
from videopro.train.finetune import VideoSFTConfig
from videopro.train.runtime import read_settings
from videopro.train.runtime.checkpoints import COMPLETE, checkpoints, keep_latest, step_of


def complete(output: Path) -> list[str]:
    """The names of the checkpoints that a run would resume from, the latest first."""
    return [folder.name for folder in checkpoints(output) if (folder / COMPLETE).is_file()]


# Within an epoch, of four steps.
STEPS = {**LORA, "per_device_train_batch_size": 1, "max_steps": 3, **saves(every=1)}


def run(output: Path, **changes: Any) -> int:
    return sft.main(flags(output, **{**STEPS, **changes}))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run with a checkpoint after each step."""
    output = tmp_path_factory.mktemp("whole") / "run"
    assert run(output) == 0
    return output


@pytest.mark.parametrize("incomplete", [[2], [2, 1]], ids=["the last", "all"])
def test_a_run_resumes_from_the_last_complete_checkpoint(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], incomplete: list[int]
) -> None:
    killed = shutil.copytree(whole, tmp_path / "run")
    shutil.rmtree(killed / "checkpoint-3")
    for number in incomplete:
        (killed / f"checkpoint-{number}" / COMPLETE).unlink()
        os.truncate(killed / f"checkpoint-{number}" / "optimizer.pt", 9)
    assert run(killed) == 0
    error = capsys.readouterr().err
    assert "checkpoint-2 is incomplete; deleting it" in error
    assert (f"resuming from {killed / 'checkpoint-1'}\n" in error) == (incomplete == [2])
    assert_equal(adapter(killed), adapter(whole))
    assert complete(killed) == ["checkpoint-3", "checkpoint-2", "checkpoint-1"]
    tokens = [
        [line["num_tokens"] for line in json.loads(state.read_text())["log_history"] if "loss" in line]
        for state in (killed / "trainer_state.json", whole / "trainer_state.json")
    ]
    assert tokens[0] == tokens[1]


def test_rerunning_a_finished_run_changes_nothing(whole: Path, tmp_path: Path) -> None:
    """Also within an epoch, where transformers would take one more step each time."""
    again = shutil.copytree(whole, tmp_path / "run")
    for _ in range(2):
        assert run(again) == 0
    assert_equal(adapter(again), adapter(whole))
    assert json.loads((again / "trainer_state.json").read_text())["global_step"] == 3
    assert complete(again) == complete(whole)


class SimulatedCrash(BaseException):
    """Stands in for a kill: nothing catches it, and nothing may rely on cleaning up after it."""


FULL = [
    OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "file"),
    RuntimeError("[enforce fail at inline_container.cc:671] . unexpected pos 576 vs 534"),
]


@pytest.mark.parametrize(
    ("moment", "fault"),
    [
        pytest.param("scheduler.pt", SimulatedCrash(), marks=pytest.mark.long),
        ("training_args.bin", SimulatedCrash()),
        ("optimizer.pt", FULL[0]),
        ("optimizer.pt", FULL[1]),
    ],
)
def test_a_run_that_ends_while_it_saves_resumes(
    moment: str,
    fault: BaseException,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Killed, or out of disk, of which torch has an error of its own."""

    def failing(content: Any, file: Any, *more: Any, **settings: Any) -> None:
        if "checkpoint-2" in str(file) and Path(file).name == moment:
            Path(file).write_bytes(b"PK")
            raise fault
        save(content, file, *more, **settings)

    save = torch.save
    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", failing)
        if isinstance(fault, SimulatedCrash):
            with pytest.raises(SimulatedCrash):
                run(tmp_path / "run")
        else:
            assert run(tmp_path / "run") == 2
            said = capsys.readouterr().err
            assert f"error: {tmp_path / 'run'}: the run's files cannot be written (" in said
    assert complete(tmp_path / "run") == ["checkpoint-1"]
    assert run(tmp_path / "run") == 0
    assert_equal(adapter(tmp_path / "run"), adapter(whole))


# The loss falls, so the first step has the best metric.
FIRST = {"metric_for_best_model": "eval_loss", "greater_is_better": "true", "load_best_model_at_end": "true"}
BEST = {**FIRST, **evaluates(every=1), "save_total_limit": 1}


def test_the_best_checkpoint_is_found_in_a_folder_that_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run began with a relative path, and goes on from another directory under another name."""
    (tmp_path / "data").symlink_to(world.folder())
    monkeypatch.chdir(tmp_path)
    # As it was killed after its second step: a limit of 1 keeps the best and the last checkpoint until then.
    killed = SimulatedCrash("after the second checkpoint")

    class KillAfterSecond(TrainerCallback):
        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 2:
                raise killed

    words = {**STEPS, **BEST, "train_data": "data/sft.jsonl", "eval_data": "data/sft.jsonl"}
    settings = read_settings(VideoSFTConfig, "sft", flags(Path("run"), **words))
    with pytest.raises(SimulatedCrash):
        sft.train(*settings, callbacks=[KillAfterSecond()])
    assert [folder.name for folder in checkpoints(Path("run"))] == ["checkpoint-2", "checkpoint-1"]
    first = load_file("run/checkpoint-1/adapter_model.safetensors")
    moved = tmp_path / "elsewhere" / "renamed"
    moved.parent.mkdir()
    shutil.move("run", moved)
    monkeypatch.chdir("/")
    capsys.readouterr()
    assert run(moved, **BEST, eval_data=world.folder() / "sft.jsonl") == 0
    assert "does not exist anymore" not in capsys.readouterr().err
    best = json.loads((moved / "trainer_state.json").read_text())["best_model_checkpoint"]
    assert Path(best) == moved / "checkpoint-1"
    assert_equal(adapter(moved), first)
    assert complete(moved) == ["checkpoint-3", "checkpoint-1"]
    # As a run is killed, and its best checkpoint is lost.
    shutil.rmtree(moved / "checkpoint-1")
    assert run(moved, **BEST, eval_data=world.folder() / "sft.jsonl") == 2
    assert "checkpoint-1: the best checkpoint so far is missing" in capsys.readouterr().err


def test_a_second_training_in_a_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job that was queued again while the first one still runs."""
    monkeypatch.setattr(files, "_SOON", 0.2)
    with sole_writer(tmp_path / "run"):
        assert run(tmp_path / "run") == 2
    assert "pass another output_dir" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["work"]


@pytest.mark.two_processes
def test_both_processes_of_a_second_training_end(tmp_path: Path) -> None:
    words = flags(tmp_path / "run", **STEPS)
    with sole_writer(tmp_path / "run"), pytest.raises(AssertionError) as ended:
        two_processes(["train/sft.py", *words], tmp_path / "log")
    assert "error: process 0 stopped: " in str(ended.value)


@pytest.mark.parametrize(
    ("limit", "best", "kept"),
    [(None, None, [5, 4, 3, 2, 1]), (2, None, [5, 4]), (1, 2, [5, 2]), (3, 2, [5, 4, 2])],
)
def test_the_oldest_checkpoints_are_deleted_first(
    tmp_path: Path, limit: int | None, best: int | None, kept: list[int]
) -> None:
    for number in range(1, 6):
        (tmp_path / f"checkpoint-{number}").mkdir()
    keep_latest(tmp_path, limit, tmp_path / f"checkpoint-{best}" if best else None)
    assert [step_of(folder) for folder in checkpoints(tmp_path)] == kept
    assert len(list(tmp_path.iterdir())) == len(kept)
