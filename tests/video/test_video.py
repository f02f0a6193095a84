"""Frames, their times and the store, on files whose every picture says which it is."""

import bisect
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from tests.support.making_videos import HEIGHT, WIDTH, box, make, numbered, read_number
from videopro.errors import VideoError
from videopro.video import Frame, FrameStore, Video, fps_times, uniform_times
from videopro.video.decoding import stream
from videopro.video.decoding.exact import _GroupDecoder
from videopro.video.decoding.picture import RgbConverter

_UNEVEN = np.cumsum(np.random.default_rng(3).integers(1, 9, 70)).tolist()
_OPEN = {"x264-params": "keyint=12:min-keyint=12:open-gop=1:scenecut=0:bframes=5"}
_FILES: dict[str, dict[str, Any]] = {
    "b-frames.mp4": {"options": {"g": "20", "bf": "3"}},
    "pyramid.mp4": {"options": {"x264-params": "keyint=50:bframes=7:b-adapt=0:b-pyramid=normal:ref=5"}},
    "uneven.mp4": {"times": _UNEVEN, "rate": 60, "options": {"g": "25"}},
    "open-groups.mp4": {"options": _OPEN},
    "open-groups.ts": {"options": _OPEN},
    "one-key-frame.mp4": {"options": {"x264-params": "keyint=infinite:scenecut=0"}},
    "gradual-refresh.mp4": {"times": 70, "options": {"x264-params": "intra-refresh=1:keyint=20"}},
    "late.mp4": {"times": list(range(50, 110))},
    "late.mkv": {"times": list(range(50, 110))},
    "fragments.mp4": {"options": {"g": "15"}, "mux": {"movflags": "frag_keyframe+empty_moov"}},
    "live.mkv": {"options": {"g": "15"}, "mux": {"live": "1"}},
    "hevc.mp4": {"codec": "libx265", "options": {"x265-params": "keyint=15:log-level=none"}},
    "hevc-10-bit.ts": {
        "codec": "libx265",
        "pixels": "yuv420p10le",
        "options": {"x265-params": "keyint=15:log-level=none"},
    },
    "vp9.webm": {"times": 40, "codec": "libvpx-vp9", "options": {"g": "15", "deadline": "realtime"}},
    "mpeg4.avi": {"codec": "mpeg4", "options": {"g": "15", "q": "2"}},
    "mpeg2.mpg": {"codec": "mpeg2video", "rate": 25, "options": {"g": "12", "bf": "2", "b": "4M"}},
    "moving.gif": {"times": 20, "rate": 10, "codec": "gif", "pixels": "rgb8"},
    "said.y4m": {"rate": 25, "form": "yuv4mpegpipe", "codec": "wrapped_avframe"},
    "single.mp4": {"times": 1},
}


def _reference(path: Path) -> list[tuple[float, np.ndarray]]:
    """Every picture by a plain decoding of the whole file: (seconds from the first, RGB)."""
    with av.open(str(path)) as container:
        pictures = list(container.decode(video=0))
        return [
            (float((p.pts - pictures[0].pts) * p.time_base), p.to_ndarray(format="rgb24")) for p in pictures
        ]


@pytest.mark.parametrize("name", _FILES)
def test_frames_are_the_ones_on_display(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    made = make(path, **_FILES[name])
    starts = [time - made[0] for time in made]
    reference = _reference(path)
    assert len(reference) == len(made)
    video = Video.open(path, store=FrameStore())
    step = min([b - a for a, b in pairwise(starts)] or [1 / 24])
    # Matroska counts milliseconds: a time within one of a change is either side's.
    times = [0.0, -3.0, video.duration, video.duration + 9, 1e9, *(start + 0.3 * step for start in starts)]
    times += [t for t in np.random.default_rng(0).uniform(0, video.duration, 40) if _clear(t, starts)]
    frames = video.frames(times)
    for time, frame in zip(times, frames, strict=True):
        number = max(0, bisect.bisect_right(starts, time) - 1)
        assert read_number(frame.image) == number
        assert frame.time == pytest.approx(starts[number], abs=0.001)
        assert frame.video == video.id
        assert frame.image.shape == (HEIGHT, WIDTH, 3)
        assert np.array_equal(frame.image, reference[number][1])
        assert frame.time == pytest.approx(reference[number][0], abs=1e-9)
    steps = {round(b - a, 4) for a, b in pairwise(starts)}
    if len(steps) == 1:
        assert video.duration == pytest.approx(starts[-1] + steps.pop(), abs=0.002)
    else:
        assert 0 < video.duration - starts[-1] < 0.2
    assert video.notes == ()
    # In a stream they are the same.
    monkeypatch.setattr(stream, "_PICTURES_PER_PART", 8)
    ascending = sorted(times)
    for frame, streamed in zip(video.frames(ascending), video.stream(ascending), strict=True):
        assert (streamed.time, streamed.video) == (frame.time, video.id)
        assert np.array_equal(streamed.image, frame.image)
    # A frame's own time finds that frame, alone as well as among others.
    again = Video.open(path, store=FrameStore())
    for frame in (frames[2], frames[len(frames) // 2]):
        (found,) = again.frames([frame.time])
        assert (found.time, found.image.tobytes()) == (frame.time, frame.image.tobytes())


def _clear(time: float, starts: list[float]) -> bool:
    return all(abs(time - start) > 0.002 for start in starts)


def test_order_and_repeats_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "v.mp4", options={"g": "20"})
    times = [2.0, 0.5, 2.0, 1.01, 0.5]
    # As usual, and where the pictures of a long group are read again instead of held.
    for held in (None, 1000):
        if held:
            monkeypatch.setattr("videopro.video.decoding.exact._HELD_BYTES", held)
        frames = Video.open(tmp_path / "v.mp4", store=FrameStore()).frames(times)
        assert [read_number(frame.image) for frame in frames] == [48, 12, 48, 24, 12]
        assert [frame.time for frame in frames] == [2.0, 0.5, 2.0, 1.0, 0.5]
        assert frames[0].image is frames[2].image


def test_unreferenced_pictures_are_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With b-adapt 0 and no pyramid, three in four pictures are B-frames that nothing references."""
    how = "keyint=60:bframes=3:b-adapt=0:b-pyramid=none:scenecut=0"
    make(tmp_path / "v.mp4", options={"x264-params": how})
    sent: list[Any] = []
    original = _GroupDecoder._decode_run

    def count(self: _GroupDecoder, *args: Any) -> Any:
        context = self._reader.context

        def decode(packet: Any) -> Any:
            sent.extend([packet] if packet is not None else [])
            return context.decode(packet)

        counting = SimpleNamespace(decode=decode, flush_buffers=context.flush_buffers)
        monkeypatch.setattr(self._reader, "context", counting)
        return original(self, *args)

    monkeypatch.setattr(_GroupDecoder, "_decode_run", count)
    (frame,) = Video.open(tmp_path / "v.mp4", store=FrameStore()).frames([40 / 24])
    assert read_number(frame.image) == 40
    assert len(sent) == 11  # I0 P4 P8 ... P40


def test_start_offset_is_of_the_file(tmp_path: Path) -> None:
    """Sound from 0 s, pictures from 1.25 s on: the video starts with its sound, as players show it."""
    make(tmp_path / "v.mkv", list(range(30, 60)), audio=0.0)
    video = Video.open(tmp_path / "v.mkv", store=FrameStore())
    first, later = video.frames([0.0, 1.5])
    assert read_number(first.image) == 0
    assert first.time == pytest.approx(1.25, abs=0.001)
    assert read_number(later.image) == 6
    assert video.duration == pytest.approx(2.5, abs=0.002)


def test_edit_list(tmp_path: Path) -> None:
    """An edit list that begins at picture 30 and lasts one second: only those 24 are shown, from 0 s on."""
    make(tmp_path / "v.mp4", options={"g": "20", "bf": "2"})
    data = bytearray((tmp_path / "v.mp4").read_bytes())
    movie_scale = int.from_bytes(data[box(data, b"mvhd") + 12 :][:4], "big")
    media_scale = int.from_bytes(data[box(data, b"mdhd") + 12 :][:4], "big")
    entry = box(data, b"elst") + 8
    begin = int.from_bytes(data[entry + 4 : entry + 8], "big") + 30 * media_scale // 24
    data[entry : entry + 8] = movie_scale.to_bytes(4, "big") + begin.to_bytes(4, "big")
    (tmp_path / "v.mp4").write_bytes(data)
    video = Video.open(tmp_path / "v.mp4", store=FrameStore())
    frames = video.frames([0.0, 0.26, 0.99, 5.0])
    assert [read_number(frame.image) for frame in frames] == [30, 36, 53, 53]
    assert [frame.time for frame in frames] == pytest.approx([0, 6 / 24, 23 / 24, 23 / 24])
    assert video.duration == pytest.approx(1.0)


# Counter-clockwise degrees and mirroring as PyAV writes them -> how the stored picture must be shown.
_TURNS: dict[tuple[Any, ...], tuple[Callable[[np.ndarray], np.ndarray], int]] = {
    (90,): (lambda a: np.rot90(a, 1), 270),
    (180,): (lambda a: np.rot90(a, 2), 180),
    (270,): (lambda a: np.rot90(a, 3), 90),
    (0, True): (np.fliplr, 0),
    (0, False, True): (np.flipud, 180),
    (90, True): (lambda a: np.fliplr(np.rot90(a, 1)), 90),
}


@pytest.mark.parametrize("rotation", _TURNS)
def test_rotation(rotation: tuple[Any, ...], tmp_path: Path) -> None:
    make(tmp_path / "v.mp4", 3, rotation=rotation)
    turn, degrees = _TURNS[rotation]
    upright = turn(_reference(tmp_path / "v.mp4")[1][1])
    video = Video.open(tmp_path / "v.mp4", store=FrameStore())
    frame, small = video.frames([1 / 24])[0], video.frames([1 / 24], size=(40, 30))[0]
    assert (video.height, video.width) == upright.shape[:2]
    assert video.rotation == degrees
    assert np.array_equal(frame.image, upright)
    assert small.image.shape == (40, 30, 3)
    assert np.abs(small.image.astype(int) - _shrunk(upright, 40, 30)).mean() < 4


def _shrunk(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    image = Image.fromarray(np.ascontiguousarray(picture))
    return np.asarray(image.resize((width, height), Image.Resampling.BICUBIC)).astype(int)


def test_pixels_are_made_square(tmp_path: Path) -> None:
    make(tmp_path / "v.mp4", 2, aspect=Fraction(3, 2))
    video = Video.open(tmp_path / "v.mp4", store=FrameStore())
    assert (video.height, video.width) == (HEIGHT, WIDTH * 3 // 2)
    assert video.frames([0])[0].image.shape == (HEIGHT, WIDTH * 3 // 2, 3)


@pytest.mark.parametrize(
    ("matrix", "red", "blue"), [(1, 0.2126, 0.0722), (6, 0.299, 0.114), (9, 0.2627, 0.0593)]
)
@pytest.mark.parametrize("full", [False, True])
def test_colour_matrix_and_range(matrix: int, red: float, blue: float, full: bool, tmp_path: Path) -> None:
    """Y'CbCr by the formula of ITU-R BT.601, BT.709 and BT.2020, read back as the R'G'B' that went in."""
    rgb = np.array([190, 60, 40])
    luma = float(rgb @ [red, 1 - red - blue, blue])
    cb, cr = (rgb[2] - luma) / (2 - 2 * blue), (rgb[0] - luma) / (2 - 2 * red)
    scale, chroma, foot = (1, 1, 0) if full else (219 / 255, 224 / 255, 16)
    planes = [round(foot + scale * luma), round(128 + chroma * cb), round(128 + chroma * cr)]
    make(tmp_path / "v.mp4", 2, planes=planes, colours=(matrix, 2 if full else 1), options={"crf": "1"})
    (frame,) = Video.open(tmp_path / "v.mp4", store=FrameStore()).frames([0])
    assert np.abs(frame.image.reshape(-1, 3).mean(0) - rgb).max() < 3


def _lying(path: Path, seconds: float, **options: Any) -> None:
    """A Matroska file whose header states another duration."""
    make(path, **options)
    data = bytearray(path.read_bytes())
    where = data.index(b"\x44\x89\x88") + 3  # Duration, 8 bytes, a double in milliseconds (RFC 9559)
    data[where : where + 8] = np.array(seconds * 1000, ">f8").tobytes()
    path.write_bytes(data)


def test_duration_when_the_header_lies(tmp_path: Path) -> None:
    make(tmp_path / "v.mp4", audio=0.0)
    data = bytearray((tmp_path / "v.mp4").read_bytes())
    for kind, at in ((b"mvhd", 16), (b"tkhd", 20), (b"mdhd", 16)):
        where = box(data, kind) + at
        longer = int.from_bytes(data[where : where + 4], "big") * 50
        data[where : where + 4] = longer.to_bytes(4, "big")
    (tmp_path / "v.mp4").write_bytes(data)
    assert Video.open(tmp_path / "v.mp4").duration == pytest.approx(2.5, abs=0.01)
    for seconds in (3600, 1):
        _lying(tmp_path / "v.mkv", seconds)
        assert Video.open(tmp_path / "v.mkv").duration == pytest.approx(2.5, abs=0.002)


def test_odd_timestamps_are_reported_and_tolerated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    _lying(tmp_path / "longer.mkv", 3600)
    # No later picture refers to the times by which the decoder goes: one lasts for three hours.
    make(tmp_path / "still.mp4", [*range(10), 10 + 3 * 3600 * 24], options={"bf": "0"})
    make(tmp_path / "two.mp4")
    (tmp_path / "two.mp4").write_bytes((tmp_path / "two.mp4").read_bytes() * 2)
    for name, words in (
        ("longer.mkv", "its header says 3,600 s, but its frames last 2 s"),
        ("still.mp4", "one frame lasts 10,800 of its 10,800 s"),
        ("two.mp4", "only the first is used"),
    ):
        caplog.clear()
        video = Video.open(tmp_path / name, store=FrameStore())
        assert len(video.notes) == 1
        assert words in video.notes[0]
        assert f"{name}: {video.notes[0]}" in caplog.text
        assert read_number(video.frames([0.1])[0].image) == 2


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("vfr.mp4", {"times": [n * n for n in range(40)]}),
        ("long_last.mp4", {"times": [*range(60), 1500 * 24]}),
        ("live.webm", {"codec": "libvpx", "mux": {"live": "1"}}),
        ("plain.mpg", {"codec": "mpeg2video", "rate": 25, "form": "vob", "options": {"bf": "2"}}),
    ],
)
def test_ordinary_oddities_are_not_reported(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    """Nor is anything of the files above."""
    times = make(tmp_path / name, **options)
    video = Video.open(tmp_path / name, store=FrameStore())
    assert video.notes == ()
    assert video.duration >= times[-1] - times[0]


def test_a_transport_stream_whose_clock_wraps_is_read(tmp_path: Path) -> None:
    """The 33 bits of its clock overflow after 26.5 hours: that is not a step back."""
    make(tmp_path / "v.ts", 120, mux={"output_ts_offset": str(2**33 / 90_000 - 3)})
    assert Video.open(tmp_path / "v.ts", store=FrameStore()).duration == pytest.approx(5.0, abs=0.1)


def test_facts(tmp_path: Path) -> None:
    make(tmp_path / "v.mp4", 48, rate=12, audio=0.0)
    video = Video.open(tmp_path / "v.mp4")
    assert (video.height, video.width, video.rotation, video.codec) == (HEIGHT, WIDTH, 0, "h264")
    assert (video.duration, video.fps) == (pytest.approx(4.0), pytest.approx(12.0))
    (tmp_path / "copy.mp4").write_bytes((tmp_path / "v.mp4").read_bytes())
    make(tmp_path / "other.mp4", 49, rate=12)
    assert Video.open(tmp_path / "copy.mp4").id == video.id != Video.open(tmp_path / "other.mp4").id
    assert [read_number(f.image) for f in video.sample(5)] == [4, 14, 24, 33, 43]
    assert [read_number(f.image) for f in video.sample(2, start=1, end=2)] == [15, 21]
    # It can be sent to a process.
    sent = pickle.loads(pickle.dumps(video))
    assert read_number(sent.frames([1.0])[0].image) == 12


def test_times() -> None:
    assert uniform_times(10, 20, 4) == [11.25, 13.75, 16.25, 18.75]
    assert uniform_times(3, 3, 2) == [3, 3]
    assert fps_times(0, 3, 2, 100) == [0.25, 0.75, 1.25, 1.75, 2.25, 2.75]
    assert fps_times(0, 3, 2, 3) == [0.5, 1.5, 2.5]
    assert fps_times(0, 10, 0.1, 9) == [5]
    assert fps_times(0, 1, 0.1, 9) == [0.5]
    assert len(fps_times(0, 0.3, 10, 9)) == 3  # 0.3 * 10 is a little less than 3 in floating point
    for bad in ((1, 0, 1), (0, float("nan"), 1), (0, 1, 0)):
        with pytest.raises(VideoError):
            uniform_times(*bad)
    for bad_rate in ((0, 1, 0, 5), (0, 1, 1, 0), (0, 1, float("inf"), 5)):
        with pytest.raises(VideoError):
            fps_times(*bad_rate)


def test_bad_requests(tmp_path: Path) -> None:
    make(tmp_path / "v.mp4", 3)
    video = Video.open(tmp_path / "v.mp4")
    for times, size in (([float("nan")], None), ([float("inf")], None), ([0.0], (0, 9)), ([0.0], (9, 10**6))):
        with pytest.raises(VideoError, match=r"v\.mp4"):
            video.frames(times, size=size)
    with pytest.raises(VideoError, match="ascending"):
        list(video.stream([2.0, 1.0]))
    assert video.frames([]) == []
    with pytest.raises(VideoError, match="timeout"):
        Video.open(tmp_path / "v.mp4", timeout=0)


def test_crop() -> None:
    frame = Frame(numbered(5), 1.5, "id")
    part = frame.crop((0.25, 0.5, 0.75, 1.0))
    assert np.array_equal(part.image, frame.image[32:, 32:96])
    assert (part.time, part.video, part.box) == (1.5, "id", (0.25, 0.5, 0.75, 1.0))
    inner = part.crop((0.5, 0.0, 1.0, 0.5))
    assert np.array_equal(inner.image, frame.image[32:48, 64:96])
    assert inner.box == (0.5, 0.5, 0.75, 0.75)
    assert frame.crop((0.999, 0.999, 1, 1)).image.shape == (1, 1, 3)
    assert not part.image.flags.writeable
    for bad in ((0.5, 0, 0.5, 1), (-0.1, 0, 1, 1), (0, 0, 1, 1.1), (0, float("nan"), 1, 1)):
        with pytest.raises(VideoError, match="box"):
            frame.crop(bad)


def test_frames_are_read_only_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "v.mp4"
    make(path, options={"g": "10"})
    video = Video.open(path, store=FrameStore())
    frames = video.frames([0.5, 1.5])
    with pytest.raises(ValueError, match="read-only"):
        frames[0].image[:] = 0
    path.unlink()  # what was decoded needs no file; what was not says that it is gone
    assert video.frames([1.5, 0.5])[0].image is frames[1].image
    for times, size in (([0.1], None), ([0.5], (16, 16))):
        with pytest.raises(VideoError, match="no longer exists"):
            video.frames(times, size=size)
    make(path, 30)
    with pytest.raises(VideoError, match="changed"):
        video.frames([0.1])


def test_a_store_is_bounded_and_resized() -> None:
    store = FrameStore(max_bytes=3000)

    def kept() -> list[int]:
        return [pts for pts in range(100) if store.get(("v", pts, (10, 10))) is not None]

    for pts in range(15):
        # The first is used again and again: it stays.
        store.get(("v", 0, (10, 10)))
        store.put(("v", pts, (10, 10)), np.full((10, 10, 3), pts, np.uint8))
    assert (len(store), store.bytes) == (10, 3000)
    assert kept() == [0, *range(6, 15)]
    store.put(("v", 99, (40, 40)), np.zeros((40, 40, 3), np.uint8))
    assert store.get(("v", 99, (40, 40))) is None
    assert store.bytes == 3000
    assert store.get(("v", 0, (10, 10))) is not None
    store.resize(900)
    assert (store.max_bytes, store.bytes) == (900, 900)
    assert kept() == [0, 13, 14]
    store.resize(1200)
    store.put(("v", 15, (10, 10)), np.full((10, 10, 3), 10, np.uint8))
    assert kept() == [0, 13, 14, 15]
    with pytest.raises(VideoError, match="max_bytes is -1"):
        store.resize(-1)


def test_so_many_videos_are_decoded_at_a_time() -> None:
    """However many threads ask; and threads that wait for one video keep no other from being decoded."""
    store = FrameStore(decoders=2)
    inside, most, lock, first_two = 0, 0, threading.Lock(), threading.Barrier(2)

    def decode(video: str) -> None:
        nonlocal inside, most
        with store.decoding(video):
            with lock:
                inside += 1
                most = max(most, inside)
            if video in ("a", "b"):
                first_two.wait(20)
            with lock:
                inside -= 1

    # Of "a" and of "b" two each: the barrier is passed twice, always by one of both.
    with ThreadPoolExecutor(10) as threads:
        assert len(list(threads.map(decode, "aabbcccddd"))) == 10
    assert most == 2


def test_more_frames_than_the_store_holds(tmp_path: Path) -> None:
    make(tmp_path / "v.mp4")
    video = Video.open(tmp_path / "v.mp4", store=FrameStore(max_bytes=2 * HEIGHT * WIDTH * 3))
    assert [read_number(f.image) for f in video.sample(60)] == list(range(60))


def test_threads_decode_a_frame_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "v.mp4", options={"g": "10"})
    converted: list[int | None] = []
    original = RgbConverter.rgb

    def count(self: RgbConverter, picture: av.VideoFrame, *args: Any) -> np.ndarray:
        converted.append(picture.pts)
        return original(self, picture, *args)

    monkeypatch.setattr(RgbConverter, "rgb", count)
    store = FrameStore()

    def ask(seed: int) -> bool:
        numbers = np.random.default_rng(seed).integers(0, 60, 20).tolist()
        frames = Video.open(tmp_path / "v.mp4", store=store).frames([(n + 0.5) / 24 for n in numbers])
        return [read_number(f.image) for f in frames] == numbers

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, range(8)))
    assert len(converted) == len(set(converted)) == len(store)
