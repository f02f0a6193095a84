"""Code shared by all trainers: settings, trainable parts, checkpoints, evaluation and the loop."""

from videopro.train.runtime.agreement import raise_everywhere, sole_training
from videopro.train.runtime.chat_rows import PLACEHOLDER, ChatRow, read_chat
from videopro.train.runtime.checkpoint_files import publish_checkpoint
from videopro.train.runtime.coverage import coverage_line
from videopro.train.runtime.dummy_vision import DummyVision
from videopro.train.runtime.finite_steps import ROW_IDS
from videopro.train.runtime.frame_cache import FrameCache
from videopro.train.runtime.loop import run_training
from videopro.train.runtime.rows import RowsOfFile, digest, read_rows_of_file
from videopro.train.runtime.setup import RECORD, TrainingRows, TrainingSetup
from videopro.train.runtime.shown_modules import read_reference, reference_of
from videopro.train.runtime.trainable import (
    Part,
    load_trainable,
    parameter_groups,
    part_of,
    put_trained,
    trained_parts,
    without_adapter,
)
from videopro.train.runtime.trained_videos import overlap_warning, recorded_videos
from videopro.train.runtime.trainer import RunTrainer
from videopro.train.runtime.trl_parser import read_settings, run_command

__all__ = [
    "ChatRow",
    "DummyVision",
    "FrameCache",
    "PLACEHOLDER",
    "Part",
    "RECORD",
    "ROW_IDS",
    "RowsOfFile",
    "RunTrainer",
    "TrainingRows",
    "TrainingSetup",
    "coverage_line",
    "digest",
    "load_trainable",
    "overlap_warning",
    "parameter_groups",
    "part_of",
    "publish_checkpoint",
    "put_trained",
    "raise_everywhere",
    "read_chat",
    "read_reference",
    "read_rows_of_file",
    "read_settings",
    "recorded_videos",
    "reference_of",
    "run_command",
    "run_training",
    "sole_training",
    "trained_parts",
    "without_adapter",
]
