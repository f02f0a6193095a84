"""Indexes of odd films: each clip is embedded from what a player shows, in one pass, decoded while the
encoder works, and never from a file that took the film's place."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from av.video.frame import VideoFrame

from tests.support.making_videos import make
from tests.support.number_encoder import NumberEncoder
from videopro.errors import VideoError
from videopro.modules.search import build_index, clip_index, index_path
from videopro.video import Frame, Video
from videopro.video.decoding import stream
from videopro.video.decoding.reader import Reader

# Tenths of a second: a burst, a still of 16 s, and pictures far apart.
VARIABLE = [0, 1, 2, 30, 31, 90, 250, 251, 252, 310]
SECONDS = list(range(0, 240, 10))
FILMS: dict[str, tuple[dict[str, Any], int]] = {
    "variable.mp4": ({"times": VARIABLE, "rate": 10}, 4),
    "variable.mkv": ({"times": VARIABLE, "rate": 10}, 4),
    "longer-sound.mp4": ({"times": SECONDS, "rate": 10, "audio": 0.0, "audio_seconds": 65.0}, 3),
    "sound-first.mkv": ({"times": SECONDS[12:], "rate": 10, "audio": 0.0}, 3),
    "picture-first.mp4": ({"times": SECONDS, "rate": 10, "audio": 5.0}, 3),
    "single.mp4": ({"times": 1}, 1),
    # Nothing leads to a key frame: the program stream's times are guesses after a search.
    "stream.mpg": ({"times": 450, "rate": 25, "codec": "mpeg2video", "options": {"b": "4M"}}, 2),
}
"""How each is made, and the clips of 10 s that it has."""


@pytest.mark.parametrize("name", FILMS)
def test_clips_are_of_what_is_on_display_and_no_picture_is_decoded_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, count = FILMS[name]
    shown_at = make(tmp_path / name, **options)
    # A film begins with its sound, if that is first.
    shown_at = [time - (0.0 if options.get("audio") == 0.0 else shown_at[0]) for time in shown_at]
    video, encoder = Video.open(tmp_path / name), NumberEncoder()
    monkeypatch.setattr(stream, "_PICTURES_PER_PART", 2)
    decoded: list[VideoFrame] = []
    pictures = Reader.pictures

    def counting(self: Reader) -> Iterator[VideoFrame]:
        for picture in pictures(self):
            decoded.append(picture)
            yield picture

    monkeypatch.setattr(Reader, "pictures", counting)
    index = build_index(video, encoder, root=tmp_path)
    assert [start for start, _ in index.clips] == [10.0 * number for number in range(count)]
    assert max(shown_at[-1], 10.0 * (count - 1)) <= index.clips[-1][1] < 10.0 * count
    thirds = [[start + (end - start) * part / 6 for part in (1, 3, 5)] for start, end in index.clips]
    assert encoder.seen == [[max(0, bisect_right(shown_at, t + 1e-9) - 1) for t in row] for row in thirds]
    assert len(decoded) <= len(shown_at)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clip a batch, two of them a part on the disk, and few pictures decoded together."""
    monkeypatch.setattr(clip_index, "BATCH_SIZE", 1)
    monkeypatch.setattr(clip_index, "_PART", 2)
    monkeypatch.setattr(stream, "_PICTURES_PER_PART", 4)


@pytest.mark.usefixtures("small_batches")
def test_a_film_that_grew_has_another_index_and_none_is_made_of_both(tmp_path: Path) -> None:
    film, longer, shorter = (tmp_path / name for name in ("film.ts", "longer.ts", "shorter.ts"))
    make(shorter, list(range(60)), rate=1, options={"g": "5"})
    make(longer, list(range(100)), rate=1, options={"g": "5"})
    os.link(shorter, film)
    video = Video.open(film)

    class Growing(NumberEncoder):
        def encode_clips(self, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
            if len(self.seen) == 2:
                # As a recorder that moves what it wrote into place.
                os.link(longer, tmp_path / "new")
                os.replace(tmp_path / "new", film)
            return super().encode_clips(clips)

    def build(path: Path, encoder: NumberEncoder, root: str = "index") -> np.ndarray:
        return build_index(Video.open(path), encoder, root=tmp_path / root).vectors

    with pytest.raises(VideoError, match=r"film\.ts: has changed since it was opened; open it again"):
        build_index(video, Growing(), root=tmp_path / "index")
    assert not index_path(video, NumberEncoder(), root=tmp_path / "index").exists()
    assert len(build(film, NumberEncoder())) == 10
    # What was embedded of the shorter film before is taken up, and is of that film.
    rest = NumberEncoder()
    again = build(shorter, rest)
    assert len(again) == 6 > len(rest.seen)
    assert np.array_equal(again, build(shorter, NumberEncoder(), "fresh"))
