"""A `Backbone` without a model, whose answers a test knows in advance; the worlds' backbones see with it.

It refuses, hangs, kills its process, fills the memory or mumbles as a question's text orders, and waits,
meets others, is gone, writes and is wrong as its options say (both: `FakeBackbone`). It records every request
(`prompts`, `shown`, `batches`, `asked`, `written`). A world's subclass says how it looks at frames: `choose`
for letters, `say` for yes or no.
"""

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

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
from videopro.errors import BackboneError, check_cancelled
from videopro.question import Answer
from videopro.video import Frame


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
    BackboneError, "(bug)" ZeroDivisionError, "(memory)" MemoryError; "(kill)" kills the process, "(fill)"
    takes memory until somebody does; "(hang)" gets no answer for ten minutes, "(slow)" none until `go_on` is
    set or the caller is gone (`begun` and `ended` tell); "(mumble)" gets a reply that is not a letter, as
    does a question without frames. "(refuse to write)" in a prompt refuses a written reply.

    Parameters: `writes`, what it writes; `before`, called with the requests of each call before they are
    served; `moods`, by marks in a question's text how many options beside its own choice it takes, and how
    sure it is, where it looks at as many frames as it can; `delay`, seconds for each request; `gone`, refuse
    every request; `is_concurrent`, serve several threads at a time; `logprob`, of each written token, of
    which a word is one; `size`, of the frames that it wants.
    """

    prompt_tokens = 200
    """Prompt tokens of each written reply."""

    def __init__(
        self,
        name: str = "fake",
        frames: int = 8,
        *,
        writes: Callable[[GenerateRequest], str] = lambda request: "grey",
        before: Callable[[Sequence[Any]], object] = lambda requests: None,
        moods: Mapping[str, tuple[int, float]] | None = None,
        delay: float = 0.0,
        gone: bool = False,
        is_concurrent: bool = False,
        logprob: float = -0.1,
        size: tuple[int, int] | None = None,
    ) -> None:
        self.name, self.frames, self.is_concurrent = name, frames, is_concurrent
        self.gone, self.logprob, self.before = gone, logprob, before
        self.adapted = True
        """Whether the adapter is on."""
        self.prompts: list[str] = []
        """The text of each request."""
        self.shown: list[Sequence[Frame]] = []
        """The frames of each request."""
        self.batches: list[int] = []
        """The number of requests of each call."""
        self.at_once = self.most_at_once = 0
        """The number of calls that are served at the same time."""
        self.asked: list[tuple[str, bool]] = []
        """The text of each question, and whether the adapter was on."""
        self.written: list[tuple[GenerateRequest, int, bool]] = []
        """Each request to write, its number of frames, and whether the adapter was on."""
        self.prefixes = 0
        """Prefixes made."""
        self.go_on, self.begun = threading.Event(), threading.Semaphore(0)
        self.ended: list[float] = []
        self._writes, self._delay, self._moods = writes, delay, moods or {}
        self._size = size
        self._adapter_lock, self._lock = threading.RLock(), threading.Lock()

    # What a subclass changes

    def choose(self, request: ChoiceRequest, frames: Sequence[Frame]) -> Answer:
        """The answer to a multiple-choice question."""
        return confident_answer("A", 0.5, request.question.letters)

    def say(self, text: str, frames: Sequence[Frame]) -> Answer:
        """The answer to a yes-or-no question."""
        return confident_answer("Yes", 0.5, YES_NO)

    # The interface

    def identity(self) -> dict[str, object]:
        return {"model": self.name, "adapter": "lora" if self.adapted else None}

    def frame_size(self, height: int, width: int, n_frames: int) -> tuple[int, int] | None:
        return self._size

    def answer_batch(self, requests: Sequence[ChoiceRequest]) -> list[Answer]:
        def answer(request: ChoiceRequest) -> Answer:
            prompt, question = request.prompt or "", request.question
            frames = self._ask(request.visual, prompt, f"{question.text}\n{prompt}")
            if not frames or "(mumble)" in question.text:
                return unparsed(question.letters)
            return self._in_its_mood(request, frames, self.choose(request, frames))

        with self._serving(requests):
            return [answer(request) for request in requests]

    def yes_no_batch(self, requests: Sequence[YesNoRequest]) -> list[Answer]:
        def answer(request: YesNoRequest) -> Answer:
            frames = self._ask(request.visual, request.text, request.text)
            return self.say(request.text, frames) if frames else unparsed(YES_NO)

        with self._serving(requests):
            return [answer(request) for request in requests]

    def generate_batch(
        self, requests: Sequence[GenerateRequest], sampling: Sampling = GREEDY
    ) -> list[Generation]:
        def generation(request: GenerateRequest) -> Generation:
            if self.gone or "(refuse to write)" in request.text:
                raise BackboneError("cannot serve this request")
            frames = self._record(request.visual, request.text)
            self.written.append((request, len(frames), self.adapted))
            text = self._writes(request)
            count = len(text.split())
            return Generation(
                text,
                tuple(range(count)),
                (self.logprob,) * count,
                "length" if count > sampling.max_new_tokens else "stop",
                self.prompt_tokens,
                tokens=tuple(re.findall(r"\s*\S+", text)),
            )

        with self._serving(requests):
            return [generation(request) for request in requests]

    def prefix(self, frames: Sequence[Frame], *, system: str = "") -> Prefix:
        self.prefixes += 1
        return Prefix(self, frames, frames, system=system, tokens=len(frames))

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
    def _serving(self, requests: Sequence[Any]) -> Iterator[None]:
        """Around each call."""
        with self._lock:
            self.batches.append(len(requests))
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            assert self.at_once == 1 or self.is_concurrent, "two calls at once"
            self.before(requests)
            yield
        finally:
            with self._lock:
                self.at_once -= 1

    def _in_its_mood(self, request: ChoiceRequest, frames: Sequence[Frame], answer: Answer) -> Answer:
        mood = next((mood for mark, mood in self._moods.items() if mark in request.question.text), None)
        if mood is None or answer.letter is None or len(frames) < self.frames:
            return answer
        letters = request.question.letters
        letter = letters[(letters.index(answer.letter) + mood[0]) % len(letters)]
        told = {**answer.letters, letter: mood[1]}
        return replace(answer, letter=letter, confidence=mood[1], raw=letter, letters=told)

    def _ask(self, visual: Visual, text: str, orders: str) -> Sequence[Frame]:
        """Record a question, do what its `orders` say, and give its frames."""
        if self.gone or "(refuse)" in orders:
            raise BackboneError("cannot serve this request")
        if "(kill)" in orders:
            os.kill(os.getpid(), signal.SIGKILL)
        if "(fill)" in orders:
            _fill_memory()
        if "(hang)" in orders:
            time.sleep(600)
        if "(memory)" in orders:
            raise MemoryError("no room on purpose")
        if "(bug)" in orders:
            raise ZeroDivisionError("an internal error on purpose")
        if "(slow)" in orders:
            self.begun.release()
            try:
                while not self.go_on.wait(0.01):
                    check_cancelled()
            finally:
                self.ended.append(time.monotonic())
        self.asked.append((text, self.adapted))
        return self._record(visual, text)

    def _record(self, visual: Visual, text: str) -> Sequence[Frame]:
        time.sleep(self._delay)
        frames = visual_frames(visual)
        self.prompts.append(text)
        self.shown.append(frames)
        return frames


def _fill_memory() -> None:
    """Until somebody minds; after 8 GiB the test has failed."""
    held: list[bytearray] = []
    while len(held) < 128:
        held.append(bytearray(b"x") * 2**26)
        time.sleep(0.05)
    raise AssertionError("took 8 GiB, and nobody minded")
