"""Training of the pocket model's parts, and what the retriever's training shares with it."""

from videopro.train.pocket.checkpoints import HELD_OUT, append_log, mixed_precision, resume, save_state
from videopro.train.pocket.chunk_features import ChunkFeatures
from videopro.train.pocket.chunk_pairs import CHUNKS, chunk_bounds, events, split_scripts
from videopro.train.pocket.contrastive_pairs import ClipTextBatch, ClipTextPairs, retriever_tokenizer

__all__ = [
    "CHUNKS",
    "HELD_OUT",
    "ChunkFeatures",
    "ClipTextBatch",
    "ClipTextPairs",
    "append_log",
    "chunk_bounds",
    "events",
    "mixed_precision",
    "resume",
    "retriever_tokenizer",
    "save_state",
    "split_scripts",
]
