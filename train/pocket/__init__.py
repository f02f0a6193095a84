"""Training of the pocket model's parts, and what the retriever's training shares with it."""

from videopro.train.pocket.checkpoints import HELD_OUT, append_log, mixed_precision, resume, save_state
from videopro.train.pocket.chunk_pairs import (
    CHUNK_FRAMES,
    CHUNKS,
    chunk_bounds,
    chunk_times,
    draw_chunks,
    events,
    shown_facts,
    split_scripts,
    train_scripts,
)
from videopro.train.pocket.contrastive_pairs import ClipTextBatch, ClipTextPairs, retriever_tokenizer

__all__ = [
    "CHUNKS",
    "CHUNK_FRAMES",
    "HELD_OUT",
    "ClipTextBatch",
    "ClipTextPairs",
    "append_log",
    "chunk_bounds",
    "chunk_times",
    "draw_chunks",
    "events",
    "mixed_precision",
    "resume",
    "retriever_tokenizer",
    "save_state",
    "shown_facts",
    "split_scripts",
    "train_scripts",
]
