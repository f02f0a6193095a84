"""Files that are not videos: one clear error in bounded time, with nothing left open. Damaged ones: which
frames are, and what stands in for them. Streams whose pictures change size, and files of other kinds."""

import os
import threading
import time
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from tests.support.making_videos import box, damage, make, numbered, read_number
from videopro.errors import ConfigError, VideoError
from videopro.video import Frame, FrameStore, Video, stand_ins_in


def _only_sound(path: Path) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), "fltp", "mono")
        frame.sample_rate = 16_000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())


def _picture(path: Path) -> None:
    Image.fromarray(np.zeros((20, 20, 3), np.uint8)).save(path, "PNG")


def _playlist(path: Path) -> None:
    """A playlist that names a video: following such names could read any file or address."""
    make(path.parent / "real.ts", 30)
    path.write_text("#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nreal.ts\n#EXT-X-ENDLIST\n")


def _cut(name: str, part: float, mux: dict[str, str] | None = None) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        whole = path.with_name(name)
        make(whole, 40, mux=mux)
        data = whole.read_bytes()
        path.write_bytes(data[: int(len(data) * part)])

    return write


def _patched(*changes: tuple[bytes, int, int], **made: Any) -> Callable[[Path], None]:
    """A valid file except for some numbers: (kind of box, where in it, value)."""

    def write(path: Path) -> None:
        make(path, 40, **made)
        data = bytearray(path.read_bytes())
        for kind, at, value in changes:
            where = box(data, kind) + at
            data[where : where + 4] = value.to_bytes(4, "big")
        path.write_bytes(data)

    return write


def _hours_without_data(path: Path) -> None:
    """A header that promises two hours, and nothing after it."""
    # 512 of 12,288 units a second are a picture.
    _patched((b"stts", 12, 512 * 4320), mux={"movflags": "faststart"})(path)
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"mdat") - 4])


def _absurd_counts(each: int) -> Callable[[Path], None]:
    """A few kilobytes that claim 60 million samples: FFmpeg would reserve gigabytes for them."""
    counts = ((b"stsz", 8, 60_000_000), (b"stts", 8, 60_000_000))
    return _patched((b"stsz", 4, each), *counts, options={"bf": "0"})


def _no_pictures_inside(path: Path) -> None:
    make(path, 40)
    damage(path, range(40))


def _joined(form: str, codec: str, counts: tuple[int, ...]) -> Callable[[Path], None]:
    """Streams end to end, each with a clock that starts again."""

    def write(path: Path) -> None:
        parts = []
        for count in counts:
            make(path, count, rate=25, codec=codec, form=form)
            parts.append(path.read_bytes())
        path.write_bytes(b"".join(parts))

    return write


def _raw(codec: str, form: str) -> Callable[[Path], object]:
    """A stream without a container, which has no times."""
    pixels = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    return lambda path: make(path, 40, codec=codec, form=form, pixels=pixels)


def _animated_webp(path: Path) -> None:
    pictures = [Image.fromarray(np.full((20, 20, 3), value, np.uint8)) for value in (0, 99, 200)]
    pictures[0].save(path, "WEBP", save_all=True, append_images=pictures[1:], duration=100)


def _frames_in_a_folder(path: Path) -> None:
    path.mkdir()
    _picture(path / "0001.PNG")


_BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "no such file"),
    "folder of frames": (_frames_in_a_folder, "glob -i '{path}/*.PNG' {path}.mp4"),
    "raw H.264": (_raw("libx264", "h264"), "ffmpeg -framerate FPS -i clip.mp4 OUT.mp4"),
    "raw MJPEG": (_raw("mjpeg", "mjpeg"), "is a raw stream (raw MJPEG video)"),
    "animated WebP": (_animated_webp, "is an animated WebP"),
    "empty": (lambda path: path.write_bytes(b""), "empty"),
    "noise": (lambda path: path.write_bytes(np.random.default_rng(0).bytes(300_000)), "cannot read it"),
    "only sound": (_only_sound, "no video track"),
    "still image": (_picture, "is a still image, not a video"),
    "playlist": (_playlist, "cannot read it as a video"),
    "pipe": (os.mkfifo, "pipe or device"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "pipe or device"),
    "cut mp4": (_cut("a.mp4", 0.5), "truncated"),
    "cut mp4, all but the end": (_cut("a.mp4", 0.99, {"movflags": "faststart"}), "truncated"),
    "cut mkv": (_cut("a.mkv", 0.6), "truncated"),
    "cut avi": (_cut("a.avi", 0.6), "truncated"),
    "cut fragments": (_cut("a.mp4", 0.6, {"movflags": "frag_keyframe+empty_moov"}), "truncated"),
    "hours without data": (_hours_without_data, "truncated"),
    "sixty million samples": (_absurd_counts(100), "truncated"),
    "sixty million samples of no size": (_absurd_counts(0), "60000000 frames"),
    "nothing inside": (_no_pictures_inside, "contains no frames"),
    "time scale of 0": (_patched((b"mdhd", 12, 0)), "its time scale is 0"),
    "pictures of days": (_patched((b"stts", 12, 0x7FFFFFFF)), "its frames last 6,990,507 s"),
    "pictures of less than no time": (_patched((b"stts", 12, 0x80000001)), "but its header says 2 s"),
    "joined transport streams": (_joined("mpegts", "libx264", (75, 150)), "-c copy OUT.mp4"),
    "joined program streams": (_joined("vob", "mpeg2video", (75, 75)), "runs back from"),
}


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("kind", _BAD)
def test_one_clear_error_in_bounded_time(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    write, words = _BAD[kind]
    write(path)
    threads, files, start = {*threading.enumerate()}, _open_files(), time.monotonic()
    with pytest.raises(VideoError, match=r"clip\.mp4") as caught:
        Video.open(path, timeout=5)
    assert words.format(path=path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - start < 6
    # Threads of earlier tests may end meanwhile.
    assert {*threading.enumerate()} - threads == set()
    assert _open_files() == files


def test_an_endless_search_ends(tmp_path: Path) -> None:
    """A transport stream and then 200 GB of nothing (a sparse file): finding its end would take minutes."""
    path = tmp_path / "clip.ts"
    make(path, 20)
    os.truncate(path, 200 * 2**30)
    start = time.monotonic()
    with pytest.raises(VideoError, match=r"clip\.ts.*within 1 s"):
        Video.open(path, timeout=1)
    assert time.monotonic() - start < 4


def test_an_endless_decoding_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One key frame, and every packet takes its time: the time that a frame may take is kept, in every
    thread."""
    make(tmp_path / "a.mp4", 60, options={"g": "15"})
    video = Video.open(tmp_path / "a.mp4", timeout=0.5, store=FrameStore())
    from videopro.video.decoding.reader import Reader

    original = Reader.is_needless

    def slow(self: Reader, packet: av.Packet) -> bool:
        time.sleep(0.2)
        return original(self, packet)

    monkeypatch.setattr(Reader, "is_needless", slow)
    threads, files, start = {*threading.enumerate()}, _open_files(), time.monotonic()
    with pytest.raises(VideoError, match=r"within 0\.5 s"):
        video.frames([14.5 / 24, 29.5 / 24, 44.5 / 24])
    assert time.monotonic() - start < 5
    # Threads of earlier tests may end meanwhile.
    assert {*threading.enumerate()} - threads == set()
    assert _open_files() == files


def test_damage_in_the_middle_never_passes_for_a_frame(tmp_path: Path) -> None:
    """Packets overwritten with zeros: what depends on them is an error, everything else stays exact."""
    path = tmp_path / "a.mp4"
    make(path, 100, options={"g": "20", "bf": "3"})
    with av.open(str(path)) as container:
        whole = [p.to_ndarray(format="rgb24") for p in container.decode(video=0)]
    video = Video.open(damage(path, (25, 26, 70)), store=FrameStore())
    outcomes: dict[int, str] = {}
    for number in range(100):
        try:
            (frame,) = video.frames([(number + 0.5) / 24])
        except VideoError as error:
            outcomes[number] = "error" if "damaged" in str(error) else str(error)
        else:
            outcomes[number] = "exact" if np.array_equal(frame.image, whole[number]) else "wrong"
    assert set(outcomes.values()) == {"exact", "error"}
    # Groups of pictures without damage are untouched: those of the key frames at 0, 40 and 80.
    for begin in (0, 40, 80):
        assert {outcomes[n] for n in range(begin, begin + 17)} == {"exact"}
    assert outcomes[30] == outcomes[35] == "error"  # well behind the damage, in the same group
    with pytest.raises(VideoError, match="damaged"):
        video.sample(50)


# ---- frames that are damaged ------------------------------------------------------------------------------


RATE = 10
X264 = {"g": "10", "bf": "0"}
"""A key frame each second, and every picture is decoded from the one before it."""


def encoded(path: Path, count: int = 100, **options: Any) -> Path:
    make(path, count, rate=RATE, **{"options": X264, **options})
    return path


def opened(path: Path, nearest_intact: float = 0.0) -> Video:
    return Video.open(path, store=FrameStore(), nearest_intact=nearest_intact)


def numbers(frames: Iterable[Frame]) -> list[int]:
    return [read_number(frame.image) for frame in frames]


def middles(count: int) -> list[float]:
    """A time within each picture."""
    return [(number + 0.5) / RATE for number in range(count)]


def test_the_nearest_intact_frame_stands_in_and_says_for_which_time(tmp_path: Path) -> None:
    """Packet 21 is damaged: pictures 21 to 29, until the key frame 30. Of the intact ones, 20 is shown at 2.0
    s and 30 at 3.0 s."""
    video = opened(damage(encoded(tmp_path / "a.mp4"), [21]), 1.0)
    times = [2.05, 2.25, 2.55, 3.0]
    # The same again, from the store, and in a stream.
    for frames in (video.frames(times), video.frames(times), list(video.stream(times))):
        assert numbers(frames) == [20, 20, 30, 30]
        told = [(frame.time, frame.wanted) for frame in frames]
        assert told == [(2.0, ()), (2.0, (2.25,)), (3.0, (2.55,)), (3.0, ())]
    # Ten times from 0.5 s on: only 2.5 s is damaged, and its stand-in is nobody else's picture.
    assert stand_ins_in(video.sample(10)) == ((2.5, 2.0),)
    # At 2.037 s the picture 20 is asked for itself, and is shown once.
    assert stand_ins_in(video.sample(27)) == ((2.407, 2.0), (2.778, 3.0))
    assert len(video.sample(27)) == 26


def test_what_is_too_far_away_does_not_stand_in(tmp_path: Path) -> None:
    path = damage(encoded(tmp_path / "a.mp4"), [21])
    assert opened(path, 0.45).frames([2.55])[0].time == 3.0
    with pytest.raises(
        VideoError, match=r"a\.mp4: the frame at 2\.550 s is damaged, and no frame within 0\.4 s"
    ):
        opened(path, 0.4).frames([2.55])
    with pytest.raises(VideoError, match=r"at 2\.550 s is damaged; .*--nearest-intact SECONDS"):
        opened(path).frames([0.5, 2.55])
    with pytest.raises(VideoError, match="--nearest-intact"):
        list(opened(path).stream([0.5, 2.55]))
    for seconds in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="nearest_intact"):
            opened(path, seconds)


HEVC = {"x265-params": "keyint=10:min-keyint=10:scenecut=0:bframes=0:log-level=none"}
VP9 = {"g": "10", "deadline": "realtime", "cpu-used": "8"}
MPEG2 = {"g": "10", "bf": "0", "b": "800k"}


@pytest.mark.parametrize(
    ("name", "codec", "options", "broken", "lost"),
    [
        ("a.mp4", "libx264", X264, [0], range(10)),
        ("a.mp4", "libx264", X264, [5, 47, 99], [*range(5, 10), *range(47, 50), 99]),
        ("a.mp4", "libx265", HEVC, [0, 33], [*range(10), *range(33, 40)]),
        ("a.webm", "libvpx-vp9", VP9, [33, 99], [*range(33, 40), 99]),
        ("a.mkv", "mpeg2video", MPEG2, [33, 40, 99], [*range(33, 50), 99]),
    ],
)
def test_each_frame_is_exact_or_stands_in(
    name: str, codec: str, options: dict[str, str], broken: Iterable[int], lost: Iterable[int], tmp_path: Path
) -> None:
    """Without B-frames, a damaged packet costs the pictures up to the next key frame: every tenth is one."""
    path = damage(encoded(tmp_path / name, codec=codec, options=options), list(broken))
    frames = opened(path, 60.0).frames(middles(100))
    # The same of each by itself.
    for number in (*list(lost)[:4], 99):
        (alone,) = opened(path, 60.0).frames([(number + 0.5) / RATE])
        assert (alone.time, alone.wanted) == (frames[number].time, frames[number].wanted)
    assert {number for number, frame in enumerate(frames) if frame.wanted} == set(lost)
    # The picture is that of its own time, and no intact one is nearer.
    assert numbers(frames) == [round(frame.time * RATE) for frame in frames]
    intact = [number / RATE for number in range(100) if number not in set(lost)]
    for middle, frame in zip(middles(100), frames, strict=True):
        if frame.wanted:
            assert abs(frame.time - middle) <= min(abs(each - middle) for each in intact) + 0.002


@pytest.mark.parametrize(
    ("name", "form", "codec"), [("a.ts", "mpegts", "libx264"), ("a.mpg", "vob", "mpeg2video")]
)
def test_what_a_stream_lost_never_passes_for_a_frame(
    name: str, form: str, codec: str, tmp_path: Path
) -> None:
    """Bytes of a transport or program stream are gone: what was decoded from them is damaged up to the next
    key frame, and all others are exact. (That a picture was lost as a whole, nothing in the file says.)"""
    options = {"g": "10", "bf": "2"}
    data = encoded(tmp_path / name, form=form, codec=codec, options=options).read_bytes()
    whole = [frame.image for frame in opened(tmp_path / name).frames(middles(100))]
    for place in (0.35, 0.5, 0.65):
        at = int(len(data) * place)
        (tmp_path / name).write_bytes(data[:at] + np.random.default_rng(0).bytes(500) + data[at + 500 :])
        video = opened(tmp_path / name, 5.0)
        frames = video.frames(middles(100))
        assert all(np.array_equal(f.image, whole[round(f.time * RATE)]) for f in frames)
        own = [number for number, frame in enumerate(frames) if round(frame.time * RATE) == number]
        assert 60 < len(own) < 100
        assert [frame.wanted for frame in video.stream(middles(100))] == [frame.wanted for frame in frames]


def test_hevc_with_a_part_of_a_packet_zeroed(tmp_path: Path) -> None:
    """FFmpeg's decoder makes a picture of what is left, and marks none."""
    path = encoded(tmp_path / "a.mp4", 20, codec="libx265", options=HEVC, size=(360, 640))
    whole = [frame.image for frame in opened(path).frames(middles(20))]
    damage(path, [14], share=0.5)
    frames = opened(path, 5.0).frames(middles(20))
    assert [number for number, frame in enumerate(frames) if frame.wanted] == [14, 15, 16, 17, 18, 19]
    assert all(np.array_equal(frame.image, whole[round(frame.time * RATE)]) for frame in frames)
    # Of one group of pictures too, for which other codecs get all threads.
    assert stand_ins_in(opened(path, 5.0).frames([1.45])) == ((1.45, 1.3),)


def test_hevc_with_remarks_that_the_decoder_does_not_understand(tmp_path: Path) -> None:
    """Before each picture stands an SEI (type 39 of H.265's table 7-1) whose payload, the colour volume
    of a mastering display (137), is shorter than it says. The pictures are intact."""
    encoded(tmp_path / "a.ts", codec="libx265", options=HEVC, form="mpegts")
    remark = b"\0\0\0\1\x4e\1" + bytes([137, 24, 1, 2, 3, 0x80])
    with av.open(str(tmp_path / "a.ts")) as source, av.open(str(tmp_path / "b.ts"), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.size:
                remarked = av.Packet(remark + bytes(packet))
                remarked.pts, remarked.dts, remarked.time_base = packet.pts, packet.dts, packet.time_base
                remarked.stream, remarked.is_keyframe = stream, packet.is_keyframe
                target.mux(remarked)
    assert numbers(opened(tmp_path / "b.ts").frames(middles(100))) == list(range(100))


def test_the_damaged_seconds(tmp_path: Path) -> None:
    """21 to 29, and 98 and 99; a sample that meets neither says nothing of them."""
    video = opened(damage(encoded(tmp_path / "a.mp4"), [21, 98]))
    assert video.damage(middles(100)) == [(2.1, 3.0), (9.8, 10.0)]
    assert video.damage([0.5, 2.99]) == [(2.1, 3.0)]
    assert video.damage([0.5, 2.09, 3.0, 9.79]) == []


# ---- a stream whose pictures change their size -------------------------------------------------------------


def square_or_wide(size: tuple[int, int]) -> np.ndarray:
    """A grey picture with a white square of a third of its height in its middle."""
    height, width = size
    side = height // 3
    picture = np.full((height, width, 3), 90, np.uint8)
    top, left = (height - side) // 2, (width - side) // 2
    picture[top : top + side, left : left + side] = 255
    return picture


def changing(path: Path, codec: str, sizes: list[tuple[int, int]], **options: str) -> Path:
    """A second of pictures of each size, in one track."""
    with av.open(str(path), "w") as container:
        track = None
        for part, size in enumerate(sizes):
            encoder = av.CodecContext.create(codec, "w")
            encoder.height, encoder.width, encoder.pix_fmt = *size, "yuv420p"
            encoder.time_base, encoder.framerate = Fraction(1, RATE), Fraction(RATE)
            encoder.options = options
            if track is None:
                track = container.add_stream(codec, rate=RATE)
                track.height, track.width, track.pix_fmt = *size, "yuv420p"
            pictures = []
            for number in range(RATE):
                picture = av.VideoFrame.from_ndarray(square_or_wide(size), format="rgb24")
                picture.pts, picture.time_base = part * RATE + number, Fraction(1, RATE)
                pictures.append(picture)
            for each in (*pictures, None):
                for packet in encoder.encode(each):
                    packet.stream, packet.time_base = track, Fraction(1, RATE)
                    container.mux(packet)
    return path


def white(image: np.ndarray) -> tuple[int, int]:
    """(height, width) of the white square."""
    rows, columns = np.where(image.mean(axis=2) > 180)
    return int(np.ptp(rows)) + 1, int(np.ptp(columns)) + 1


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [("a.ts", "libx264", {"bf": "0"}), ("a.webm", "libvpx-vp9", VP9), ("a.mkv", "libx264", {"bf": "0"})],
)
def test_a_picture_of_another_shape_is_not_stretched(
    name: str, codec: str, options: dict[str, str], tmp_path: Path
) -> None:
    """Wide, then square, tall, and wide but smaller: what is square stays square, with black margins beside
    the picture; one of the same shape fills the frame."""
    sizes = [(120, 240), (120, 120), (240, 120), (60, 120)]
    video = opened(changing(tmp_path / name, codec, sizes, **options))
    for size in (None, (60, 120)):
        frames = video.frames([0.55, 1.55, 2.55, 3.55], size=size)
        height, width = size or (120, 240)
        for frame, (own_height, own_width) in zip(frames, sizes, strict=True):
            assert frame.image.shape[:2] == (height, width)
            tall, wide = white(frame.image)
            assert abs(tall - wide) <= max(2, height // 40)
            # The picture fills the height; its width is in proportion, in the middle.
            filled = min(width, round(height * own_width / own_height))
            columns = np.where(frame.image[height // 10].mean(axis=1) > 45)[0]
            assert abs(len(columns) - filled) <= 2
            assert abs(columns[0] - (width - filled) // 2) <= 1


# ---- other kinds of files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.gif", "a.png"])
def test_animated_pictures_have_their_own_times(name: str, tmp_path: Path) -> None:
    """Pictures that are shown for different times, as GIF and APNG say."""
    lengths = [100, 200, 50, 300, 100, 500]
    pictures = [Image.fromarray(numbered(number)) for number in range(len(lengths))]
    pictures[0].save(tmp_path / name, save_all=True, append_images=pictures[1:], duration=lengths, loop=0)
    video = opened(tmp_path / name)
    starts = [sum(lengths[:number]) / 1000 for number in range(len(lengths))]
    frames = video.frames([start + 0.02 for start in starts])
    assert [frame.time for frame in frames] == pytest.approx(starts)
    assert numbers(frames) == list(range(len(lengths)))
    assert video.duration == pytest.approx(1.25)
