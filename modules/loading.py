"""Loads the models behind the modules, once per process, and makes the context of each video from them.

"auto" is what the paper and its release use, or what the plug-in of the model that answers brings for it;
"none" leaves out a model and the modules that need it. There is no silent fallback: a model that cannot be
loaded stops the run. What they need is looked up before (`videopro.cli.requirements`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from videopro.backbones import Backbone, OwnModel, folder_fingerprint, loaded_whole
from videopro.cli import Need, cache_root, folder_problem, is_hub_name, option
from videopro.errors import ConfigError, acquired
from videopro.modules.calls import ClipTimes
from videopro.modules.errors import ModelError
from videopro.modules.library import VideoContext, extra_modules
from videopro.modules.models import Detector, Tracker, load_detector, load_ocr, load_tracker
from videopro.modules.models.encoders import (
    AUTO_DTYPE,
    ENCODERS,
    TextEncoder,
    VideoTextEncoder,
    check_dtype,
    load_encoder,
    load_text_encoder,
    read_encoder,
    resolve_dtype,
)
from videopro.modules.models.transcription import SPEECH_HELP, Spoken, Transcripts, resolve_speech
from videopro.modules.presets import PAPER, PAPER_FRAMES
from videopro.modules.search import ClipIndex, index_path, prepare_index
from videopro.traces import Preparation
from videopro.video import Subtitles, Video

LoadedT = TypeVar("LoadedT")
ModelPart = Literal["encoder", "text_encoder", "ocr", "detector", "tracker"]

# The release's models, except for tracking: it links the detector's boxes, since SAM 3 is gated on the hub.
REAL: Mapping[ModelPart, str] = {
    "encoder": "languagebind",
    "text_encoder": "BAAI/bge-m3",
    "ocr": "rapidocr",
    "detector": "grounding-dino:IDEA-Research/grounding-dino-base",
    "tracker": "detector",
}
PAPER_HELP = f"paper: the paper's models for modules that are not set, and {PAPER_FRAMES} frames per call"
OPTIONS_FLAG = "--options {part}=none"
"""The flag that turns off the model of a part in inference."""


@dataclass(frozen=True)
class ModuleSettings:
    """The models behind the modules."""

    encoder: str = option(
        "auto",
        "clip encoder: languagebind, clip, siglip2, pe_video or a plug-in, each with :FOLDER for another "
        "checkpoint; asp-clip:FOLDER; none",
        answers=True,
    )
    encoder_dtype: str = option(
        AUTO_DTYPE,
        "precision of the clip encoder, as --dtype of videopro index: float32, bfloat16 or float16; "
        "auto: bfloat16 on a GPU, else float32",
        answers=True,
    )
    text_encoder: str = option(
        "auto", "subtitle encoder: a sentence-transformers name; none: BM25", answers=True
    )
    ocr: str = option(
        "auto", "rapidocr, easyocr:en, easyocr:en@FOLDER (of its weight files) or none", answers=True
    )
    detector: str = option("auto", "backbone, grounding-dino:NAME or none", answers=True)
    tracker: str = option("auto", "detector, sam3:NAME or none", answers=True)
    speech: str = option("auto", f"{SPEECH_HELP}; auto: none, or whisper with preset paper", answers=True)
    summarize: bool | None = option(
        None, "let the backbone summarize long transcripts; unset: yes, if supported", answers=True
    )

    # Changes no answer by itself: what it stands for is in the settings above and in the backbone's.
    preset: Literal["paper"] | None = option(None, PAPER_HELP, answers=False)
    clip_times: ClipTimes = option(
        "video",
        "origin of times in the trims of a clip: video, or clip (its start, for planners trained on clips "
        "that are separate files)",
        answers=True,
    )
    extra_modules: tuple[str, ...] = option(
        (),
        "your own modules for programs to call: plug-ins by name, or path/to/file.py[@NAME]",
        answers=True,
    )

    def __post_init__(self) -> None:
        check_dtype("encoder_dtype", self.encoder_dtype)
        extra_modules(self.extra_modules)
        chosen = PAPER if self.preset == "paper" else {"speech": "none"}
        for part, name in chosen.items():
            if getattr(self, part) == "auto":
                object.__setattr__(self, part, name)

    @property
    def encoder_precision(self) -> str:
        """The precision of the clip encoder on this machine."""
        if self.encoder == "none" and self.encoder_dtype == AUTO_DTYPE:
            return "float32"
        return resolve_dtype(self.encoder_dtype)

    def resolved(self, answering: OwnModel | None = None) -> dict[str, str]:
        """Every part with "auto" replaced. `answering`: the plug-in's model that answers, if it is one."""
        defaults = dict[str, str](REAL.items())
        defaults |= answering.modules if answering is not None else {}
        chosen = {part: getattr(self, part) for part in defaults}
        return {part: defaults[part] if name == "auto" else name for part, name in chosen.items()}


def json_flag(setting: str) -> str:
    """The setting that turns off the model of a part in training."""
    return f'--{setting} \'{{{{"{{part}}": "none"}}}}\''


class ModuleModels:
    """The models, loaded on first use and shared by all threads. Thread-safe."""

    def __init__(
        self,
        settings: ModuleSettings,
        *,
        answering: OwnModel | None = None,
        root: Path | None = None,
        flag: str = OPTIONS_FLAG,
    ) -> None:
        """`answering`: the backbone's `own_model`. `root`: where indexes are kept; None:
        `cache_root()`. `flag`: how the command at hand leaves a model out, for messages: with
        {part} for a part's name, or {option} for its name in a flag.
        """
        self._flag = flag
        self.names = settings.resolved(answering)
        self.transcripts = Transcripts(settings.speech, root)
        """Transcripts of videos without listed subtitles."""
        self._clip_times = settings.clip_times
        self._encoder_dtype = settings.encoder_precision
        can_summarize = answering is None or answering.summarizes
        self._summarize = can_summarize if settings.summarize is None else settings.summarize
        self._extra = extra_modules(settings.extra_modules)
        self._root = root if root is not None else cache_root()
        self._loaded: dict[str, Any] = {}
        self._loading = threading.Lock()

    def identity(self) -> dict[str, object]:
        """What a run's key hashes: the models' names, and the contents of those that are folders."""
        names = {**self.names, "speech": self.transcripts.speech}
        weights = {
            # EasyOCR's weights are .pth files; elsewhere those are states of training.
            part: folder_fingerprint(folder, also=("*.pth",) if part == "ocr" else ())
            for part, name in names.items()
            if (folder := _folder(name))
        }
        return {
            **names,
            "summarize": self._summarize,
            "weights": weights,
            "clip_times": self._clip_times,
            "encoder_dtype": self._encoder_dtype,
            # Only if there are any: the keys of runs without them do not change.
            **({"extra_modules": {n: p.version for n, p in self._extra.items()}} if self._extra else {}),
        }

    def context(
        self,
        video: Video,
        backbone: Backbone,
        subtitles: Subtitles | None,
        without: Collection[str] = (),
        spoken: Spoken | None = None,
        *,
        is_indexed: bool = True,
    ) -> VideoContext:
        """The context of one video's modules; its clips are indexed if needed. `backbone` answers;
        `without`: families of modules to leave out; `spoken`: what is said without listed subtitles, if that
        was looked up before; `is_indexed` False: without an index, also where there is one. Raises ModelError
        or ConfigError for a model that cannot be loaded, VideoError for an unreadable video."""
        notes: list[str] = []
        if subtitles is None:
            spoken = self.spoken(video) if spoken is None else spoken
            subtitles = spoken.subtitles
            notes += spoken.notes
        detector: Detector | None
        # The backbone's own grounding is that of the backbone that was given; other detectors serve all.
        if self.names["detector"] == "backbone":
            detector = load_detector("backbone", backbone)
        else:
            detector = self._model("detector", lambda name: load_detector(name, backbone))
        tracker: Tracker | None
        if self.names["tracker"] == "detector":
            tracker = None if detector is None else load_tracker("detector", detector)
        else:
            tracker = self._model("tracker", lambda name: load_tracker(name, None))
        return VideoContext(
            video,
            backbone,
            subtitles=subtitles,
            index=self.index(video)[0] if is_indexed else None,
            text_encoder=self.text_encoder(),
            ocr=self._model("ocr", load_ocr),
            detector=detector,
            tracker=tracker,
            can_summarize=self._summarize,
            without=without,
            notes=tuple(notes),
            clip_times=self._clip_times,
            extra=self._extra,
        )

    def spoken(self, video: Video) -> Spoken:
        """The transcript of a video without listed subtitles, made if needed. Raises as `context`."""
        return self.transcripts.of(video)

    def index(self, video: Video) -> tuple[ClipIndex | None, tuple[Preparation, ...]]:
        """The clip index of a video, built if it is missing, and what that cost; None and nothing without an
        encoder. Raises as `context`."""
        encoder = self.encoder()
        if encoder is None:
            return None, ()
        root = self._root / "index"
        with self.transcripts.turn(index_path(video, encoder, root=root)):
            index, preparation = prepare_index(video, encoder, root=root)
        return index, (preparation,)

    def encoder(self) -> VideoTextEncoder | None:
        """The clip encoder; None if the settings leave it out. Raises ModelError or ConfigError."""
        return self._model("encoder", partial(load_encoder, dtype=self._encoder_dtype))

    def text_encoder(self) -> TextEncoder | None:
        """The text encoder; None if the settings leave it out. Raises ModelError or ConfigError."""
        return self._model("text_encoder", load_text_encoder)

    def _model(self, part: ModelPart, load: Callable[[str], LoadedT]) -> LoadedT | None:
        name = self.names[part]
        return None if name == "none" else self._once(part, lambda: load(name))

    def _once(self, part: str, load: Callable[[], LoadedT]) -> LoadedT:
        with acquired(self._loading):
            if part not in self._loaded:
                try:
                    with loaded_whole():
                        self._loaded[part] = load()
                except (ModelError, ConfigError) as error:
                    flag = self._flag.format(part=part, option=part.replace("_", "-"))
                    # The same class, so that it is handled as it would be elsewhere; only the message gains
                    # the way out.
                    raise type(error)(f"{error} (or run without it: {flag})") from error
            loaded: LoadedT = self._loaded[part]
        return loaded


def _folder(name: str) -> Path | None:
    """The local folder that a model's name refers to, if it does."""
    if name in ENCODERS and (folder := ENCODERS[name].folder):
        return folder
    model = name.partition(":")[2] or name
    # easyocr:LANGUAGES@FOLDER, whisper:FOLDER@LANGUAGE
    named = (model, model.rpartition("@")[0], model.partition("@")[2])
    return next((Path(path) for path in named if path and Path(path).is_dir()), None)


_PARTS = {
    "encoder": ("clip encoder", "languagebind:FOLDER"),
    "text_encoder": ("text encoder", "FOLDER"),
    "ocr": ("OCR", "easyocr:en@FOLDER"),
    "detector": ("detector", "grounding-dino:FOLDER"),
    "tracker": ("tracker", "sam3:FOLDER"),
    "speech": ("speech recognition", "whisper:FOLDER"),
}
"""What a part is called, and how its setting names one that is in a folder."""


def module_needs(
    settings: ModuleSettings,
    answering: OwnModel | None = None,
    is_certain: bool = True,
    *,
    flag: str = OPTIONS_FLAG,
    parts: Collection[str] = tuple(_PARTS),
) -> list[Need]:
    """What the parts of the settings need, and the cache. `answering`, `is_certain`: what `expected_model`
    says of the backbone; if it is not certain, only parts that are named are looked at. `flag`: how the
    command at hand leaves out a part, as in `ModuleModels`. `parts`: those that are used."""
    named = settings.resolved(answering) | {"speech": resolve_speech(settings.speech)}
    names = {part: name for part, name in named.items() if part in parts}
    if not is_certain:
        names = {part: name for part, name in names.items() if getattr(settings, part) != "auto"}
    return [*part_needs(names, flag), cache_need()]


def speech_needs(speech: str, flag: str = OPTIONS_FLAG) -> list[Need]:
    """The needs of a method's transcripts; none without them."""
    name = resolve_speech(speech)
    return [] if name == "none" else [*part_needs({"speech": name}, flag), cache_need()]


def part_needs(names: Mapping[str, str], flag: str = OPTIONS_FLAG) -> list[Need]:
    """What models need that are named by the settings of `ModuleSettings`."""
    return [_part_need(part, name, flag) for part, name in names.items() if name not in ("none", "auto")]


def _part_need(part: str, name: str, flag: str) -> Need:
    title, in_a_folder = _PARTS[part]
    without = flag.format(part=part, option=part.replace("_", "-"))
    kind, _, source = name.partition(":")
    extra = ("", "")
    if part == "encoder":
        encoder, source = read_encoder(name)
        extra, in_a_folder = encoder.extra, f"{kind}:FOLDER"
    elif part == "text_encoder":
        source, extra = name, ("encoders", "sentence_transformers")
    elif kind == "easyocr":
        # It downloads its own weights, and says so if it cannot.
        source, extra = "", ("easyocr", "easyocr")
    elif part == "speech":
        source = source.partition("@")[0]
    otherwise = f"from a folder: {without.replace('none', in_a_folder)}"
    # A command that does nothing without the part has no such value.
    if "none" in without:
        otherwise += f"; without it: {without}"
    hub = source if is_hub_name(source) else ""
    return Need(f"{title} {name}", hub=hub, extra=extra[0], package=extra[1], otherwise=otherwise)


def cache_need(root: Path | None = None) -> Need:
    """The folder of indexes and transcripts; None: the usual one."""
    problem = folder_problem(root or cache_root())
    return Need("cache", problem=problem and f"{problem}; set VIDEOPRO_CACHE to another folder")
