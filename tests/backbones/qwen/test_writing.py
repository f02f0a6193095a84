"""Replies written in steps that stay at one place on the device: the same as by the library's passes,
whatever is written beside them."""

import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.support.qwen_models import reference
from videopro.backbones.base import Sampling
from videopro.backbones.qwen import EncodedPrompt, NonFiniteLogits, QwenRunner, SampledReply, writing
from videopro.backbones.qwen import runner as runner_module
from videopro.backbones.qwen.static_batch import Captures, StaticBatch
from videopro.backbones.qwen.writing import StaticWriter

FAMILIES = ("qwen2_5_vl", "qwen3_vl")
SAMPLED = Sampling(24, temperature=1.3, top_p=0.9, seed=3)
GREEDY = Sampling(24)


@pytest.fixture(autouse=True)
def replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that a CUDA device gets, with steps that run where its graphs would be replayed."""

    class Replayed:
        def __init__(self, device: torch.device) -> None:
            self.device = device

        def warm_up(self, step: Callable[[], None]) -> None:
            step()

        def capture(self, step: Callable[[], None]) -> SimpleNamespace:
            return SimpleNamespace(replay=step)

    monkeypatch.setattr(writing, "Captures", Replayed)


@functools.cache
def model(family: str) -> Any:
    return reference(family)[0]


def runner(family: str, *, captures: bool | None = None, ends: Sequence[int] = ()) -> QwenRunner:
    made = QwenRunner(model(family), ends=ends, pad=0)
    if captures is not None:
        made._static = StaticWriter(made.model, cache_name=made._cache, captures=captures)
    return made


def prompt(*ids: int) -> EncodedPrompt:
    return EncodedPrompt(ids, (0,) * len(ids))


PROMPTS = [prompt(5, 9, 4, 7, 21), prompt(8, 6, 11), prompt(3, 3, 12, 40)]
OF = [0, 1, 1, 2, 0, 1]


def write(
    run: QwenRunner, sampling: Sampling, of: Sequence[int] = OF, numbers: Sequence[int] | None = None
) -> list[SampledReply]:
    with torch.no_grad():
        state = run.fork(run.start(PROMPTS), list(of))
        seeds = [(7, number) for number in numbers or range(len(of))]
        written: dict[int, SampledReply] = {}
        run.generate(state, sampling, seeds, banned=(1, 2), on_reply=written.__setitem__)
        return [written[row] for row in range(len(of))]


@functools.cache
def by_passes(family: str, sampling: Sampling, ends: tuple[int, ...] = ()) -> list[SampledReply]:
    """What the library's own passes write."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner_module, "is_static", lambda model, cache: False)
        return write(runner(family, ends=ends), sampling)


def assert_same(left: Sequence[SampledReply], right: Sequence[SampledReply]) -> None:
    for one, other in zip(left, right, strict=True):
        assert one.ids == other.ids
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)
        assert one.ended == other.ended


@pytest.mark.parametrize("captures", [None, True])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
def test_steps_at_one_place_write_what_passes_write(
    family: str, sampling: Sampling, captures: bool | None
) -> None:
    run = runner(family, captures=captures)
    for _ in range(2 if captures else 1):  # The second time, its steps are replayed from the first.
        assert_same(write(run, sampling), by_passes(family, sampling))


@pytest.mark.parametrize("captures", [True, False])
def test_rows_that_end_early_leave_the_others_as_they_are(captures: bool) -> None:
    whole = by_passes("qwen3_vl", SAMPLED)
    # Tokens that end some replies soon, one at once, and some not at all.
    ends = tuple(sorted({whole[0].ids[0], whole[1].ids[5], whole[2].ids[9], whole[3].ids[10]}))
    expected = by_passes("qwen3_vl", SAMPLED, ends)
    assert len({len(reply.ids) for reply in expected}) > 2
    written = write(runner("qwen3_vl", captures=captures, ends=ends), SAMPLED)
    assert_same(written, expected)
    for reply, full in zip(written, whole, strict=True):
        assert reply.ids == full.ids[: len(reply.ids)]


@pytest.mark.parametrize("captures", [True, False])
def test_a_reply_depends_on_its_seed_alone(captures: bool) -> None:
    together = write(runner("qwen3_vl", captures=captures), SAMPLED)
    alone = write(runner("qwen3_vl", captures=captures), SAMPLED, [1], [2])
    assert_same(alone, [together[2]])
    shorter = Sampling(9, temperature=1.3, top_p=0.9, seed=3)
    assert [reply.ids for reply in write(runner("qwen3_vl", captures=captures), shorter)] == [
        reply.ids[:9] for reply in together
    ]


@pytest.mark.parametrize("captures", [True, False])
def test_long_replies_get_more_room(captures: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "ROOM_ON_CPU", 8)
    monkeypatch.setattr(writing, "ROOM", 8)
    longer = Sampling(40, temperature=1.0)
    assert_same(write(runner("qwen3_vl", captures=captures), longer), by_passes("qwen3_vl", longer))


def test_the_captured_steps_of_the_layouts_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_MOST_BATCHES", 1)
    run = runner("qwen3_vl", captures=True)
    kept = []
    for of in (OF, [0]):
        write(run, GREEDY, of)
        kept += run._static._batches
    assert len(set(kept)) == 2


@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_stays_where_it_is(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step, seen = StaticBatch._forward, []

    def watched(self: StaticBatch) -> None:
        tensors = [value for value in vars(self).values() if isinstance(value, torch.Tensor)]
        for layer in self._cache.layers:
            tensors += [layer.keys, layer.values, layer.prompt_keys, layer.prompt_values]
        before = [tensor.data_ptr() for tensor in tensors]
        step(self)
        assert [tensor.data_ptr() for tensor in tensors] == before
        seen.append(len(tensors))

    monkeypatch.setattr(StaticBatch, "_forward", watched)
    write(runner(family, captures=True), SAMPLED)
    assert seen


@pytest.mark.parametrize("captures", [True, False])
def test_a_nan_in_a_step_names_its_rows(captures: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    run = runner("qwen3_vl", captures=captures)
    head: Any = run.model.get_output_embeddings()
    calls = []
    # Where the third row lies: replayed rows lie together by prompt, in places for four.
    place = 5 if captures else 2

    def damaged(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        calls.append(output.shape)
        if len(calls) == 4:
            output = output.clone()
            output[place] = torch.nan
        return output

    hook = head.register_forward_hook(damaged)
    try:
        with pytest.raises(NonFiniteLogits) as error:
            write(run, SAMPLED)
    finally:
        hook.remove()
    assert error.value.rows == (2,)


@pytest.mark.parametrize("of", [[0, 1, 2, 0, 1, 2, 2], [2, 2, 2, 2, 2, 2, 2, 2, 0], [1]])
def test_rows_of_prompts_in_equal_and_unequal_numbers(of: list[int]) -> None:
    expected = write(runner("qwen3_vl"), SAMPLED, of)
    assert_same(write(runner("qwen3_vl", captures=True), SAMPLED, of), expected)


TAILS = [prompt(14, 2), prompt(30, 31, 32, 33)]


@pytest.mark.parametrize("captures", [True, False])
def test_rows_take_the_slots_of_those_that_have_ended(
    captures: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runner("qwen3_vl", captures=captures, ends=range(0, 400, 12))
    clear, cleared = StaticBatch.clear, []
    monkeypatch.setattr(StaticBatch, "clear", lambda batch, own: (cleared.append(batch), clear(batch, own)))
    longer = Sampling(60, temperature=1.3)
    with torch.no_grad():
        heads = [run.share(each) for each in PROMPTS]

        def begin(numbers: Sequence[int]) -> Any:
            tails = [TAILS[number % 2] for number in numbers]
            state = run.start_after([heads[number % 3] for number in numbers], tails)
            return state, [(7, number) for number in numbers]

        alone: list[SampledReply] = []
        for number in range(24):
            state, seeds = begin([number])
            run.generate(state, longer, seeds, banned=(), on_reply=lambda _, reply: alone.append(reply))
        cleared.clear()
        waiting, written, seen = list(range(6, 24)), {}, []

        def between(is_open: int) -> Any:
            seen.append(is_open)
            numbers = [waiting.pop(0) for _ in range(min(6 - is_open, len(waiting)))]
            return begin(numbers) if numbers else None

        state, seeds = begin(range(6))
        run.generate(state, longer, seeds, banned=(), on_reply=written.__setitem__, between=between)
    assert_same([written[number] for number in range(24)], alone)
    assert len({len(reply.ids) for reply in alone}) > 8
    # Few of the 18 need another layout, or a step captured for it.
    assert len(cleared) <= 10
    assert len(set(cleared)) <= (4 if captures else 10)


@pytest.mark.parametrize(
    ("gib", "tokens", "rows"),
    # Qwen3-VL-8B: 2 x 36 layers x 8 heads x 128 numbers of 2 bytes, 144 KiB a token. A reply of 1,024 tokens
    # gets room for 1,280, 180 MiB: 17 of them in 3 GiB. Of 512, 108 MiB: 28 in 3 GiB, and 9 in 1 GiB.
    [(3, 1024, 16), (3, 512, 16), (1, 512, 8), (0, 512, 0)],
)
def test_a_gpu_has_room_for_the_replies_that_are_written_at_once(gib: int, tokens: int, rows: int) -> None:
    assert writing.rows_that_fit(gib * 2**30, 144 * 2**10, tokens) == rows


# ---- capturing them, with a stand-in for CUDA that keeps its rules -----------------------------------------

SECOND = torch.device("cuda", 1)


class Graph(SimpleNamespace):
    """A graph, which keeps its pool alive."""

    __hash__ = object.__hash__


class Cuda:
    """Two GPUs. A pool dies with the last graph in it, and its handle is taken for no other graph
    (c10/cuda/CUDACachingAllocator.cpp, create_or_incref_pool); only one capture may be underway in a process
    (the note in torch.cuda.graph)."""

    def __init__(self) -> None:
        self.pools = 0
        self.begun: set[Any] = set()
        self.underway = 0
        self.alive: weakref.WeakSet[Graph] = weakref.WeakSet()

    def graph_pool_handle(self) -> object:
        self.pools += 1
        return (0, self.pools)

    def current_stream(self, device: torch.device) -> Any:
        return SimpleNamespace(device=device, priority=-1)

    def Stream(self, device: torch.device, *, priority: int) -> Any:
        return SimpleNamespace(device=device, priority=priority)

    @contextmanager
    def graph(self, graph: Graph, *, pool: Any, stream: Any, capture_error_mode: str) -> Iterator[None]:
        assert capture_error_mode == "thread_local"
        if pool in self.begun:
            assert pool in [each.pool for each in self.alive], "use_count > 0 INTERNAL ASSERT FAILED"
        assert self.underway == 0, "only one capture may be underway at a time in the process"
        self.underway += 1
        yield
        self.underway -= 1
        graph.pool, graph.stream = pool, stream
        self.begun.add(pool)
        self.alive.add(graph)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    made = Cuda()
    for name in ("graph_pool_handle", "current_stream", "Stream", "graph"):
        monkeypatch.setattr(torch.cuda, name, getattr(made, name))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    return made


def nothing() -> None:
    pass


def test_graphs_share_a_pool_while_one_of_them_is_kept(cuda: Cuda) -> None:
    captures = Captures(SECOND)
    first, second = captures.capture(nothing), captures.capture(nothing)
    assert first.pool == second.pool
    # Kernels keep the priority of the stream on which they were captured.
    assert (first.stream.device.index, first.stream.priority) == (1, -1)
    del first
    assert captures.capture(nothing).pool == second.pool
    # Kept by nobody, as after memory ran out.
    before = second.pool
    del second
    assert captures.capture(nothing).pool != before


def test_two_threads_capture_one_after_the_other(cuda: Cuda) -> None:
    begun, other = threading.Event(), threading.Event()

    def until_the_other_waits() -> None:
        begun.set()
        # It cannot begin, so that this ends without it; in vain if it could.
        assert not other.wait(0.2)

    def capture_beside() -> None:
        begun.wait(10)
        Captures(SECOND).capture(other.set)

    with ThreadPoolExecutor(1) as threads:
        beside = threads.submit(capture_beside)
        Captures(SECOND).capture(until_the_other_waits)
        beside.result(10)
    assert other.is_set()
