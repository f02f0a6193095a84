"""What a server tells of itself and of its model: asked once, and kept for all calls.

Where something is missing there, such as a flag of the engine, the user is warned; the run's record has the
same words (`Backbone.notes`).
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from videopro.backbones.address import is_openai
from videopro.backbones.base import BackboneConfig
from videopro.backbones.model_record import older_notes
from videopro.backbones.server.engine import ENGINES, UNNAMED, is_vllm
from videopro.backbones.server.http import Endpoint, unknown_model
from videopro.backbones.server.messages import encode_frames, sent_size, user_message
from videopro.backbones.server.probe import TIMES_LOST, ProbeRequest, detect_video_form
from videopro.backbones.server.prompt_check import TEXT, difference, film_frames, has_processor, own_prompt
from videopro.backbones.server.served import Cards, ServedRecord, budget, find_served, served_weights
from videopro.errors import BackboneError

if TYPE_CHECKING:
    from videopro.backbones.server.completion import Completion

logger = logging.getLogger(__name__)

Send = Callable[[Sequence[ProbeRequest]], "list[Completion]"]
"""Sends requests to the model, adapter off, without retrying what the server does not support."""

# Frames of the prompt that is compared with ours; more would take gigabytes.
_MOST_COMPARED = 64
_NO_ENGINE = (
    "it does not say which engine it is, so it gets OpenAI's fields only: a top-k or penalty of the model's "
    "generation_config.json counts, thinking is not turned off, and prompts are not compared. If it is vLLM "
    "or SGLang, give --backbone engine=vllm or engine=sglang; engine=other hides this line"
)
_AS_PICTURES = (
    "frames are sent as pictures with their times, not as a video: about twice the visual tokens, and other "
    "answers (with the pocket model, to a third of the questions). --backbone video=frames asks for that, "
    "and video=video refuses to run so. The reason"
)


class ServerFacts:
    """The list of models, the budgets, and the form of a video. Thread-safe. Nothing is sent until one of
    them is needed; every method then raises BackboneError if the server cannot be asked.

    `budget_settings` says how the user gives frames and pixels, for messages.
    """

    def __init__(self, config: BackboneConfig, endpoint: Endpoint, budget_settings: str) -> None:
        self._config = config
        self._endpoint = endpoint
        self._server = f"server {endpoint.url}"
        self._budget_settings = budget_settings
        # The only lock here, taken before anything is asked: two locks could be taken in either order.
        self._lock = threading.RLock()
        self._cards: Cards | None = None
        self._engine: tuple[object] | None = None
        self._served: ServedRecord | None = None
        self._weights: dict[str, str] | None = None
        self._budget: tuple[int, int] | None = None
        self._form: Literal["video", "frames"] | None = None
        self._notes: list[str] = []

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user was warned of."""
        return tuple(self._notes)

    def _warn(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)
            logger.warning("warning: %s: %s", self._server, note)

    # -- the list of models

    def cards(self) -> Cards:
        """The entries of /models by name; empty if the server has no such list. Requested once."""
        with self._lock:
            if self._cards is None:
                cards = {str(card.get("id")): card for card in self._endpoint.models()}
                for model in (self._config.model, self._config.adapter_model):
                    if cards and model is not None and model not in cards:
                        raise BackboneError(unknown_model(self._endpoint.url, model, list(cards)))
                self._cards = cards
            return self._cards

    def card(self) -> Mapping[str, Any]:
        """The model's entry; empty without one."""
        return self.cards().get(self._config.model, {})

    def engine(self) -> object:
        """The engine behind the server: as it names itself, else the setting, else "vllm" if it returns token
        ids as vLLM does. Otherwise what its list says, or None, with a warning where that names nothing. At
        most one request, and none to OpenAI, for which the setting does not count."""
        with self._lock:
            if self._engine is None:
                self._engine = (self._found_engine(),)
            return self._engine[0]

    def _found_engine(self) -> object:
        named, given = self.card().get("owned_by"), self._config.engine
        if named in ENGINES or is_openai(self._endpoint.url):
            return named
        if given != "auto":
            return named if given == "other" else given
        if named not in UNNAMED:
            return named
        if is_vllm(self._endpoint, self._config):
            return "vllm"
        self._warn(_NO_ENGINE)
        return named

    @property
    def weights(self) -> dict[str, str]:
        """See `served_weights`."""
        with self._lock:
            if self._weights is None:
                self._weights = served_weights(self.cards(), self._config.model)
            return self._weights

    @property
    def adapter_root(self) -> object:
        """Where the server has the adapter from; None without one, or if it does not say."""
        adapter = self._config.adapter_model
        return None if adapter is None else self.cards().get(adapter, {}).get("root")

    @property
    def served(self) -> ServedRecord:
        """What is known here of the model, with its adapter if there is one."""
        with self._lock:
            if self._served is None:
                self._served = self._found_served()
            return self._served

    def _found_served(self) -> ServedRecord:
        base = find_served(self.cards(), self._config.model)
        if self._config.adapter_model is None:
            return base
        tuned = find_served(self.cards(), self._config.adapter_model)
        # As with a local adapter: its own record's, else the base's, as in runs of earlier versions.
        older: tuple[str, ...] = ()
        is_open = not (self._config.frames and self._config.pixels)
        if is_open and tuned.record.frames is None and tuned.frames and tuned.pixels:
            shown = base.frames or tuned.frames, base.pixels or tuned.pixels
            older = tuple(older_notes(f"adapter {tuned.name!r}", (tuned.frames, tuned.pixels), shown))
        return replace(
            base,
            frames=tuned.record.frames or base.frames or tuned.frames,
            pixels=tuned.record.pixels or base.pixels or tuned.pixels,
            planner=tuned.planner,
            record=tuned.record,
            base_notes=(*tuned.base_notes, *older),
        )

    @property
    def budget(self) -> tuple[int, int]:
        """Frames a call and pixels a frame: the settings, else those of the model's own record, else the
        defaults with a warning. Without a request if the settings give both."""
        frames, pixels = self._config.frames, self._config.pixels
        if frames and pixels:
            return frames, pixels
        with self._lock:
            if self._budget is None:
                served = self.served
                try:
                    frames, pixels, note = budget(served, frames, pixels, self._budget_settings)
                except BackboneError as error:
                    raise BackboneError(f"{self._server}: {error}") from None
                if note:
                    self._warn(note)
                self._budget = frames, pixels
            return self._budget

    def compare_budget(self) -> None:
        """Warn if the settings differ from what the model records of its training, if that is known here."""
        adapter = self._config.adapter_model
        who = f"model {self._config.model!r}" if adapter is None else f"adapter {adapter!r}"
        for note in self.served.notes(who, self._config.frames, self._config.pixels):
            self._warn(note)

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int]:
        """The (height, width) at which frames are sent: at most the budget's pixels, in multiples of 32,
        never enlarged."""
        return sent_size(height, width, self.budget[1])

    # -- the form of a video

    def video_form(self, send: Send) -> Literal["video", "frames"]:
        """How frames are sent. Found out once: see `ServerBackbone`."""
        with self._lock:
            if self._form is None:
                form = self._detected(send) if self._config.video == "auto" else self._config.video
                if form == "video":
                    self._compare_prompts(send)
                self._form = form
            return self._form

    def require_video(self, send: Send) -> None:
        """Raise BackboneError if a video was asked for and the server takes none, before a run begins."""
        if self._config.video == "video" and self._form is None:
            form, reason = detect_video_form(send, *self.budget, self._server)
            if form == "frames" and reason != TIMES_LOST:
                raise BackboneError(f"{self._server} takes no video, and video=video asks for one: {reason}")

    def _detected(self, send: Send) -> Literal["video", "frames"]:
        form, reason = detect_video_form(send, *self.budget, self._server)
        if form == "frames" and self.engine() == "vllm":
            self._warn(f"{_AS_PICTURES}: {reason}")
        else:
            logger.info("%s: frames are sent as %s. %s", self._server, form, reason)
        return form

    def _compare_prompts(self, send: Send) -> None:
        """Warn if the engine makes another prompt of a video than we do, where that can be known."""
        folder = self.served.folder
        if self.engine() != "vllm" or folder is None:
            return
        if not has_processor(folder):
            logger.info(
                "%s: %s has only some of the model's files: prompts were not compared", self._server, folder
            )
            return
        frames, pixels = self.budget
        count = min(max(2, frames), _MOST_COMPARED)
        encoded = encode_frames(film_frames(count, self.frame_size), pixels)
        fields = {"max_tokens": 1, "temperature": 0.0, "return_token_ids": True}
        (reply,) = send([(functools.partial(user_message, encoded, TEXT, True), fields)])
        if reply.prompt_token_ids is None:
            logger.info("%s does not return the ids of a prompt: they were not compared", self._server)
            return
        try:
            differs = difference(reply.prompt_token_ids, *own_prompt(folder, count, pixels))
        except BackboneError as error:
            # The engine has its own files, so the run can go on.
            self._warn(f"the engine's prompt was not compared with ours: {error}")
            return
        if differs:
            self._warn(f"the engine's prompt is not the one that this model has here: {differs}")
