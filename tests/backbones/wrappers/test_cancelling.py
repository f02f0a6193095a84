"""A caller that is gone: its requests leave the line, its replies leave the batch, and the others go on as if
it had never been there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cancelling import SOON, CancelledWork, until
from tests.support.modules_world import CHOICES, ReadingBackbone, video
from tests.support.qwen_models import backbone, pictures
from videopro.backbones.base import GenerateRequest, Prefix, Sampling
from videopro.backbones.qwen.static_batch import StaticBatch
from videopro.backbones.wrappers import BatchingBackbone
from videopro.question import Question

LONG = Sampling(40)
TEXTS = ("Which?", "How many rings are there?", "What colour is the ring?")


@pytest.fixture(scope="module")
def shown() -> Iterator[Prefix]:
    with backbone("qwen3_vl").prefix(pictures(3)) as prefix:
        yield prefix


class Steps:
    """The steps of static batches; before the one of number `at`, `then` is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        self.at, self.then = -1, lambda: None
        step = StaticBatch.step

        def counted(batch: StaticBatch) -> None:
            self.rows.append(batch.layout.rows)
            if len(self.rows) == self.at:
                self.then()
            step(batch)

        monkeypatch.setattr(StaticBatch, "step", counted)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


@pytest.mark.parametrize("gone", [0, 1], ids=["the one that serves", "another"])
def test_a_reply_leaves_the_batch_and_the_others_are_written_to_their_end(
    gone: int, shown: Prefix, steps: Steps
) -> None:
    alone = backbone("qwen3_vl")
    expected = [alone.generate(shown, text, LONG) for text in TEXTS]
    assert all(len(reply.token_ids) > 20 for reply in expected)
    steps.rows.clear()
    batching = BatchingBackbone(alone, adapter=None)
    work: list[CancelledWork] = []
    begun = threading.Event()

    def join() -> None:
        begun.set()
        until(lambda: len(batching._line._queue) == 2)

    def start(text: str) -> None:
        work.append(CancelledWork(lambda: batching.generate(shown, text, LONG)))

    steps.at, steps.then = 2, join
    start(TEXTS[0])
    assert begun.wait(SOON)
    steps.at, steps.then = 5, lambda: work[gone].cancellation.cancel()
    for text in TEXTS[1:]:
        start(text)
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
    is_shared: bool, is_prefix: bool, shown: Prefix, steps: Steps
) -> None:
    alone = backbone("qwen3_vl")
    asked: Any = BatchingBackbone(alone, adapter=None) if is_shared else alone
    begun = threading.Event()
    steps.at, steps.then = 3, begun.set
    visual = shown if is_prefix else pictures(3)
    work = CancelledWork(lambda: asked.generate(visual, TEXTS[0], Sampling(500)))
    assert begun.wait(SOON)
    work.cancel()
    written = len(steps.rows)
    # The model is free again, and writes the same as ever.
    assert asked.generate(shown, TEXTS[0], LONG).token_ids == alone.generate(shown, TEXTS[0], LONG).token_ids
    assert written < 400


def test_one_of_several_requests_for_frames_leaves_and_the_others_are_written(steps: Steps) -> None:
    # Of a model with recurrent layers, whose rows are never joined.
    alone = backbone("qwen3_5")
    asked = [GenerateRequest(pictures(2, seed=seed), TEXTS[0]) for seed in (1, 2)]
    expected = alone.generate_batch(asked, LONG)
    batching = BatchingBackbone(alone, adapter=None)
    run: Any = alone._runner
    step, begun, go_on = run._step, threading.Event(), threading.Event()

    def held(*args: Any) -> Any:
        begun.set()
        assert go_on.wait(SOON)
        return step(*args)

    with batching._line.serving():
        first = CancelledWork(lambda: batching.generate_batch(asked[:1], LONG))
        until(lambda: len(batching._line._queue) == 1)
        second = CancelledWork(lambda: batching.generate_batch(asked[1:], LONG))
        until(lambda: len(batching._line._queue) == 2)
        run._step = held
    try:
        assert begun.wait(SOON)
        second.cancellation.cancel()
        go_on.set()
        first.join()
    finally:
        run._step = step
    second.cancel()
    assert first.result[0].token_ids == expected[0].token_ids


def test_a_caller_leaves_the_line_while_another_is_served() -> None:
    inner = ReadingBackbone()
    batching = BatchingBackbone(inner)
    question = Question("Which?", CHOICES)
    frames = [video().frames([time]) for time in (1.0, 2.0)]
    with batching._line.serving():
        # Of the same kind, about other pictures.
        stays = CancelledWork(lambda: batching.answer(frames[0], question))
        until(lambda: len(batching._line._queue) == 1)
        gone = CancelledWork(lambda: batching.answer(frames[1], question))
        until(lambda: len(batching._line._queue) == 2)
        gone.cancel()
        assert len(batching._line._queue) == 1
    stays.join()
    assert stays.error is None
    assert len(inner.asked) == 1
