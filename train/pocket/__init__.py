"""Training of the pocket model's parts, and what the retriever's training shares with it."""

from videopro.train.pocket.checkpoints import HELD_OUT as HELD_OUT
from videopro.train.pocket.checkpoints import append_log as append_log
from videopro.train.pocket.checkpoints import mixed_precision as mixed_precision
from videopro.train.pocket.checkpoints import resume as resume
from videopro.train.pocket.checkpoints import save_state as save_state
from videopro.train.pocket.chunk_features import ChunkFeatures as ChunkFeatures
from videopro.train.pocket.chunk_pairs import CHUNKS as CHUNKS
from videopro.train.pocket.chunk_pairs import chunk_bounds as chunk_bounds
from videopro.train.pocket.chunk_pairs import events as events
from videopro.train.pocket.chunk_pairs import split_scripts as split_scripts
from videopro.train.pocket.contrastive_pairs import ClipTextBatch as ClipTextBatch
from videopro.train.pocket.contrastive_pairs import ClipTextPairs as ClipTextPairs
from videopro.train.pocket.contrastive_pairs import retriever_tokenizer as retriever_tokenizer
