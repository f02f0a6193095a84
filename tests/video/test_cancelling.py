"""Decoding that nobody waits for any more stops between pictures, also in threads of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cancelling import CancelledWork, until
from tests.support.making_videos import make
from videopro.errors import Cancelled
from videopro.video import Video
from videopro.video.decoding import exact


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
