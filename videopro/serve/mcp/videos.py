"""The videos that a client may open, from the operator's folders, and their tools."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cachetools import LRUCache

from videopro.errors import ConfigError, acquired
from videopro.modules import VideoContext
from videopro.modules.tools import Budget, Tell, ToolModels, VideoTools, load_models, tool_settings
from videopro.serve.answering import Answerer, VideoIndexes
from videopro.serve.problems import called_by_name
from videopro.serve.store import ID_PREFIX, StoredVideo, VideoStore, video_of
from videopro.video import SUBTITLE_ENDINGS, load_subtitles

_KEPT_CONTEXTS = 32
_GIVEN, _DIGITS = "+", 16
"""After the id of a video: a digest of the subtitles with which it was opened."""
_PARTS = {"encoder": "index", "ocr": "ocr", "detector": "detector"}
"""What tools need, by the part of the settings that brings it."""


class OfferedVideos:
    """The videos in the operator's folders, and the models that look at them. Thread-safe. Nothing is loaded
    before it is needed: a client expects the server at once."""

    def __init__(self, folders: Sequence[Path], answerer: Answerer | None, parts: Mapping[str, Any]) -> None:
        """`answerer` None: no question is answered. `parts`: settings of the modules' models. Raises
        ConfigError for a folder that is none."""
        for folder in folders:
            if not folder.is_dir():
                raise ConfigError(f"{folder}: is no folder; give folders of videos")
        self._folders = [folder.expanduser().resolve() for folder in folders]
        # Of a video in a folder nothing is kept but what is known of it.
        self._home = tempfile.TemporaryDirectory(prefix="videopro-mcp-")
        self.store = VideoStore(Path(self._home.name), 1, folders)
        self.answerer = answerer
        self._parts = dict(parts)
        own = None if answerer is None else answerer.own
        named = tool_settings(self._parts, has_model=answerer is not None).resolved(own)
        self.lacking = {need for part, need in _PARTS.items() if named[part] == "none"}
        """What no tool of this server has, by the needs of tools."""
        if answerer is None:
            self.lacking.add("model")
        self._models: ToolModels | None = None
        self._contexts: LRUCache[Any, VideoContext] = LRUCache(_KEPT_CONTEXTS)
        self._given: dict[str, Path] = {}
        """Subtitles that a client named, by the id that it received."""
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self._indexes: VideoIndexes | None = None

    def close(self) -> None:
        """Release the models, and forget the videos."""
        if self._models is not None:
            self._models.close()
        self._home.cleanup()

    def video(self, name: str) -> StoredVideo:
        """The video of an id, or of a path in the folders. Raises Problem."""
        if name in self._given:
            return replace(self.store.get(name.partition(_GIVEN)[0]), id=name, subtitles=self._given[name])
        if name.startswith(ID_PREFIX):
            return self.store.get(name)
        return self.store.from_folder(self._relative(name))

    def with_subtitles(self, stored: StoredVideo, path: str) -> StoredVideo:
        """The video with the subtitles in a file of the folders, under its own id: other clients' videos do
        not change. Raises VideoProError."""
        file = self.store.folders.resolve(self._relative(path))
        # By its name first: a video in its place would be read into memory.
        if file.suffix.lower() not in SUBTITLE_ENDINGS:
            endings = ", ".join(SUBTITLE_ENDINGS)
            raise ConfigError(f"{file.name}: is no subtitle file; give one that ends in {endings}")
        with called_by_name({str(file): file.name}):
            load_subtitles(file, duration=stored.duration)
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        id = f"{stored.id.partition(_GIVEN)[0]}{_GIVEN}{digest[:_DIGITS]}"
        self._given[id] = file
        return replace(stored, id=id, subtitles=file)

    def models(self, tell: Tell) -> ToolModels:
        """The models, loaded if they are not. Raises VideoProError."""
        with acquired(self._loading):
            if self._models is None:
                if self.answerer is None:
                    self._models = load_models(**self._parts)
                else:
                    tell("loading the model")
                    self.answerer.load()
                    loaded = self.answerer.backbone
                    self._models = load_models(
                        self.answerer.model, load=lambda *_, **__: loaded, **self._parts
                    )
                modules = self._models.modules
                self._indexes = VideoIndexes(lambda: modules)
            return self._models

    def tools(self, stored: StoredVideo, tell: Tell, *, is_indexed: bool = False) -> VideoTools:
        """The tools of a video for one call, whose progress goes to `tell`. Raises VideoProError."""
        models = self.models(tell)
        with called_by_name({str(stored.path): stored.name}):
            models.check_video(stored.path)
        if is_indexed:
            self.index(stored, tell)
        key = (stored.id, stored.subtitles, is_indexed)
        with self._lock:
            context = self._contexts.get(key)
        if context is None:
            video, file = video_of(stored), stored.subtitles
            subtitles = None if file is None else load_subtitles(file, duration=video.duration)
            context = models.context(video, subtitles, is_indexed=is_indexed)
            with self._lock:
                self._contexts[key] = context
        return VideoTools(context, Budget(), tell=tell)

    def is_indexed(self, stored: StoredVideo) -> bool:
        """Whether the clips of a video are known to be indexed. Nothing is loaded to find out."""
        return self._indexes is not None and self._indexes.has(stored, may_load=False)

    def index(self, stored: StoredVideo, tell: Tell) -> None:
        """Index the clips of a video, if they are not. Raises VideoProError, and Cancelled; what was done of
        the index is kept."""
        assert self._indexes is not None
        self._indexes.make(stored, lambda done, total: tell("indexing", done, total))

    def _relative(self, name: str) -> str:
        """A path as the folders take it: clients name files in full, too."""
        path = Path(name)
        if path.is_absolute():
            for folder in self._folders:
                # Not resolved: the folders do that, and refuse what leads out of them.
                if path.is_relative_to(folder):
                    return path.relative_to(folder).as_posix()
        return name
