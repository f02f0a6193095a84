"""The clip indexes of films, which the modules of programs search."""

from __future__ import annotations

import threading
from collections.abc import Callable

from videopro.modules import ModuleModels, ModuleSettings
from videopro.video import Video

Progress = Callable[[int, int], None]


class FilmIndexes:
    """Makes indexes, with an encoder that is loaded for the first. Thread-safe."""

    def __init__(self, settings: Callable[[], ModuleSettings], *, is_pocket: Callable[[], bool]) -> None:
        """`is_pocket`: whether the loaded model is the pocket model, whose encoder is small."""
        self._settings = settings
        self._is_pocket = is_pocket
        self._models: ModuleModels | None = None
        self._has_encoder = False
        self._lock = threading.Lock()

    def has(self, open_video: Callable[[], Video], *, may_load: bool) -> bool:
        """Whether the clips of a video are indexed. True where no index is used. Unless it `may_load` the
        encoder just to say so, no index is known until one is made, and no video is opened."""
        from videopro.modules.search import index_path

        models = self._module_models()
        if not may_load and not self._has_encoder and models.names["encoder"] != "none":
            return False
        encoder = models.encoder()
        return encoder is None or index_path(open_video(), encoder).exists()

    def make(self, video: Video, progress: Progress) -> None:
        """Index the clips of a video, if they are not. Raises VideoProError, and Cancelled."""
        from videopro.modules.search import build_index

        encoder = self._module_models().encoder()
        self._has_encoder = True
        if encoder is not None:
            build_index(video, encoder, progress=progress)

    def _module_models(self) -> ModuleModels:
        with self._lock:
            if self._models is None:
                self._models = ModuleModels(self._settings(), pocket=self._is_pocket())
            return self._models
