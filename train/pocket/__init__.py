"""Training of the pocket model's parts, and what the retriever's training shares with it."""

from videopro.train.pocket.checkpoints import HELD_OUT, append_log, mixed_precision, resume, save_state
from videopro.train.pocket.contrastive_pairs import ClipTextBatch, ClipTextPairs, retriever_tokenizer

__all__ = [
    "HELD_OUT",
    "ClipTextBatch",
    "ClipTextPairs",
    "append_log",
    "mixed_precision",
    "resume",
    "retriever_tokenizer",
    "save_state",
]
