"""Supervised fine-tuning on rows with videos."""

from videopro.train.finetune.collator import SFTRow as SFTRow
from videopro.train.finetune.collator import VideoCollator as VideoCollator
from videopro.train.finetune.collator import as_dataset as as_dataset
from videopro.train.finetune.collator import count_tokens as count_tokens
from videopro.train.finetune.collator import read_rows as read_rows
from videopro.train.finetune.config import VideoSFTConfig as VideoSFTConfig
from videopro.train.finetune.trainer import VideoSFTTrainer as VideoSFTTrainer
