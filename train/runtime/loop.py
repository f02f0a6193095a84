"""A training run, from its first step or its last complete checkpoint to its final files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from safetensors.torch import load_file, save_file
from trl import ModelConfig

from videopro.backbones import folder_fingerprint
from videopro.backbones.qwen import adapter_folder
from videopro.errors import RunError, VideoProError, writing
from videopro.storage import sole_writer
from videopro.train.runtime.checkpoints import (
    RESUME_HINT,
    STATE,
    UNFINISHED,
    checkpoints,
    find_resume_checkpoint,
    publish,
)
from videopro.train.runtime.record import check_same_run, describe_run, with_stage, write_record
from videopro.train.runtime.rows import digest
from videopro.train.runtime.setup import TrainingRows, TrainingSetup
from videopro.train.runtime.trackers import TrackedRun, track
from videopro.train.runtime.trainer import RunTrainer


def run_training(
    trainer: RunTrainer,
    model: ModelConfig,
    start: TrainingSetup,
    rows: TrainingRows[Any],
) -> None:
    """Train, resuming from the last complete checkpoint if there is one, and write the weights and the record
    to the run's folder. Raises RunError for checkpoints of another run, for NaN or infinite steps, and for a
    full disk."""
    training: Any = trainer.args
    output = trainer.output
    state = PartialState()
    # By its content: a moved adapter is the same start, and a changed one another.
    adapter = folder_fingerprint(adapter_folder(start.adapter)) if start.adapter else None
    run = describe_run(training, model, start, rows=digest(training.train_path), adapter=adapter)
    # Before the first file is written: another run's folder does not change.
    if checkpoints(output):
        check_same_run(output, run)
    is_adapter = bool(model.use_peft or start.adapter)
    trainer.model_record = start.record(is_adapter=is_adapter, reference=rows.reference)
    if state.is_main_process and (note := start.reference_note(rows.reference)):
        print(note, file=sys.stderr)
    if not is_adapter:
        trainer.base_folder = start.checkpoint.folder
    state.wait_for_everyone()
    with writing("the run's files", output, then=RESUME_HINT):
        last = find_resume_checkpoint(output, trainer.logs, loads_best=training.load_best_model_at_end)
        videos = {}
        if state.is_main_process:
            videos = with_stage(start.trained_videos(), training.STAGE, rows.train)
            write_record(output, run, rows=rows.train, dropped=rows.dropped, videos=videos)
            track(trainer, TrackedRun(output, run, resumes=last is not None))
        trainer.train(resume_from_checkpoint=None if last is None else str(last))
    with writing("the trained weights", output, then=RESUME_HINT):
        aside = output / UNFINISHED
        trainer.save_model(str(aside))
        state.wait_for_everyone()
        if state.is_main_process:
            trainer.state.save_to_json(str(aside / STATE))
            if is_adapter and training.adapter_dtype == "bfloat16":
                in_bfloat16(aside / "adapter_model.safetensors")
            # The weights come last: once they are there, all that belongs to them is there too.
            files = sorted(aside.iterdir(), key=lambda path: (path.suffix == ".safetensors", path.name))
            for path in files:
                publish(path, output / path.name)
            aside.rmdir()
            history = trainer.state.log_history
            write_record(output, run, rows=rows.train, dropped=rows.dropped, videos=videos, history=history)
        state.wait_for_everyone()


def in_bfloat16(file: Path) -> None:
    """Convert an adapter's file to bfloat16, which halves it."""
    weights: dict[str, Any] = {name: weight.to(torch.bfloat16) for name, weight in load_file(file).items()}
    part = file.with_suffix(".part")
    save_file(weights, part, metadata={"format": "pt"})
    part.replace(file)


@contextmanager
def raised_everywhere(kind: type[VideoProError]) -> Iterator[None]:
    """Raise a VideoProError of the block in every process: unchanged in its own, elsewhere as `kind`.
    Otherwise the others would wait for a process that has ended. Called in every process."""
    failure: VideoProError | None = None
    try:
        yield
    except VideoProError as error:
        failure = error
    messages = gather_object([None if failure is None else str(failure)])
    if failure is not None:
        raise failure
    for process, message in enumerate(messages):
        if message is not None:
            raise kind(f"process {process} stopped: {message.splitlines()[0]}")


@contextmanager
def sole_training(output: Path) -> Iterator[None]:
    """Keep other trainings out of a run's folder within the block, by a lock of the main process. Called in
    every process. Raises RunError in all of them if another training has the folder."""
    with ExitStack() as held:
        with raised_everywhere(RunError):
            if PartialState().is_main_process:
                held.enter_context(sole_writer(output, "output_dir"))
        yield
