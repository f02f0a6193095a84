"""Captions of a video's frames or clips, which its questions share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from videopro.methods.agents import Session
from videopro.methods.program import derive_seed
from videopro.modules.calls import CallCache
from videopro.traces import Step

CAPTIONER = "captioner"


class Captions:
    """What the captioner says of a video. Thread-safe; each caption is made once in a process, by the first
    question that needs it, and counts as reused for the others."""

    def __init__(self, cache: CallCache[Step], video: str, captioner: dict[str, object], prompt: str) -> None:
        """`cache` is shared by all videos; `video` is the content id, `captioner` the model's identity."""
        self._cache = cache
        self._owner = (video, json.dumps(captioner, sort_keys=True, default=str), prompt)
        self._prompt = prompt

    def caption(self, session: Session, times: Sequence[float], round: int) -> str:
        """The caption of the frames at `times` (s), recorded as a step of the session. Raises BudgetSpent,
        BackboneError, VideoError."""
        moments = tuple(f"{time:.3f}" for time in times)

        def make() -> Step:
            # The same caption whichever question asks for it first.
            seed = derive_seed(session.seed, "caption", self._owner[0], *moments)
            session.tell(
                "caption",
                CAPTIONER,
                self._prompt,
                frames=session.frames(times, CAPTIONER),
                round=round,
                sampling=session.settings.sampling(seed),
            )
            return session.steps[-1]

        step, is_cached = self._cache.get((*self._owner, moments), make)
        if is_cached:
            session.reuse(replace(step, round=round))
        return " ".join(step.raw.split())
