"""Decoding that nobody waits for any more stops between pictures, also in threads of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.support.cancelling import SOON, CancelledWork, until
from tests.support.making_videos import make
from videopro.errors import Cancelled, check_cancelled
from videopro.video import Video, made_ahead
from videopro.video.decoding import exact, processes


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Video:
    path = tmp_path_factory.mktemp("films") / "a.mp4"
    make(path, 400, rate=2, options={"g": "20", "preset": "ultrafast"})
    return Video.open(path)


WAYS: dict[str, Callable[[Video, list[float]], object]] = {
    "frames": lambda film, times: film.frames(times),
    "stream": lambda film, times: list(film.stream(iter(times))),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_decoding_ends_in_all_threads(
    way: Callable[[Video, list[float]], object], film: Video, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads, work = set[int](), list[CancelledWork]()
    started = threading.Event()
    decode = exact._GroupDecoder.decode

    def cancelling(decoder: exact._GroupDecoder, group: exact._Group) -> None:
        threads.add(threading.get_ident())
        assert started.wait(20)
        if not work[0].cancellation.is_cancelled:
            decode(decoder, group)
            work[0].cancellation.cancel()
        else:
            with pytest.raises(Cancelled):
                decode(decoder, group)
            raise Cancelled

    monkeypatch.setattr(exact._GroupDecoder, "decode", cancelling)
    before = threading.active_count()
    work.append(CancelledWork(lambda: way(film, [number / 2 for number in range(400)])))
    started.set()
    until(lambda: work[0].cancellation.is_cancelled)
    work[0].cancel()
    assert threads
    until(lambda: threading.active_count() <= before)


def test_one_that_waits_for_another_decoder_of_the_video_leaves(film: Video, tmp_path: Path) -> None:
    from videopro.video.frame_store import shared_store

    with shared_store().decoding(film.id):
        CancelledWork(lambda: film.frames([1.0])).cancel()
    assert len(film.frames([1.0])) == 1


# ---- what is made ahead ------------------------------------------------------------------------------------


def test_items_made_ahead_come_in_order_and_an_error_behind_them() -> None:
    made: list[int] = []

    def numbers() -> Generator[int, None, None]:
        for number in range(6):
            made.append(number)
            yield number
        raise ValueError("damaged")

    items = made_ahead(numbers(), most=2)
    assert next(items) == 0
    # Two wait, and the next is in hand.
    until(lambda: len(made) == 4)
    assert [next(items) for _ in range(5)] == [1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="damaged"):
        next(items)


@pytest.mark.parametrize("is_full", [True, False], ids=["nothing fits in", "in the middle of an item"])
def test_closing_ends_the_thread_wherever_it_is(is_full: bool) -> None:
    """Also where nothing is cancelled, as when an encoder fails: a part of a long video may take minutes."""
    at_work, ended = threading.Event(), threading.Event()

    def endless() -> Generator[int, None, None]:
        try:
            yield 0
            at_work.set()
            while True:
                check_cancelled()
                if is_full:
                    yield 1
        finally:
            ended.set()

    items = made_ahead(endless(), most=1)
    assert next(items) == 0
    assert at_work.wait(SOON)
    items.close()
    assert ended.is_set()


# ---- decoding processes ------------------------------------------------------------------------------------


def test_a_process_ends_a_part_that_nobody_waits_for(film: Video, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs in the process, here in a thread: it decodes until the parent says so, and not one picture
    more."""
    parts: list[processes.PartInProcess] = []
    decoded: list[int] = []
    decode = exact._GroupDecoder.decode

    def cancelling(decoder: exact._GroupDecoder, group: exact._Group) -> None:
        decode(decoder, group)
        decoded.append(len(group.ticks))
        parts[0].cancel()

    class Pool:
        def submit(self, *arguments: object) -> object:
            self.arguments = arguments
            return None, processes.Future()

    monkeypatch.setattr(exact._GroupDecoder, "decode", cancelling)
    pool, ticks = Pool(), [film._probe.tick(second / 2) for second in range(400)]
    parts.append(processes.PartInProcess(pool, film._probe, ticks, (32, 48), 10.0))  # type: ignore[arg-type]
    *decoding, memory = pool.arguments
    with pytest.raises(Cancelled):
        processes._decode(*decoding, 1, os.getpid(), memory)  # type: ignore[arg-type]
    # The first group; the film has 20.
    assert decoded == [20]
