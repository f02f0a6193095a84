"""What happens between two steps of replies: single passes are served, more replies join, and those of gone
callers leave, while the others go on as if these had never been there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.cancelling import SOON, CancelledWork, until
from tests.support.fake_backbone import FakeBackbone
from tests.support.numbered import CHOICES, ReadingBackbone, video
from tests.support.qwen_models import backbone, pictures
from videopro.backbones.base import GenerateRequest, Generation, Joining, Prefix, Sampling
from videopro.backbones.qwen import QwenBackbone
from videopro.backbones.qwen.static_batch import StaticBatch
from videopro.backbones.wrappers import BatchingBackbone
from videopro.errors import BackboneError
from videopro.question import Question
from videopro.video import Frame

COLOURS = Question("What colour is the ring?", ("green", "red", "blue"))
LONG = Sampling(40)
TEXTS = ("Which?", "How many rings are there?", "What colour is the ring?")


@pytest.fixture(scope="module")
def alone() -> QwenBackbone:
    return backbone("qwen3_vl")


@pytest.fixture(scope="module")
def shown(alone: QwenBackbone) -> Iterator[Prefix]:
    with alone.prefix(pictures(3)) as prefix:
        yield prefix


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


@pytest.fixture
def batching(alone: QwenBackbone) -> BatchingBackbone:
    return BatchingBackbone(alone, adapter=None)


def waits(batching: BatchingBackbone, count: int) -> None:
    """Until so many requests are in the line."""
    until(lambda: len(batching._line._queue) >= count)


class Steps:
    """The rows of each step of static batches; `before` says what is done before steps, by their numbers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        self.before: dict[int, Callable[[], object]] = {}
        step = StaticBatch.step

        def counted(batch: StaticBatch) -> None:
            self.rows.append(batch.layout.rows)
            self.before.get(len(self.rows), lambda: None)()
            step(batch)

        monkeypatch.setattr(StaticBatch, "step", counted)

    def hold(self, batching: BatchingBackbone, count: int) -> threading.Event:
        """Before the third step, wait until so many requests are in the line. Returns what is set there."""
        self.rows.clear()
        begun = threading.Event()
        self.before[3] = lambda: (begun.set(), waits(batching, count))
        return begun


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


def test_a_letter_is_answered_while_a_reply_is_written(
    alone: QwenBackbone, batching: BatchingBackbone, shown: Prefix, pool: ThreadPoolExecutor, steps: Steps
) -> None:
    expected = alone.answer(shown, COLOURS), alone.generate(shown, "Which?", LONG)
    begun = steps.hold(batching, 1)
    reply: Future[Generation] = pool.submit(batching.generate, shown, "Which?", LONG)
    assert begun.wait(SOON)
    at: list[int] = []
    letter = pool.submit(batching.answer, shown, COLOURS)
    letter.add_done_callback(lambda _: at.append(len(steps.rows)))
    assert reply.result(60).token_ids == expected[1].token_ids
    assert letter.result(60).letter == expected[0].letter
    assert letter.result(60).confidence == pytest.approx(expected[0].confidence, abs=1e-5)
    # It had its answer a few steps after it asked; the reply went on for long.
    assert len(expected[1].token_ids) > 20
    assert at[0] < 15


def test_replies_join_those_that_are_being_written(
    alone: QwenBackbone, batching: BatchingBackbone, shown: Prefix, pool: ThreadPoolExecutor, steps: Steps
) -> None:
    with alone.prefix(pictures(4, seed=5)) as other:
        asked = list(zip((shown, other, shown), TEXTS, strict=True))
        expected = [alone.generate(prefix, text, LONG) for prefix, text in asked]
        begun = steps.hold(batching, 2)
        first = pool.submit(batching.generate, *asked[0], LONG)
        assert begun.wait(SOON)
        later = [pool.submit(batching.generate, *pair, LONG) for pair in asked[1:]]
        written = [future.result(60) for future in (first, *later)]
    for one, own in zip(written, expected, strict=True):
        assert one.token_ids == own.token_ids
        assert one.logprobs == pytest.approx(own.logprobs, abs=1e-4)
        assert one.tokens_in == own.tokens_in
    assert (batching.requests, batching.batches) == (3, 1)


def test_one_that_joins_and_cannot_be_written_fails_alone(
    alone: QwenBackbone, batching: BatchingBackbone, shown: Prefix, pool: ThreadPoolExecutor, steps: Steps
) -> None:
    expected = alone.generate(shown, "Which?", LONG)
    closed = alone.prefix(pictures(2, seed=8))
    closed.close()
    begun = steps.hold(batching, 1)
    first = pool.submit(batching.generate, shown, "Which?", LONG)
    assert begun.wait(SOON)
    with pytest.raises(BackboneError, match="closed"):
        pool.submit(batching.generate, closed, "Which?", LONG).result(60)
    assert first.result(60).token_ids == expected.token_ids


def test_more_requests_than_are_written_at_once_follow_each_other(alone: QwenBackbone, shown: Prefix) -> None:
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
    waits(batching, 1)
    inner.is_asked.set()
    reply.result(30)
    prefix.result(30)
    must_wait = wanted is None and replies is not None
    assert inner.prefixed == [(wanted is not False, not must_wait)]


# ---- callers that are gone ---------------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [0, 1], ids=["the one that serves", "another"])
def test_a_reply_leaves_the_batch_and_the_others_are_written_to_their_end(
    gone: int, alone: QwenBackbone, batching: BatchingBackbone, shown: Prefix, steps: Steps
) -> None:
    expected = [alone.generate(shown, text, LONG) for text in TEXTS]
    assert all(len(reply.token_ids) > 20 for reply in expected)
    begun = steps.hold(batching, 2)
    work: list[CancelledWork] = []
    steps.before[5] = lambda: work[gone].cancellation.cancel()
    for text in TEXTS:
        work.append(CancelledWork(lambda text=text: batching.generate(shown, text, LONG)))  # type: ignore[misc]
        assert begun.wait(SOON)
    for each in work:
        each.join()
    work[gone].cancel()
    for number, (one, reply) in enumerate(zip(work, expected, strict=True)):
        if number != gone:
            assert one.result.token_ids == reply.token_ids
            assert one.result.logprobs == pytest.approx(reply.logprobs, abs=1e-4)
    # Three rows, and then two; the one that began first ends first.
    assert steps.rows[4] == 3
    assert set(steps.rows[6:]) <= {1, 2}


@pytest.mark.parametrize("is_prefix", [True, False], ids=["a prefix", "frames"])
@pytest.mark.parametrize("is_shared", [True, False], ids=["in the line", "without a line"])
def test_a_reply_that_nobody_else_waits_for_is_not_written_on(
    is_shared: bool,
    is_prefix: bool,
    alone: QwenBackbone,
    batching: BatchingBackbone,
    shown: Prefix,
    steps: Steps,
) -> None:
    asked: Any = batching if is_shared else alone
    begun = steps.hold(batching, 0)
    visual = shown if is_prefix else pictures(3)
    work = CancelledWork(lambda: asked.generate(visual, TEXTS[0], Sampling(500)))
    assert begun.wait(SOON)
    work.cancel()
    written = len(steps.rows)
    # The model is free again, and writes the same as ever.
    assert asked.generate(shown, TEXTS[0], LONG).token_ids == alone.generate(shown, TEXTS[0], LONG).token_ids
    assert written < 400


def test_a_caller_leaves_the_line_while_another_is_served() -> None:
    inner = ReadingBackbone()
    batching = BatchingBackbone(inner)
    question = Question("Which?", CHOICES)
    frames = [video().frames([time]) for time in (1.0, 2.0)]
    with batching._line.serving():
        # Of the same kind, about other pictures.
        stays = CancelledWork(lambda: batching.answer(frames[0], question))
        waits(batching, 1)
        gone = CancelledWork(lambda: batching.answer(frames[1], question))
        waits(batching, 2)
        gone.cancel()
        assert len(batching._line._queue) == 1
    stays.join()
    assert stays.error is None
    assert len(inner.asked) == 1
