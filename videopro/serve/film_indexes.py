"""The clip indexes of films, which the modules of programs search."""

from __future__ import annotations

from collections.abc import Callable

from videopro.modules import ModuleModels
from videopro.serve.films import Film, video_of


class FilmIndexes:
    """Finds and makes indexes, with an encoder that is loaded for the first. Thread-safe."""

    def __init__(self, models: Callable[[], ModuleModels]) -> None:
        self._models = models
        self._has_encoder = False

    def has(self, film: Film, *, may_load: bool) -> bool:
        """Whether the clips of a film are indexed. True where no index is used. Unless it `may_load` the
        encoder just to say so, no index is known until one is made, and no film is opened."""
        from videopro.modules.search import index_path

        models = self._models()
        if not may_load and not self._has_encoder and models.names["encoder"] != "none":
            return False
        encoder = models.encoder()
        return encoder is None or index_path(video_of(film), encoder).exists()

    def make(self, film: Film, progress: Callable[[int, int], None]) -> int | None:
        """Index the clips of a film, if they are not. Returns how many there are; None where no index is
        used. Raises VideoProError, and Cancelled; what was done of the index is kept."""
        from videopro.modules.search import build_index

        encoder = self._models().encoder()
        self._has_encoder = True
        return None if encoder is None else len(build_index(video_of(film), encoder, progress=progress).clips)
