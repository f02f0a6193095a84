"""Opening a video for an agent."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from videopro.backbones import find_video
from videopro.modules.tools.budget import Budget
from videopro.modules.tools.models import ToolModels, as_models
from videopro.modules.tools.toolbox import VideoTools
from videopro.video import Subtitles, Video, load_subtitles, subtitles_of


def open_video(
    path: str | os.PathLike[str],
    subtitles: str | os.PathLike[str] | bool = True,
    models: ToolModels | Mapping[str, Any] | str | None = None,
    *,
    budget: Budget | None = None,
    options: bool = False,
    only: Sequence[str] | None = None,
) -> VideoTools:
    """The tools of a video file. Its clips are indexed first, once, if there is a clip encoder.

    `subtitles`: a subtitle file, or a video file with embedded subtitles; True: those in the video, else
    those beside it (film.srt, film.en.srt), if there are any; False: none. `models`: a VideoLLM by name, as
    `--model` takes it; or a mapping with "model", its "backbone" settings, and the modules' models
    ("encoder", "text_encoder", "ocr", "detector", "tracker", "speech"); or `load_models(...)` for many
    videos. Without a model, nothing is downloaded: an agent searches subtitles, reads text and looks at
    frames itself. `budget`: what all calls may use together. `options`: offer the modules in their forms for
    questions with options. `only`: the names of the tools to offer; None: all that the video and the models
    allow. Raises VideoProError for what the caller can fix.
    """
    file = find_video(Path(path))
    loaded = as_models(models)
    loaded.check_video(file)
    video = Video.open(file)
    context = loaded.context(video, _subtitles(file, video, subtitles))
    return VideoTools(context, budget or Budget(), is_open=not options, only=only)


def _subtitles(file: Path, video: Video, named: str | os.PathLike[str] | bool) -> Subtitles | None:
    source = subtitles_of(file) if named is True else None if named is False else Path(named)
    return None if source is None else load_subtitles(source, duration=video.duration)
