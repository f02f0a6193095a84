"""One backbone for many programs: batches form while it is busy, failures stay with their own, the adapter is
off. Between two steps of replies single passes are served, more replies join, and those of gone callers
leave, while the others go on as if these had never been there. And what a metered backbone counts."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.cancelling import SOON, CancelledWork, until
from tests.support.fake_backbone import FakeBackbone
from tests.support.numbered import CHOICES, ReadingBackbone, video
from tests.support.qwen_models import backbone, load, pictures
from tests.support.stub_server import StubServer, completion, entry
from videopro.backbones import load_backbone
from videopro.backbones.base import ChoiceRequest, GenerateRequest, Generation, Joining, Prefix, Sampling
from videopro.backbones.qwen import QwenBackbone
from videopro.backbones.qwen.static_batch import StaticBatch
from videopro.backbones.wrappers import BatchingBackbone, Meter, MeteredBackbone
from videopro.errors import BackboneError
from videopro.question import Answer, Question, prompts
from videopro.video import Frame


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
    assert sum(inner.batches) == 16
    # The first goes alone or nearly so; those that came meanwhile share what follows.
    assert len(inner.batches) <= 6
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
    with (
        pytest.raises(BackboneError, match="adapter setting is fixed"),
        BatchingBackbone(inner).adapter(True),
    ):
        pass


def test_tokens_of_a_server_that_lists_no_ids_count() -> None:
    words = [entry(word, -0.1) for word in ("a", " red", " cup")]
    with StubServer(lambda body: completion("a red cup", words)) as stub:
        meter = Meter()
        metered = MeteredBackbone(load_backbone(f"server:served@{stub.url}"), meter)
        reply = metered.generate(None, "What is it?", Sampling(8))
    assert reply.token_ids == ()
    cost = meter.take()
    assert (cost.calls, cost.tokens_in, cost.tokens_out) == (1, 7, 3)


# ---- between two steps of replies --------------------------------------------------------------------------

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

    def generate_joining(self, sampling: Sampling, joining: Joining) -> None:
        self.writing.set()
        assert self.is_asked.wait(30)
        joining.pause()
        self.writing.clear()
        for one in joining.take(8):
            one.done(self.generate_batch([one.request], sampling)[0])

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


class HeldBackbone(ReadingBackbone):
    """Makes prefixes only when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.is_let = threading.Event(), threading.Event()

    def prefix(self, frames: Sequence[Frame], *, system: str = "") -> Prefix:
        self.begun.set()
        assert self.is_let.wait(SOON)
        return super().prefix(frames, system=system)


def test_a_caller_leaves_the_line_while_another_is_served(pool: ThreadPoolExecutor) -> None:
    inner = HeldBackbone()
    batching = BatchingBackbone(inner)
    question = Question("Which?", CHOICES)
    frames = [video().frames([time]) for time in (1.0, 2.0)]
    pool.submit(batching.prefix, frames[0])
    assert inner.begun.wait(SOON)
    # Of the same kind, about other pictures.
    stays = CancelledWork(lambda: batching.answer(frames[0], question))
    waits(batching, 1)
    gone = CancelledWork(lambda: batching.answer(frames[1], question))
    waits(batching, 2)
    gone.cancel()
    assert len(batching._line._queue) == 1
    inner.is_let.set()
    stays.join()
    assert stays.error is None
    assert len(inner.asked) == 1


def test_an_interruption_reaches_the_main_thread_alone(
    alone: QwenBackbone, batching: BatchingBackbone, shown: Prefix, pool: ThreadPoolExecutor, steps: Steps
) -> None:
    expected = alone.generate(shown, TEXTS[1], LONG)
    begun = steps.hold(batching, 1)
    main = threading.main_thread().ident
    steps.before[6] = lambda: signal.pthread_kill(main, signal.SIGINT)
    other = pool.submit(lambda: begun.wait(SOON) and batching.generate(shown, TEXTS[1], LONG))
    with pytest.raises(KeyboardInterrupt):
        batching.generate(shown, TEXTS[0], LONG)
    assert other.result(SOON).token_ids == expected.token_ids
    assert steps.rows[-1] == 1


# ---- where the thread that serves ends ---------------------------------------------------------------------

PROCESS = """
import os, signal, sys, threading, time
from tests.support.fake_backbone import FakeBackbone
from videopro.backbones.wrappers import BatchingBackbone

def ask():
    return backbone.yes_no([], "Is it?")

def ask_for_ever():
    while True:
        ask()

def asks(work):
    threading.Thread(target=work, daemon=True).start()
    assert begun.wait(20)

begun, parent = threading.Event(), os.getpid()
def before(requests):
    begun.set()
    time.sleep(0.3 if os.getpid() == parent else 0)
backbone = BatchingBackbone(FakeBackbone(before=before))
"""


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("ask()", 0),
        ("asks(ask_for_ever)", 0),
        (
            "stop = lambda _: [os.kill(parent, signal.SIGINT), time.sleep(1)]\n"
            "backbone.inner.before = stop\nask()",
            -signal.SIGINT,
        ),
        (
            "asks(ask)\nif os.fork() == 0:\n    backbone.inner = FakeBackbone()\n    ask()\n"
            "elif os.wait()[1] != 0 or not ask(): sys.exit(1)",
            0,
        ),
    ],
    ids=["after its work", "while others ask", "interrupted", "forked"],
)
def test_a_process_ends(code: str, status: int) -> None:
    command = [sys.executable, "-c", PROCESS + code]
    ended = subprocess.run(command, timeout=60, capture_output=True, text=True)
    assert ended.returncode == status, ended.stderr
    assert ("KeyboardInterrupt" in ended.stderr) == ("Traceback" in ended.stderr) == (status != 0)


# ---- full steps --------------------------------------------------------------------------------------------


def test_steps_are_full_while_callers_wait_and_each_reply_is_its_own(
    alone: QwenBackbone, batching: BatchingBackbone, shown: Prefix, steps: Steps, monkeypatch: Any
) -> None:
    """Replies of very different lengths, after a prefix, other frames or nothing."""
    monkeypatch.setattr(alone._run, "_ends", frozenset(range(0, 400, 20)))
    sampling = Sampling(120, temperature=1.5)
    visuals = (shown, pictures(3, seed=7), None)
    asked = [GenerateRequest(visuals[seed % 3], TEXTS[seed % 2], seed=seed) for seed in range(60)]
    expected = [alone.generate_batch([one], sampling)[0] for one in asked]
    steps.rows.clear()
    with ThreadPoolExecutor(16) as callers:
        written = list(callers.map(lambda one: batching.generate_batch([one], sampling)[0], asked))
    assert [one.token_ids for one in written] == [one.token_ids for one in expected]
    # The first token of each comes from its prompt's pass; one that ends has its end beside its tokens.
    lengths = [len(one.token_ids) - (one.finish == "length") for one in written]
    assert max(lengths) > 4 * sum(lengths) / len(lengths) / 3
    # 8 slots; after the last has begun, they become empty.
    assert len(steps.rows) <= sum(lengths) / 8 / 0.9 + max(lengths)


def test_of_many_slots_several_are_filled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    own = load("qwen3_vl", batch_size=32)
    monkeypatch.setattr(own._run, "_ends", frozenset(range(0, 400, 20)))
    begun: list[int] = []
    start = own._run.start_after
    monkeypatch.setattr(
        own._run, "start_after", lambda heads, tails: (begun.append(len(tails)), start(heads, tails))[1]
    )
    asked = [GenerateRequest(None, "Which?", seed=seed) for seed in range(60)]
    own.generate_batch(asked, Sampling(120, temperature=1.5))
    assert begun[0] == 32
    assert sum(begun) == 60
    assert min(begun[:-1]) >= 4


def test_others_join_for_ever_but_not_before_one_of_another_kind(
    alone: QwenBackbone, shown: Prefix, pool: ThreadPoolExecutor
) -> None:
    batching = BatchingBackbone(alone, adapter=None, max_batch=4)
    is_served = threading.Event()

    def ask_again() -> int:
        asked = 0
        while not is_served.is_set() and asked < 300:
            asked += bool(batching.generate(shown, TEXTS[asked % 3], Sampling(6)).token_ids)
        return asked

    others = [pool.submit(ask_again) for _ in range(4)]
    until(lambda: batching._line._server is not None)
    assert batching.generate(shown, "Which?", Sampling(5)).token_ids
    is_served.set()
    assert all(other.result(SOON) < 300 for other in others)
