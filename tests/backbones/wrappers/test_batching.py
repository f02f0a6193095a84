"""One backbone for many programs: batches form while it is busy, failures stay with their own, the adapter is
off. And what a metered backbone counts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.numbered import CHOICES, ReadingBackbone, video
from tests.support.stub_server import StubServer, completion, entry
from videopro.backbones import load_backbone
from videopro.backbones.base import ChoiceRequest, GenerateRequest, Sampling
from videopro.backbones.wrappers import BatchingBackbone, Meter, MeteredBackbone
from videopro.errors import BackboneError, ConfigError
from videopro.question import Answer, Question, prompts


def request(time: float, text: str = "Which?") -> ChoiceRequest:
    question = Question(text, CHOICES)
    return ChoiceRequest(video().frames([time]), question, prompts.multiple_choice(question))


def together(calls: list[Callable[[], Any]]) -> list[Any]:
    """What each call gives or raises, all started at once."""
    gate = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        gate.wait(20)
        try:
            return call()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls, timeout=60))


def answered(front: BatchingBackbone, asked: list[ChoiceRequest]) -> list[Any]:
    return together([lambda request=request: front.answer_batch([request])[0] for request in asked])  # type: ignore[misc]


def test_concurrent_calls_share_a_batch_and_get_their_own_answers() -> None:
    inner = ReadingBackbone(delay=0.05)
    front = BatchingBackbone(inner)
    # Decoded beforehand, so that the calls come at once.
    asked = [request(float(i)) for i in range(16)]
    answers = answered(front, asked)
    assert [answer.letter for answer in answers] == ["ABC"[4 * i % 3] for i in range(16)]
    assert sum(inner.batches) == front.requests == 16
    # The first goes alone or nearly so; those that came meanwhile share what follows.
    assert len(inner.batches) == front.batches <= 6
    assert max(inner.batches) >= 4
    assert {adapted for _, adapted in inner.asked} == {False}
    assert inner.adapted


def test_a_batch_has_a_bound() -> None:
    inner = ReadingBackbone(delay=0.02)
    front = BatchingBackbone(inner, max_batch=3)
    asked = [request(float(i)) for i in range(8)]
    answered(front, asked)
    assert max(inner.batches) <= 3
    assert len(front.answer_batch(asked)) == 8
    assert inner.batches[-1] == 8


@pytest.mark.parametrize(("order", "kind"), [("(refuse)", BackboneError), ("(bug)", ZeroDivisionError)])
def test_a_request_that_fails_does_not_fail_the_others(order: str, kind: type[Exception]) -> None:
    inner = ReadingBackbone(delay=0.05)
    front = BatchingBackbone(inner)
    asked = [request(float(i), order if i == 5 else "Which?") for i in range(10)]
    results = answered(front, asked)
    assert [i for i, result in enumerate(results) if isinstance(result, kind)] == [5]
    assert all(isinstance(result, Answer) for i, result in enumerate(results) if i != 5)
    # Its traceback tells of itself alone, whether it was in a batch before or not.
    assert results[5].__context__ is None
    # It reaches one that is alone too, and leaves the front usable.
    with pytest.raises(kind):
        front.answer_batch([request(1.0, order)])
    assert front.answer_batch([request(1.0)])[0].letter == "B"
    assert front.answer_batch([]) == []


def test_different_kinds_of_call_do_not_mix() -> None:
    inner = ReadingBackbone(delay=0.03)
    front = BatchingBackbone(inner)
    frames = video().frames([10.0])
    calls: list[Callable[[], Any]] = []
    for _ in range(4):
        calls.append(lambda: front.answer_batch([request(10.0)])[0].letter)
        calls.append(lambda: front.yes_no(frames, "Is 40 shown?").letter)
        calls.append(lambda: front.generate(frames, "What?", Sampling(8)).text)
        calls.append(lambda: front.generate(frames, "What?", Sampling(9)).text)
    assert together(calls) == ["B", "Yes", "40", "40"] * 4


def test_sampling_is_not_batched_unless_each_request_has_its_seed() -> None:
    inner = ReadingBackbone(delay=0.03)
    front = BatchingBackbone(inner)
    frames = video().frames([10.0])
    together([lambda: front.generate(frames, "What?", Sampling(temperature=0.7, seed=3))] * 5)
    assert inner.batches == [1] * 5
    # With a seed of its own a request draws the same in any company.
    seeded = [GenerateRequest(frames, "What?", seed=i) for i in range(8)]
    together(
        [
            lambda request=request: front.generate_batch([request], Sampling(temperature=0.7))
            for request in seeded
        ]  # type: ignore[misc]
    )
    assert sum(inner.batches) == 13
    assert max(inner.batches) > 1


def test_the_adapter_is_a_setting_and_part_of_the_identity() -> None:
    inner = ReadingBackbone()
    assert BatchingBackbone(inner).identity()["adapter"] is None
    assert BatchingBackbone(inner, adapter=None).identity()["adapter"] == "lora"
    BatchingBackbone(inner, adapter=True).answer_batch([request(1.0)])
    assert [adapted for _, adapted in inner.asked] == [True]
    with pytest.raises(BackboneError, match="one adapter setting"), BatchingBackbone(inner).adapter(True):
        pass
    with pytest.raises(ConfigError, match="max_batch is 0"):
        BatchingBackbone(inner, max_batch=0)


def test_tokens_of_a_server_that_lists_no_ids_count() -> None:
    words = [entry(word, -0.1) for word in ("a", " red", " cup")]
    with StubServer(lambda body: completion("a red cup", words)) as stub:
        meter = Meter()
        backbone = MeteredBackbone(load_backbone(f"server:served@{stub.url}"), meter)
        reply = backbone.generate(None, "What is it?", Sampling(8))
    assert reply.token_ids == ()
    cost = meter.take()
    assert (cost.calls, cost.tokens_in, cost.tokens_out) == (1, 7, 3)
