"""The clip index: exact bounds, one pass, interruption, keys, two processes, search, the command."""

import hashlib
import json
import os
import re
import shutil
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from av.video.frame import VideoFrame

from tests.support.making_videos import make
from tests.support.number_encoder import NumberEncoder, load_index
from tests.support.tiny_encoders import languagebind_folder
from videopro.commands import index as command
from videopro.errors import ConfigError, VideoError
from videopro.modules.search import (
    build_index,
    clip_bounds,
    clip_index,
    default_root,
    index_path,
    prepare_index,
)
from videopro.modules.search.clip_index import DamagedIndex, read_vectors, write_vectors
from videopro.video import Frame, Video
from videopro.video.decoding import stream
from videopro.video.decoding.reader import Reader

# 510 pictures at 1.5 a second: 340 s, 34 clips of 10 s, more than are written together.
RATE, PICTURES = 3, 510


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("videos") / "numbered.mp4"
    make(
        path, list(range(0, 2 * PICTURES, 2)), rate=RATE, options={"g": "40", "bf": "2", "preset": "veryfast"}
    )
    return path


@pytest.fixture
def video(path: Path) -> Video:
    return Video.open(path)


def test_bounds_are_exact_and_cover_the_video() -> None:
    assert clip_bounds(25.0) == ((0.0, 10.0), (10.0, 20.0), (20.0, 25.0))
    assert clip_bounds(30.0) == ((0.0, 10.0), (10.0, 20.0), (20.0, 30.0))
    assert clip_bounds(30.0004)[-1] == (20.0, 30.0004)  # rounding does not make another clip
    assert clip_bounds(3.0) == ((0.0, 3.0),)
    assert clip_bounds(1.0, 0.3)[1] == (0.3, 0.6)
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="clip_seconds"):
            clip_bounds(30.0, wrong)


def test_an_interrupted_build_resumes(video: Video, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="killed"):
        build_index(video, NumberEncoder(fails_after=33), root=tmp_path)
    assert load_index(video, NumberEncoder(), root=tmp_path) is None
    encoder, reports = NumberEncoder(), list[tuple[int, int]]()
    made = build_index(video, encoder, root=tmp_path, progress=lambda done, all: reports.append((done, all)))
    assert len(encoder.seen) == 2  # 32 were on disk
    assert (reports[0], reports[-1]) == ((32, 34), (34, 34))
    whole, cost = prepare_index(video, NumberEncoder(), root=tmp_path / "b")
    np.testing.assert_array_equal(made.vectors, whole.vectors)
    left = index_path(video, encoder, root=tmp_path).parent.iterdir()
    assert sorted(file.suffix for file in left) == [".lock", ".safetensors"]
    # What an index cost is known to later runs, unless its build was resumed.
    assert (cost.is_known, cost.cost.frames, cost.cost.seconds > 0) == (True, 34 * 3, True)
    assert prepare_index(video, NumberEncoder(fails_after=0), root=tmp_path / "b")[1] == cost
    _, resumed = prepare_index(video, NumberEncoder(), root=tmp_path)
    assert (resumed.is_known, resumed.key) == (False, cost.key)


def test_what_is_on_disk_is_read_and_keyed_by_content_encoder_and_length(
    video: Video, path: Path, tmp_path: Path
) -> None:
    first = build_index(video, NumberEncoder(), root=tmp_path)
    moved = tmp_path / "moved.mp4"
    shutil.copy(path, moved)
    idle = NumberEncoder(fails_after=0)
    again = build_index(Video.open(moved), idle, root=tmp_path)
    np.testing.assert_array_equal(again.vectors, first.vectors)
    for other, seconds in ((NumberEncoder(version=2), 10.0), (NumberEncoder(), 20.0)):
        assert load_index(video, other, clip_seconds=seconds, root=tmp_path) is None
        assert len(build_index(video, other, clip_seconds=seconds, root=tmp_path).clips) == 340 / seconds
        assert other.seen
    # A video of another content.
    make(moved, 60, rate=RATE)
    assert load_index(Video.open(moved), NumberEncoder(), root=tmp_path) is None


def forged(content: bytes, **changes: Any) -> bytes:
    """A complete file with a matching hash, but other rows, shape, type or metadata."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    rows = changes.pop("rows", None)
    data = content[8 + length :]
    if rows is not None:
        data = rows.tobytes()
        header["vectors"] |= {"shape": list(rows.shape), "data_offsets": [0, len(data)]}
        header["__metadata__"]["sha256"] = hashlib.sha256(data).hexdigest()
    header["vectors"] |= changes
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


ROWS = np.tile(np.array([1.0, 0.0], dtype=np.float32), (34, 1))


def changed(row: Sequence[float]) -> np.ndarray:
    rows = ROWS.copy()
    rows[7] = row
    return rows


def flipped(content: bytes) -> bytes:
    """One bit of the last number."""
    return content[:-4] + bytes([content[-4] ^ 1]) + content[-3:]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[:-40],
    "empty": lambda content: b"",
    # The former format of the index, with an unknown compression: zipfile's NotImplementedError.
    "a zip": lambda content: b"PK\x03\x04" + bytes(400) + b"PK\x01\x02\x14\x00\x14\x00\x00\x00\x63\x00",
    "nested": lambda content: (9000).to_bytes(8, "little") + b"[" * 9000,
    "one bit": flipped,
    "NaN": lambda content: forged(content, rows=changed([np.nan, 0])),
    "zero": lambda content: forged(content, rows=changed([0, 0])),
    "too long": lambda content: forged(content, rows=changed([3, 4])),
    "another width": lambda content: forged(content, rows=np.tile(ROWS, (1, 2)) / 2**0.5),
    "another number": lambda content: forged(content, rows=ROWS[:33]),
    "a shape that fits no memory": lambda content: forged(content, shape=[2**40, 2**20]),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_reported_and_never_used(
    video: Video, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    encoder = NumberEncoder()
    where = index_path(video, encoder, root=tmp_path)
    where.parent.mkdir(parents=True)
    whose, shape = "this video's", (34, 2)
    write_vectors(where, whose, ROWS)
    stored = read_vectors(where, whose, shape)
    np.testing.assert_array_equal(stored.rows, ROWS)
    with pytest.raises(DamagedIndex, match="another video"):
        read_vectors(where, "another video's", shape)
    where.write_bytes(damage(where.read_bytes()))
    with pytest.raises(DamagedIndex):
        read_vectors(where, whose, shape)
    assert load_index(video, encoder, root=tmp_path) is None


def test_a_damaged_file_is_rebuilt(video: Video, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = NumberEncoder()
    first = build_index(video, encoder, root=tmp_path)
    where = index_path(video, encoder, root=tmp_path)
    assert capsys.readouterr().err == ""
    where.write_bytes(where.read_bytes()[:-40])
    np.testing.assert_array_equal(build_index(video, encoder, root=tmp_path).vectors, first.vectors)
    error = capsys.readouterr().err
    assert re.fullmatch(f"{re.escape(str(where))}: is damaged.*; rebuilding it\n", error)
    # A part of an interrupted build is checked in the same way.
    with pytest.raises(RuntimeError, match="killed"):
        build_index(video, NumberEncoder(fails_after=33), root=tmp_path / "b")
    (part,) = index_path(video, encoder, root=tmp_path / "b").parent.glob("*.part0")
    part.write_bytes(flipped(forged(part.read_bytes(), rows=ROWS[:32])))
    rest = NumberEncoder()
    np.testing.assert_array_equal(build_index(video, rest, root=tmp_path / "b").vectors, first.vectors)
    assert len(rest.seen) == 34
    assert "part0: is damaged" in capsys.readouterr().err


def test_two_that_build_it_at_once_build_it_once(path: Path, tmp_path: Path) -> None:
    """Two threads, as two processes: flock keeps two open files apart, of one process as of several."""

    class Slow(NumberEncoder):
        def encode_clips(self, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
            time.sleep(0.1)
            return super().encode_clips(clips)

    encoders = [Slow(), Slow()]
    with ThreadPoolExecutor(2) as threads:
        made = threads.map(lambda encoder: build_index(Video.open(path), encoder, root=tmp_path), encoders)
        assert [len(index.clips) for index in made] == [34, 34]
    assert sorted(len(encoder.seen) for encoder in encoders) == [0, 34]


def test_search_ranks_within_the_window(video: Video, tmp_path: Path) -> None:
    made = build_index(video, NumberEncoder(), root=tmp_path)
    assert made.identity() == {"clip_seconds": 10.0, "encoder": {"encoder": "numbers", "version": 1}}
    # Clip i shows picture 15 i + 7 in its middle.
    found = made.search("160", 3)
    assert [number for number, _ in found] == [10, 11, 9]
    assert found[0][1] == pytest.approx(np.cos(3 / 512 * np.pi), abs=1e-6)
    assert [n for n, _ in made.search("160", 3, end=100.0)] == [9, 8, 7]
    assert [n for n, _ in made.search("160", 9, start=95.0, end=110.0)] == [10, 9]
    assert made.search("160", 3, start=500.0) == []
    assert len(made.search("160", 99)) == 34
    with pytest.raises(ValueError, match="top_k is 0"):
        made.search("160", 0)
    flat = type(made)(made.video, 10.0, made.clips, np.zeros_like(made.vectors), made.encoder)
    assert [n for n, _ in flat.search("157", 3)] == [0, 1, 2]


def test_a_folder_that_cannot_be_written_is_named(
    video: Video, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path))
    assert default_root() == tmp_path / "index"
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ConfigError, match="VIDEOPRO_CACHE"):
        build_index(video, NumberEncoder(), root=blocked)


# ---- the command -----------------------------------------------------------------------------------------


def test_the_command_indexes_searches_and_continues_past_a_broken_video(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = f"languagebind:{languagebind_folder(tmp_path / 'model')}"
    given = ["--encoder", encoder, "--root", str(tmp_path)]
    assert command.main([str(path), *given, "--query", "w5 w6"]) == 0
    first, *found = capsys.readouterr().out.splitlines()
    assert "34 clips" in first
    assert len(found) == 3
    start, to, end, unit, score = found[0].split()
    assert (to, unit, float(end) - float(start)) == ("to", "s", 10.0)
    assert -1 <= float(found[1].split()[-1]) <= float(score) <= 1
    folder = tmp_path / "videos"
    folder.mkdir()
    (folder / "a.mp4").write_bytes(b"nothing")
    shutil.copy(path, folder / "b.mp4")
    assert command.main([str(path), str(folder / "b.mp4"), str(folder), *given]) == 2
    captured = capsys.readouterr()
    # Two are in hand at a time, and each is printed when it is done: files and folders, each file once.
    names = [Path(line.split(": ")[0]).name for line in captured.out.splitlines()]
    assert sorted(names) == ["b.mp4", path.name]
    assert f"error: {folder / 'a.mp4'}" in captured.err


# ---- odd videos --------------------------------------------------------------------------------------------


# Tenths of a second: a burst, a still of 16 s, and pictures far apart.
VARIABLE = [0, 1, 2, 30, 31, 90, 250, 251, 252, 310]
SECONDS = list(range(0, 240, 10))
VIDEOS: dict[str, tuple[dict[str, Any], int]] = {
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


@pytest.mark.parametrize("name", VIDEOS)
def test_clips_are_of_what_is_on_display_and_no_picture_is_decoded_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, count = VIDEOS[name]
    shown_at = make(tmp_path / name, **options)
    # A video begins with its sound, if that is first.
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
def test_a_video_that_grew_has_another_index_and_none_is_made_of_both(tmp_path: Path) -> None:
    growing, longer, shorter = (tmp_path / name for name in ("video.ts", "longer.ts", "shorter.ts"))
    # Far longer than what is decoded ahead, however slow the encoder is.
    make(shorter, list(range(160)), rate=1, options={"g": "5"})
    make(longer, list(range(200)), rate=1, options={"g": "5"})
    os.link(shorter, growing)
    video = Video.open(growing)

    class Growing(NumberEncoder):
        def encode_clips(self, clips: Sequence[Sequence[Frame]]) -> np.ndarray:
            if len(self.seen) == 2:
                # As a recorder that moves what it wrote into place.
                os.link(longer, tmp_path / "new")
                os.replace(tmp_path / "new", growing)
            return super().encode_clips(clips)

    def build(path: Path, encoder: NumberEncoder, root: str = "index") -> np.ndarray:
        return build_index(Video.open(path), encoder, root=tmp_path / root).vectors

    with pytest.raises(VideoError, match=r"video\.ts: has changed since it was opened; open it again"):
        build_index(video, Growing(), root=tmp_path / "index")
    assert not index_path(video, NumberEncoder(), root=tmp_path / "index").exists()
    assert len(build(growing, NumberEncoder())) == 20
    # What was embedded of the shorter video before is taken up, and is of that video.
    rest = NumberEncoder()
    again = build(shorter, rest)
    assert len(again) == 16 > len(rest.seen)
    assert np.array_equal(again, build(shorter, NumberEncoder(), "fresh"))
