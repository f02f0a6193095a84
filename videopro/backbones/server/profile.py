"""What a server says of itself and its model: the engine, the budgets, the weights, the form in which it
takes a video; and what this machine has of that model. Each is asked once, and kept for all calls.

Where something is missing, such as a flag of the engine, the user is warned; the run's record has the same
text (`Backbone.notes`).
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from videopro.backbones.address import is_openai
from videopro.backbones.base import DEFAULT_FRAMES, DEFAULT_PIXELS, BackboneConfig
from videopro.backbones.fingerprint import folder_fingerprint
from videopro.backbones.model_record import (
    MODEL_RECORD,
    BaseRecord,
    ModelRecord,
    PlannerRecord,
    VideoMarks,
    base_notes,
    budget_notes,
    read_model_record,
)
from videopro.backbones.own_models import MODELS, lasting_name
from videopro.backbones.server.endpoint import Endpoint, RequestRefused, unknown_model
from videopro.backbones.server.messages import (
    EncodedFrames,
    Prompted,
    encode_frames,
    jpeg,
    sent_size,
    user_message,
)
from videopro.backbones.server.prompt_check import TEXT, difference, own_prompts, video_frames
from videopro.backbones.server.replies import Completion, prompt_tokens
from videopro.cli import folder_here
from videopro.errors import BackboneError

Cards = Mapping[str, Mapping[str, Any]]
"""The server's models, by name."""


logger = logging.getLogger(__name__)

T = TypeVar("T")

Form = Literal["video", "frames"]
"""How frames are sent: as one video, or as images after their times."""
Probe = Callable[[Sequence[Prompted]], list[Completion]]
"""Sends requests to the model, adapter off."""

ENGINES = ("vllm", "sglang")
"""Servers that support more than OpenAI's fields, as `/models` reports them."""
# What `/models` says of a server that does not name its engine. Ray Serve LLM has the placeholder of OpenAI's
# reference there (2.60, ModelCard in ray/llm/_internal/serve/core/configs/openai_api_models.py).
_UNNAMED = (None, "", "organization-owner")
# How servers refuse a field that they do not know (some ignore it), and a part that they do not know or a
# video that they cannot read.
_UNKNOWN_FIELD = (400, 422, 500, 501)
_UNKNOWN_VIDEO = (400, 404, 413, 415, 422, 500, 501)
# Start times of the two videos of a probe, in seconds: later times take more digits, and so more tokens.
_STARTS = (0, 100_000)
# Frames of the prompt that is compared with ours; more would take gigabytes.
_MOST_COMPARED = 64

_TIMES_LOST = "it drops the frame times of a video (as Qwen2.5-VL and older servers do)"
_NO_ENGINE = (
    "it does not report its engine, so it gets OpenAI's fields only: a top-k or penalty in the model's "
    "generation_config.json applies, thinking is not turned off, and prompts are not compared. If it is vLLM "
    "or SGLang, pass --backbone engine=vllm or engine=sglang; engine=other hides this warning"
)
_AS_PICTURES = (
    "frames are sent as images with their times, not as a video: about twice the visual tokens, and "
    "different answers (with a small model, to a third of the questions). Set --backbone video=frames to "
    "confirm, or video=video to refuse. The reason"
)


def _once(ask: Callable[[ServerProfile], T]) -> Callable[[ServerProfile], T]:
    """Keeps what a method of `ServerProfile` returns; any number of threads cause one call.

    Not `functools.cached_property`, which has its own lock in Python 3.11: two locks could be taken in
    either order."""

    @functools.wraps(ask)
    def asked_once(self: ServerProfile) -> T:
        with self._lock:
            if ask.__name__ not in self._answers:
                self._answers[ask.__name__] = ask(self)
            answer: T = self._answers[ask.__name__]
            return answer

    return asked_once


class ServerProfile:
    """The list of models, the engine, the budgets, and the form of a video. Thread-safe. Nothing is sent
    until one of them is needed; each of them then raises BackboneError if the server cannot be asked.

    `budget_settings` says how the user gives frames and pixels, for messages; `probe` sends requests about
    videos.
    """

    def __init__(
        self, config: BackboneConfig, endpoint: Endpoint, budget_settings: str, probe: Probe
    ) -> None:
        self._config = config
        self._endpoint = endpoint
        self._server = f"server {endpoint.url}"
        self._budget_settings = budget_settings
        self._probe = probe
        self._lock = threading.RLock()
        self._answers: dict[str, Any] = {}
        self._notes: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings to the user."""
        return tuple(self._notes)

    def _warn(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)
            logger.warning("warning: %s: %s", self._server, note)

    # -- the list of models

    @property
    @_once
    def cards(self) -> Cards:
        """The entries of /models by name; empty if the server has no such list."""
        cards = {str(card.get("id")): card for card in self._endpoint.models()}
        for model in (self._config.model, self._config.adapter_model):
            if cards and model is not None and model not in cards:
                raise BackboneError(unknown_model(self._endpoint.url, model, list(cards)))
        return cards

    @property
    def card(self) -> Mapping[str, Any]:
        """The model's entry; empty without one."""
        return self.cards.get(self._config.model, {})

    @property
    @_once
    def weights(self) -> dict[str, str]:
        """What distinguishes the model's weights from those of another one under the same name: `root`, the
        folder or hub name that the server has them from, and, if that folder is on this machine, the
        fingerprint of its `files`. Empty for a server that does not say."""
        root = self.card.get("root")
        if not isinstance(root, str):
            return {}
        folder = Path(root).expanduser()
        return {"root": root, **({"files": folder_fingerprint(folder)} if folder.is_dir() else {})}

    @property
    @_once
    def versions(self) -> dict[str, str]:
        """Of vLLM, and of the model's files if they are on this machine; empty if neither is known."""
        version = self._endpoint.version() if self.engine == "vllm" else ""
        files = self.weights.get("files")
        return {**({"vllm": version} if version else {}), **({"served model": files} if files else {})}

    @property
    def adapter_root(self) -> object:
        """Where the server loads the adapter from; None without one, or if not reported."""
        adapter = self._config.adapter_model
        return None if adapter is None else self.cards.get(adapter, {}).get("root")

    # -- the engine

    @property
    @_once
    def engine(self) -> object:
        """The engine behind the server: as it names itself, else the setting, else "vllm" if it returns token
        ids as vLLM does. Otherwise what its list says, or None, with a warning where that names nothing. At
        most one request, and none to OpenAI, for which the setting does not count."""
        owner, setting = self.card.get("owned_by"), self._config.engine
        if owner in ENGINES or is_openai(self._endpoint.url):
            return owner
        if setting != "auto":
            return owner if setting == "other" else setting
        if owner not in _UNNAMED:
            return owner
        if self._returns_token_ids():
            return "vllm"
        self._warn(_NO_ENGINE)
        return owner

    def _returns_token_ids(self) -> bool:
        """Whether the server returns the ids of a prompt as vLLM does, also behind Ray Serve LLM, which
        passes requests and replies on unchanged. Raises BackboneError if it serves no request."""
        body: dict[str, Any] = {
            "model": self._config.model,
            "messages": [{"role": "user", "content": "Hi"}],
            "max_tokens": 1,
            **self._config.extra_body,
            "return_token_ids": True,
        }
        try:
            (completion,) = self._endpoint.complete([lambda: body])
        except RequestRefused as refused:
            if refused.status in _UNKNOWN_FIELD:
                return False
            raise
        return bool(completion.prompt_token_ids)

    # -- the record and the budgets

    @property
    @_once
    def record(self) -> ServedRecord:
        """What this machine has of the model, with its adapter if there is one."""
        base = find_served(self.cards, self._config.model)
        if self._config.adapter_model is None:
            return base
        tuned = find_served(self.cards, self._config.adapter_model)
        # A server need not say whose adapter it is: the model that the settings name is the base.
        return replace(
            tuned,
            name=base.name,
            folder=base.folder,
            elsewhere=base.elsewhere,
            frames=tuned.frames or base.frames,
            pixels=tuned.pixels or base.pixels,
        )

    @property
    def budget(self) -> tuple[int, int]:
        """Frames a call and pixels a frame: the settings, else those of the model's own record, else the
        defaults with a warning. Without a request if the settings give both."""
        frames, pixels = self._config.frames, self._config.pixels
        return (frames, pixels) if frames and pixels else self._recorded_budget()

    @_once
    def _recorded_budget(self) -> tuple[int, int]:
        served, config = self.record, self._config
        try:
            frames, pixels, note = served.budget(config.frames, config.pixels, self._budget_settings)
        except BackboneError as error:
            raise BackboneError(f"{self._server}: {error}") from None
        if note:
            self._warn(note)
        return frames, pixels

    def compare_budget(self) -> None:
        """Warn about the adapter's base, and about settings that differ from the model's training record, if
        it is here."""
        config, served = self._config, self.record
        adapter = config.adapter_model
        who = f"model {config.model!r}" if adapter is None else f"adapter {adapter!r}"
        for note in (*served.base_notes, *budget_notes(who, served.record, vars(config))):
            self._warn(note)

    # -- the form of a video

    @property
    @_once
    def video_form(self) -> Form:
        """How frames are sent: see `ServerBackbone`."""
        form: Form
        if self._config.video == "auto":
            form, reason = self._accepted_form()
            if form == "frames" and self.engine == "vllm":
                self._warn(f"{_AS_PICTURES}: {reason}")
            else:
                logger.info("%s: frames are sent as %s. %s", self._server, form, reason)
        else:
            form = self._config.video
        if form == "video":
            self._compare_prompts()
        return form

    @property
    def video_marks(self) -> VideoMarks | None:
        """What the engine makes of a video; None: it is sent none, or that cannot be compared."""
        return self._compare_prompts() if self.video_form == "video" else None

    def require_video(self) -> None:
        """Raise BackboneError if a video was asked for and the server takes none, before a run begins."""
        if self._config.video == "video" and "video_form" not in self._answers:
            form, reason = self._accepted_form()
            if form == "frames" and reason != _TIMES_LOST:
                raise BackboneError(f"{self._server} takes no video, but video=video requires one: {reason}")

    def _accepted_form(self) -> tuple[Form, str]:
        """Sends a blank video twice, with different start times: if the server keeps times, the two prompts
        differ in length. Returns the form, and why it is not a video (empty if it is).

        It has as many frames as a call may have, so that a server's own limit on frames is detected. Refusals
        that are not about the video reach the caller.
        """
        frames, pixels = self.budget
        blank = jpeg(np.full((128, 128, 3), 127, dtype=np.uint8), pixels)
        count = max(2, frames)
        videos = [
            EncodedFrames((blank,) * count, tuple(float(start + second) for second in range(count)))
            for start in _STARTS
        ]
        fields = {"max_tokens": 1, "temperature": 0.0}
        try:
            # One after the other: a server that refuses the first one is not sent the second.
            asked = (functools.partial(user_message, video, "Reply with A.", True) for video in videos)
            (near,), (far,) = (self._probe([(message, fields)]) for message in asked)
        except RequestRefused as refused:
            if refused.status in _UNKNOWN_VIDEO:
                return "frames", str(refused)
            raise
        if prompt_tokens(near, self._server) == prompt_tokens(far, self._server):
            return "frames", _TIMES_LOST
        return "video", ""

    @_once
    def _compare_prompts(self) -> VideoMarks | None:
        """The marks in the engine's prompt of a video, where it can be compared with ours. Warns if it is
        another."""
        folder = self.record.folder
        if self.engine != "vllm" or folder is None:
            return None
        frames, pixels = self.budget
        count = min(max(2, frames), _MOST_COMPARED)
        try:
            own, decode = own_prompts(folder, count, pixels)
        except BackboneError as error:
            # The engine has its own files, so the run can continue.
            self._warn(f"the engine's prompt was not compared with the local one: {error}")
            return None
        shown = encode_frames(
            video_frames(count, lambda height, width, _: sent_size(height, width, pixels)), pixels
        )
        fields = {"max_tokens": 1, "temperature": 0.0, "return_token_ids": True}
        (completion,) = self._probe([(functools.partial(user_message, shown, TEXT, True), fields)])
        if completion.prompt_token_ids is None:
            logger.info("%s does not return prompt token ids, so prompts were not compared", self._server)
            return None
        ids = completion.prompt_token_ids
        wanted = self._config.video_marks or self.record.record.video_marks or "published"
        # Where the template has no marks around a video, both forms are the same.
        marks = wanted if ids == own[wanted] else next((form for form in own if ids == own[form]), None)
        if marks is None:
            differs = difference(ids, own[wanted], decode)
            self._warn(f"the engine's prompt differs from the local one: {differs}")
        elif marks != wanted:
            self._warn(
                f"the marks around a video are {marks}, not {wanted}; start vLLM with another "
                f"--chat-template, or confirm them with --backbone video_marks={marks}"
            )
        return marks


# ---- what this machine has of a served model ---------------------------------------------------------------


@dataclass(frozen=True)
class ServedRecord:
    """What this machine has of a served model. Without its files, that is its name only."""

    name: str
    folder: Path | None = None
    """The checkpoint, or the checkpoint of an adapter's base."""
    frames: int | None = None
    """Frames a call and pixels a frame for which it was made; None: nothing here says so."""
    pixels: int | None = None
    planner: PlannerRecord | None = None
    """What it records of itself as a planner; None: it is not one, or nothing here says so."""
    elsewhere: str = ""
    """The folder of the server's machine that holds its files, if it is not here."""
    record: ModelRecord = field(default_factory=ModelRecord)
    """What its folder, or its adapter's, records of its training; empty: nothing here says so."""
    base_notes: tuple[str, ...] = ()
    """What the user has to know of an adapter's base."""

    def budget(self, frames: int | None, pixels: int | None, settings: str) -> tuple[int, int, str]:
        """The frames a call and the pixels a frame, and a note for the user where they are a guess. `frames`
        and `pixels` are the user's (None: unset), and `settings` says how to give them.

        Raises BackboneError for a model whose files are elsewhere: it may have been made for other ones.
        """
        frames, pixels = frames or self.frames, pixels or self.pixels
        if frames and pixels:
            return frames, pixels, ""
        if self.elsewhere:
            raise BackboneError(
                f"the server loads {self.name!r} from {self.elsewhere}, which is not on this machine, so its "
                f"training frames and pixels are unknown; set {settings} (as in its {MODEL_RECORD})"
            )
        frames, pixels = frames or DEFAULT_FRAMES, pixels or DEFAULT_PIXELS
        note = (
            f"frames and pixels of {self.name!r} are unknown; it gets {frames} frames of {pixels:,} pixels "
            f"each. If it needs others, set {settings}"
        )
        return frames, pixels, note


def find_served(cards: Cards, name: str) -> ServedRecord:
    """The record of the model that a server lists as `name`. Raises ConfigError for a broken
    `videopro.json`."""
    card = cards.get(name, {})
    parent = card.get("parent")
    if parent is None:
        # Only a hub name or a folder has a root; servers that say nothing have no card, or none with it.
        return _find_checkpoint(name, card.get("root"))
    base_root = cards.get(str(parent), {}).get("root")
    base = _find_checkpoint(str(parent), base_root)
    folder = _adapter_folder(name, card.get("root"))
    if folder is None:
        # The base's budgets may not be the adapter's.
        return ServedRecord(name, base.folder, elsewhere=str(card.get("root") or "another machine"))
    record = read_model_record(folder)
    planner = None if record.planner is None else replace(record.planner, base="", weights="")
    notes: Iterable[str] = ()
    if base.folder is not None:
        source = base_root if isinstance(base_root, str) else str(base.folder)
        now = BaseRecord(lasting_name(source), folder_fingerprint(base.folder))
        notes = base_notes(f"adapter {name!r}", record, lambda: now)
    return ServedRecord(
        name,
        base.folder,
        record.frames or base.frames,
        record.pixels or base.pixels,
        planner,
        record=record,
        base_notes=tuple(notes),
    )


def _find_checkpoint(name: str, root: object) -> ServedRecord:
    folder = folder_here(root) if isinstance(root, str) else None
    if folder is None and name in tuple(MODELS):
        # Wherever the server has it from, a plug-in's name stands for the same model here.
        folder = MODELS[name].folder()
    if folder is None:
        is_path = isinstance(root, str) and (root.startswith(("/", ".", "~")) or root.count("/") != 1)
        return ServedRecord(name, elsewhere=str(root) if is_path and root != name else "")
    record = read_model_record(folder)
    frames, pixels = record.frames or DEFAULT_FRAMES, record.pixels or DEFAULT_PIXELS
    return ServedRecord(name, folder, frames, pixels, record.planner, record=record)


def _adapter_folder(name: str, root: object) -> Path | None:
    if isinstance(root, str) and (Path(root).expanduser() / "adapter_config.json").is_file():
        return Path(root).expanduser()
    return next((own.adapter(name) for own in MODELS.working() if name in own.adapters), None)
