"""What happens between two steps of replies: single passes are served, and more replies join."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.fake_backbone import FakeBackbone
from tests.support.qwen_models import backbone, pictures
from videopro.backbones.base import GenerateRequest, Generation, Joining, Prefix, Sampling
from videopro.backbones.qwen.static_batch import StaticBatch
from videopro.backbones.wrappers import BatchingBackbone
from videopro.errors import BackboneError
from videopro.question import Question
from videopro.video import Frame

COLOURS = Question("What colour is the ring?", ("green", "red", "blue"))
LONG = Sampling(40)


@pytest.fixture(scope="module")
def shown() -> Iterator[Prefix]:
    with backbone("qwen3_vl").prefix(pictures(3)) as prefix:
        yield prefix


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


class Held:
    """Replies that stop at their third step until others wait beside them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, batching: BatchingBackbone) -> None:
        self._queue: Any = batching._line._queue
        self._line = batching._line
        self.steps = 0
        self.begun, self.waiting = threading.Event(), 0
        step = StaticBatch.step

        def held(batch: StaticBatch) -> None:
            self.steps += 1
            if self.steps == 3:
                self.begun.set()
                until(lambda: len(self._line._queue) >= self.waiting)
            step(batch)

        monkeypatch.setattr(StaticBatch, "step", held)


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(6000):
        if is_so():
            return
        time.sleep(0.005)
    raise AssertionError("it never came")


def test_a_letter_is_answered_while_a_reply_is_written(
    shown: Prefix, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = backbone("qwen3_vl")
    expected = alone.answer(shown, COLOURS), alone.generate(shown, "Which?", LONG)
    batching = BatchingBackbone(alone, adapter=None)
    held = Held(monkeypatch, batching)
    held.waiting = 1
    reply: Future[Generation] = pool.submit(batching.generate, shown, "Which?", LONG)
    held.begun.wait(30)
    letter = pool.submit(batching.answer, shown, COLOURS)
    letter.add_done_callback(lambda _: at.append(held.steps))
    at: list[int] = []
    assert reply.result(60).token_ids == expected[1].token_ids
    assert letter.result(60).letter == expected[0].letter
    assert letter.result(60).confidence == pytest.approx(expected[0].confidence, abs=1e-5)
    # It had its answer a few steps after it asked; the reply went on for long.
    assert len(expected[1].token_ids) > 20
    assert at[0] < 15


def test_replies_join_those_that_are_being_written(
    shown: Prefix, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = backbone("qwen3_vl")
    other = alone.prefix(pictures(4, seed=5))
    asked = [(shown, "Which?"), (other, "How many rings are there?"), (shown, "What colour is the ring?")]
    expected = [alone.generate(prefix, text, LONG) for prefix, text in asked]
    batching = BatchingBackbone(alone, adapter=None)
    held = Held(monkeypatch, batching)
    held.waiting = 2
    first = pool.submit(batching.generate, *asked[0], LONG)
    held.begun.wait(30)
    later = [pool.submit(batching.generate, *pair, LONG) for pair in asked[1:]]
    written = [future.result(60) for future in (first, *later)]
    for one, own in zip(written, expected, strict=True):
        assert one.token_ids == own.token_ids
        assert one.logprobs == pytest.approx(own.logprobs, abs=1e-4)
        assert one.tokens_in == own.tokens_in
    assert (batching.requests, batching.batches) == (3, 1)
    other.close()


def test_one_that_joins_and_cannot_be_written_fails_alone(
    shown: Prefix, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = backbone("qwen3_vl")
    expected = alone.generate(shown, "Which?", LONG)
    closed = alone.prefix(pictures(2, seed=8))
    closed.close()
    batching = BatchingBackbone(alone, adapter=None)
    held = Held(monkeypatch, batching)
    held.waiting = 1
    first = pool.submit(batching.generate, shown, "Which?", LONG)
    held.begun.wait(30)
    bad = pool.submit(batching.generate, closed, "Which?", LONG)
    with pytest.raises(BackboneError, match="closed"):
        bad.result(60)
    assert first.result(60).token_ids == expected.token_ids


def test_more_requests_than_are_written_at_once_follow_each_other(shown: Prefix) -> None:
    alone = backbone("qwen3_vl")
    texts = [f"Which of {number}?" for number in range(11)]  # its batches have 8 rows
    written = alone.generate_batch([GenerateRequest(shown, text) for text in texts], Sampling(9))
    for text, reply in zip(texts, written, strict=True):
        assert reply.token_ids == alone.generate(shown, text, Sampling(9)).token_ids


class PausingBackbone(FakeBackbone):
    """Pauses before a reply until another request waits, and notes how the adapter is set for each prefix."""

    def __init__(self) -> None:
        super().__init__()
        self.writing, self.is_asked = threading.Event(), threading.Event()
        self.prefixed: list[tuple[bool, bool]] = []
        """Of each prefix whether the adapter was on, and whether a reply was being written."""

    def generate_joining(
        self, requests: Sequence[GenerateRequest], sampling: Sampling, joining: Joining
    ) -> None:
        self.writing.set()
        assert self.is_asked.wait(30)
        joining.pause()
        self.writing.clear()
        for number, reply in enumerate(self.generate_batch(requests, sampling)):
            joining.done(number, reply)

    def prefix(self, frames: Sequence[Frame], *, system: str = "") -> Prefix:
        self.prefixed.append((self.adapted, self.writing.is_set()))
        return super().prefix(frames, system=system)


@pytest.mark.parametrize(("replies", "wanted"), [(False, None), (False, True), (None, False), (None, None)])
def test_a_prefix_is_made_with_its_own_adapter_while_a_reply_is_written(
    pool: ThreadPoolExecutor, replies: bool | None, wanted: bool | None
) -> None:
    """A planner's prefix takes the adapter as it is, and answers inside programs are written without it."""
    inner = PausingBackbone()
    batching = BatchingBackbone(inner, adapter=replies)
    reply = pool.submit(batching.generate, [], "What is it?", LONG)
    assert inner.writing.wait(30)
    prefix = pool.submit(batching.with_adapter(wanted).prefix, [])
    until(lambda: len(batching._line._queue) == 1)
    inner.is_asked.set()
    reply.result(30)
    prefix.result(30)
    must_wait = wanted is None and replies is not None
    assert inner.prefixed == [(wanted is not False, not must_wait)]
