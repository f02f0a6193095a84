"""Files that are not videos, or are damaged: one clear error, in bounded time, with nothing left open or
running."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from tests.support.making_videos import box, damage, make
from videopro.errors import VideoError
from videopro.video import FrameStore, Video


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
    "still picture": (_picture, "is a still picture, not a video"),
    "playlist": (_playlist, "cannot read it as a video"),
    "pipe": (os.mkfifo, "pipe or device"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "pipe or device"),
    "cut mp4": (_cut("a.mp4", 0.5), "cut off"),
    "cut mp4, all but the end": (_cut("a.mp4", 0.99, {"movflags": "faststart"}), "cut off"),
    "cut mkv": (_cut("a.mkv", 0.6), "cut off"),
    "cut avi": (_cut("a.avi", 0.6), "cut off"),
    "cut fragments": (_cut("a.mp4", 0.6, {"movflags": "frag_keyframe+empty_moov"}), "cut off"),
    "hours without data": (_hours_without_data, "cut off"),
    "sixty million samples": (_absurd_counts(100), "cut off"),
    "sixty million samples of no size": (_absurd_counts(0), "60000000 pictures"),
    "nothing inside": (_no_pictures_inside, "holds no picture"),
    "time scale of 0": (_patched((b"mdhd", 12, 0)), "time scale of its video is 0"),
    "pictures of days": (_patched((b"stts", 12, 0x7FFFFFFF)), "its pictures last for 6,990,507 s"),
    "pictures of less than no time": (_patched((b"stts", 12, 0x80000001)), "and its header says 2 s"),
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
    threads, files, start = threading.active_count(), _open_files(), time.monotonic()
    with pytest.raises(VideoError, match=r"clip\.mp4") as caught:
        Video.open(path, timeout=5)
    assert words.format(path=path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - start < 6
    assert (threading.active_count(), _open_files()) == (threads, files)


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
    threads, files, start = threading.active_count(), _open_files(), time.monotonic()
    with pytest.raises(VideoError, match=r"within 0\.5 s"):
        video.frames([14.5 / 24, 29.5 / 24, 44.5 / 24])
    assert time.monotonic() - start < 5
    assert (threading.active_count(), _open_files()) == (threads, files)


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
