"""A `Backbone` without a model, whose answers a test knows in advance.

A subclass says how it answers (`choose`, `say`, `write`); everything else, such as prefixes, the adapter and
what is recorded of each call, is the same for all.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from videopro.backbones.base import (
    GREEDY,
    YES_NO,
    Backbone,
    ChoiceRequest,
    GenerateRequest,
    Generation,
    Prefix,
    Sampling,
    Visual,
    YesNoRequest,
)
from videopro.errors import BackboneError
from videopro.question import Answer
from videopro.video import Frame


class FakePrefix(Prefix):
    """Holds frames."""

    def __init__(self, frames: Sequence[Frame], system: str = "") -> None:
        self.frames = tuple(frames)
        self.system = system
        self.tokens = len(frames)
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True


def visual_frames(visual: Visual) -> Sequence[Frame]:
    """The frames of a request's visual; none for text only."""
    return visual.frames if isinstance(visual, Prefix) else (visual or ())


def confident_answer(
    reply: str, confidence: float, replies: Sequence[str], *, other: float = 0.01, tokens_in: int = 10
) -> Answer:
    """The answer `reply` with this probability, each of the other `replies` with `other`."""
    letters = {letter: confidence if letter == reply else other for letter in replies}
    return Answer(reply, confidence, letters, reply, tokens_in, 1)


def unparsed(replies: Sequence[str]) -> Answer:
    """A reply that is not one of `replies`."""
    return Answer(None, 0.0, dict.fromkeys(replies, 0.01), "Hmm", 10, 1)


class FakeBackbone(Backbone):
    """Serves any request, with an adapter that is on from the start.

    The text of a multiple-choice or yes-or-no question can make it misbehave: "(refuse)" raises
    BackboneError, "(bug)" raises ZeroDivisionError, "(kill)" kills the process, "(hang)" gets no answer for
    ten minutes, and "(mumble)" gets a reply that is not a letter, as does a question without frames. "(refuse
    to write)" in a prompt refuses a written reply.

    Parameters: `writes`, what it writes; `delay`, seconds for each request; `gone`, refuse every request;
    `is_concurrent`, serve several threads at a time.
    """

    logprob = -0.1
    """Log-probability of each written token, of which a word is one."""
    prompt_tokens = 200
    """Prompt tokens of each written reply."""

    def __init__(
        self,
        name: str = "fake",
        frames: int = 8,
        *,
        writes: Callable[[GenerateRequest], str] = lambda request: "grey",
        delay: float = 0.0,
        gone: bool = False,
        is_concurrent: bool = False,
    ) -> None:
        self.name, self.frames = name, frames
        self.is_concurrent = is_concurrent
        self.adapted = True
        """Whether the adapter is on."""
        self.prompts: list[str] = []
        """The text of each request."""
        self.shown: list[Sequence[Frame]] = []
        """The frames of each request."""
        self.batches: list[int] = []
        """The number of requests of each call."""
        self.asked: list[tuple[str, bool]] = []
        """The text of each question, and whether the adapter was on."""
        self.written: list[tuple[GenerateRequest, int, bool]] = []
        """Each request to write, its number of frames, and whether the adapter was on."""
        self.prefixes = 0
        """Prefixes made."""
        self._writes, self._delay, self._gone = writes, delay, gone
        self._adapter_lock = threading.RLock()

    # What a subclass changes

    def choose(self, request: ChoiceRequest, frames: Sequence[Frame]) -> Answer:
        """The answer to a multiple-choice question."""
        return confident_answer("A", 0.5, request.question.letters)

    def say(self, text: str, frames: Sequence[Frame]) -> Answer:
        """The answer to a yes-or-no question."""
        return confident_answer("Yes", 0.5, YES_NO)

    def write(self, request: GenerateRequest, frames: Sequence[Frame]) -> str:
        """The text of a written reply."""
        return self._writes(request)

    # The interface

    def identity(self) -> dict[str, object]:
        return {"model": self.name, "adapter": "lora" if self.adapted else None}

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        return None

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        def answer(request: ChoiceRequest) -> Answer:
            prompt, question = request.prompt or "", request.question
            frames = self._ask(request.visual, prompt, f"{question.text}\n{prompt}")
            if not frames or "(mumble)" in question.text:
                return unparsed(question.letters)
            return self.choose(request, frames)

        with self._serving(len(requests)):
            return [answer(request) for request in requests]

    def yes_no_batch(self, requests: Sequence[YesNoRequest]) -> list[Answer]:
        def answer(request: YesNoRequest) -> Answer:
            frames = self._ask(request.visual, request.text, request.text)
            return self.say(request.text, frames) if frames else unparsed(YES_NO)

        with self._serving(len(requests)):
            return [answer(request) for request in requests]

    def generate_batch(
        self, requests: Sequence[GenerateRequest], sampling: Sampling = GREEDY
    ) -> list[Generation]:
        def generation(request: GenerateRequest) -> Generation:
            if self._gone or "(refuse to write)" in request.text:
                raise BackboneError("cannot serve this request")
            frames = self._record(request.visual, request.text)
            self.written.append((request, len(frames), self.adapted))
            text = self.write(request, frames)
            count = len(text.split())
            return Generation(
                text,
                tuple(range(count)),
                (self.logprob,) * count,
                "length" if count > sampling.max_new_tokens else "stop",
                self.prompt_tokens,
                tokens=tuple(re.findall(r"\s*\S+", text)),
            )

        with self._serving(len(requests)):
            return [generation(request) for request in requests]

    def prefix(self, frames: Sequence[Frame], *, system: str = "") -> Prefix:
        self.prefixes += 1
        return FakePrefix(frames, system)

    @contextmanager
    def adapter(self, enabled: bool) -> Iterator[None]:
        # As QwenBackbone's: other threads wait until the block ends, so a block around a call that waits for
        # them is a deadlock here too.
        if not self._adapter_lock.acquire(timeout=20):
            raise AssertionError("an adapter block keeps this thread waiting for ever")
        before, self.adapted = self.adapted, enabled
        try:
            yield
        finally:
            self.adapted = before
            self._adapter_lock.release()

    def close(self) -> None:
        pass

    # Every request

    @contextmanager
    def _serving(self, count: int) -> Iterator[None]:
        """Around each call of `count` requests."""
        self.batches.append(count)
        yield

    def _ask(self, visual: Visual, text: str, orders: str) -> Sequence[Frame]:
        """Record a question, do what its `orders` say, and give its frames."""
        if self._gone or "(refuse)" in orders:
            raise BackboneError("cannot serve this request")
        if "(kill)" in orders:
            os.kill(os.getpid(), signal.SIGKILL)
        if "(hang)" in orders:
            time.sleep(600)
        if "(memory)" in orders:
            raise MemoryError("no room on purpose")
        if "(bug)" in orders:
            raise ZeroDivisionError("an internal error on purpose")
        self.asked.append((text, self.adapted))
        return self._record(visual, text)

    def _record(self, visual: Visual, text: str) -> Sequence[Frame]:
        time.sleep(self._delay)
        frames = visual_frames(visual)
        self.prompts.append(text)
        self.shown.append(frames)
        return frames
