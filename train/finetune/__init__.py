"""Supervised fine-tuning on rows with videos."""

from videopro.train.finetune.collator import VideoCollator, as_dataset, count_tokens
from videopro.train.finetune.config import VideoSFTConfig
from videopro.train.finetune.data import SFTRow, read_rows
from videopro.train.finetune.trainer import VideoSFTTrainer

__all__ = [
    "SFTRow",
    "VideoCollator",
    "VideoSFTConfig",
    "VideoSFTTrainer",
    "as_dataset",
    "count_tokens",
    "read_rows",
]
