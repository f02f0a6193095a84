"""Text embeddings by sentence-transformers, such as BGE-M3 for subtitle lines."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from safetensors import SafetensorError

from videopro.backbones import folder_fingerprint
from videopro.cli import needs_extra
from videopro.errors import acquired
from videopro.modules.errors import ModelError
from videopro.modules.models.encoders.interfaces import TextEncoder, checkpoint_folder
from videopro.modules.models.hub import check_finite, device_of, stop_between_layers


class SentenceEncoder(TextEncoder):
    """A sentence-transformers model. Queries get the query prompt of the model's configuration; BGE-M3 has
    none. Thread-safe: calls run one at a time."""

    def __init__(self, source: str, *, device: str | None = None) -> None:
        """`source`: a directory or a hub name. Raises MissingExtra without sentence-transformers,
        ModelError if the model cannot be loaded."""
        with needs_extra("encoders", "a text encoder"):
            from sentence_transformers import SentenceTransformer
        self.name = source
        folder = checkpoint_folder(source)
        try:
            self.model = SentenceTransformer(str(folder), device=device_of(device))
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise ModelError(f"{source!r}: {folder} is not a sentence-transformers model: {error}") from error
        check_finite(f"{source!r}: {folder}", self.model.named_parameters())
        stop_between_layers(self.model)
        self._fingerprint = folder_fingerprint(folder)
        # Fast tokenizers cannot be used by two threads at once.
        self._lock = threading.Lock()

    def identity(self) -> dict[str, object]:
        return {"encoder": "sentences", "weights": self._fingerprint}

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        return self._rows(self.model.encode_document, texts)

    def encode_queries(self, queries: Sequence[str]) -> np.ndarray:
        return self._rows(self.model.encode_query, queries)

    def _rows(self, encode: object, texts: Sequence[str]) -> np.ndarray:
        assert callable(encode)
        with acquired(self._lock):
            rows = encode(
                list(texts), normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
            )
        return np.asarray(rows, dtype=np.float32)
