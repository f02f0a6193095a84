"""A long stream is decoded by processes: the same pictures in order, and neither kills nor closing leave
anything behind."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.making_videos import make, read_number
from videopro.errors import VideoError
from videopro.video import Video
from videopro.video.decoding import processes, stream

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
    assert pool._executor is not None
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
    with pytest.raises(VideoError, match=r"a\.mp4: the processes that decode it were killed 2 times.*memory"):
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
    with pytest.raises(VideoError, match=r"damaged\.mp4: the picture at .* is damaged"):
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
