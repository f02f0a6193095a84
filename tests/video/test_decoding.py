"""Decoding in processes and in threads: the same pictures in order, and neither kills nor closing nor what is
cancelled leaves anything behind."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.cancelling import SOON, CancelledWork, until
from tests.support.making_videos import make, read_number
from videopro.errors import Cancelled, VideoError, check_cancelled
from videopro.video import Video, made_ahead
from videopro.video.decoding import exact, processes, stream

PICTURES = 120


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Video:
    path = tmp_path_factory.mktemp("videos") / "a.mp4"
    make(path, times=PICTURES, options={"g": "10"})
    return Video.open(path)


@pytest.fixture(scope="module")
def running() -> Iterator[processes.DecodingProcesses]:
    """Two processes, as on a machine with eight cores."""
    pool = processes.DecodingProcesses(8)
    assert pool.count == 2
    yield pool
    pool.close()


@pytest.fixture
def pool(
    running: processes.DecodingProcesses, monkeypatch: pytest.MonkeyPatch
) -> processes.DecodingProcesses:
    monkeypatch.setattr(processes, "_shared", running)
    monkeypatch.setattr(processes, "_FEWEST_PICTURES", 20)
    monkeypatch.setattr(processes, "processors", lambda: 8)
    monkeypatch.setattr(stream, "_PICTURES_PER_PART", 8)
    return running


def times(video: Video, count: int = 60) -> list[float]:
    """Ascending, some of them twice or of one picture, some before and behind the video."""
    draws = np.random.default_rng(0).uniform(-0.1, video.duration + 0.1, count).tolist()
    return sorted([*draws, 1.0, 1.0])


def kill(pool: processes.DecodingProcesses) -> None:
    for each in list(pool._executor._processes):
        with contextlib.suppress(ProcessLookupError):  # killed before, and gone by now
            os.kill(each, signal.SIGKILL)


def test_pictures_are_those_of_threads_in_order(
    video: Video, pool: processes.DecodingProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    streamed = list(video.stream(times(video), size=(32, 48)))
    assert pool._executor is not None
    monkeypatch.setattr(processes, "_FEWEST_PICTURES", 1000)
    threads = list(video.stream(times(video), size=(32, 48)))
    assert len(threads) == 62
    assert [frame.time for frame in streamed] == [frame.time for frame in threads]
    for frame, expected in zip(streamed, threads, strict=True):
        np.testing.assert_array_equal(frame.image, expected.image)
    with pytest.raises(ValueError, match="read-only"):
        streamed[0].image[:] = 0


def test_a_killed_process_is_replaced(video: Video, pool: processes.DecodingProcesses) -> None:
    expected = [read_number(frame.image) for frame in video.frames(times(video))]
    frames = video.stream(times(video))
    numbers = [read_number(next(frames).image)]
    kill(pool)
    numbers += [read_number(frame.image) for frame in frames]
    assert numbers == expected


def test_processes_that_die_again_are_one_clear_error(
    video: Video, pool: processes.DecodingProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = processes.DecodingProcesses.submit

    def submit_to_the_dead(self, *arguments):  # type: ignore[no-untyped-def]
        executor, future = submit(self, *arguments)
        kill(self)
        return executor, future

    monkeypatch.setattr(processes.DecodingProcesses, "submit", submit_to_the_dead)
    with pytest.raises(VideoError, match=r"a\.mp4: its decoding processes were killed 2 times.*memory"):
        list(video.stream(times(video)))
    monkeypatch.undo()
    assert len(list(video.stream(times(video)))) == 62


def test_errors_of_a_process_are_those_of_the_video(
    video: Video, pool: processes.DecodingProcesses, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged.mp4"
    data = bytearray(video.path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4000] = bytes(4000)
    damaged.write_bytes(bytes(data))
    with pytest.raises(VideoError, match=r"damaged\.mp4: the frame at .* is damaged"):
        list(Video.open(damaged).stream(times(video)))


@pytest.mark.parametrize(
    ("pictures", "cores", "is_daemon"), [(511, 16, False), (600, 3, False), (600, 16, True)]
)
def test_small_work_and_small_machines_use_threads(
    pictures: int, cores: int, is_daemon: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "processors", lambda: cores)
    monkeypatch.setitem(processes.multiprocessing.current_process()._config, "daemon", is_daemon)  # type: ignore[attr-defined]
    assert processes.decoding_processes(pictures) is None


# ---- what nobody waits for any more -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_video(tmp_path_factory: pytest.TempPathFactory) -> Video:
    path = tmp_path_factory.mktemp("videos") / "a.mp4"
    make(path, 400, rate=2, options={"g": "20", "preset": "ultrafast"})
    return Video.open(path)


WAYS: dict[str, Callable[[Video, list[float]], object]] = {
    "frames": lambda long_video, times: long_video.frames(times),
    "stream": lambda long_video, times: list(long_video.stream(iter(times))),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_decoding_ends_in_all_threads(
    way: Callable[[Video, list[float]], object], long_video: Video, monkeypatch: pytest.MonkeyPatch
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
    work.append(CancelledWork(lambda: way(long_video, [number / 2 for number in range(400)])))
    started.set()
    until(lambda: work[0].cancellation.is_cancelled)
    work[0].cancel()
    assert threads
    until(lambda: threading.active_count() <= before)


def test_one_that_waits_for_another_decoder_of_the_video_leaves(long_video: Video, tmp_path: Path) -> None:
    from videopro.video.frame_store import shared_store

    with shared_store().decoding(long_video.id):
        CancelledWork(lambda: long_video.frames([1.0])).cancel()
    assert len(long_video.frames([1.0])) == 1


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


def test_a_process_ends_a_part_that_nobody_waits_for(
    long_video: Video, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    pool, ticks = Pool(), [long_video._probe.tick(second / 2) for second in range(400)]
    parts.append(processes.PartInProcess(pool, long_video._probe, ticks, (32, 48), 10.0))  # type: ignore[arg-type]
    *decoding, memory = pool.arguments
    with pytest.raises(Cancelled):
        processes._decode(*decoding, 1, os.getpid(), memory)  # type: ignore[arg-type]
    # The first group; the video has 20.
    assert decoded == [20]
