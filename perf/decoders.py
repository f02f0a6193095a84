"""The decoders that `perf/decode.py` compares, and the files that they decode. A contender's process imports
this file and no more, so that its peak memory is its own.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from perf.timing import Spent, timed

FRAMES = 64
HEIGHT, WIDTH, RATE = 360, 640, 24
TEN_MINUTES = 10 * 60 * RATE
_BITS, _TILE = 14, 16


def make_ten_minutes(path: Path) -> None:
    """14,400 pictures: a camera that pans over a texture, three moving squares, a little noise."""
    import av

    random = np.random.default_rng(0)
    texture = _smooth(random, HEIGHT + 400, WIDTH + 640, 40) + random.integers(
        -10, 11, (HEIGHT + 400, WIDTH + 640)
    )
    chroma = [_smooth(random, (HEIGHT + 400) // 2, (WIDTH + 640) // 2, 30) for _ in range(2)]
    noise = random.integers(-3, 4, (16, HEIGHT, WIDTH))
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE)
        stream.height, stream.width, stream.pix_fmt = HEIGHT, WIDTH, "yuv420p"
        for number in range(TEN_MINUTES):
            top = int(100 + 99 * np.sin(number / 171)) * 2
            left = int(160 + 159 * np.cos(number / 233)) * 2
            luma = texture[top : top + HEIGHT, left : left + WIDTH] + noise[number % 16]
            for square in range(3):
                x = int((number * (2 + square) + 200 * square) % (WIDTH - 60))
                y = int(200 + (90 - 20 * square) * np.sin(number / (15 + 4 * square)))
                luma[y : y + 50, x : x + 50] = 40 + 80 * square
            for bit in range(_BITS):
                luma[:_TILE, bit * _TILE : (bit + 1) * _TILE] = 235 if number >> bit & 1 else 16
            planes = [np.clip(luma, 16, 235).astype(np.uint8).ravel()]
            for plane in chroma:
                part = plane[top // 2 : (top + HEIGHT) // 2, left // 2 : (left + WIDTH) // 2]
                planes.append(np.clip(part, 16, 240).astype(np.uint8).ravel())
            picture = np.concatenate(planes).reshape(HEIGHT * 3 // 2, WIDTH)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="yuv420p")))
        container.mux(stream.encode())


def _smooth(random: np.random.Generator, height: int, width: int, cells: int) -> np.ndarray:
    from PIL import Image

    small = Image.fromarray(random.integers(30, 226, (cells, cells), dtype=np.uint8))
    return np.asarray(small.resize((width, height), Image.Resampling.BICUBIC)).astype(np.int16)


def make_sixty_minutes(ten: Path, path: Path) -> None:
    """The ten minutes' packets six times in a row: the same decoding work per minute, a file six times as
    long."""
    import av

    with av.open(str(path), "w") as out:
        stream = None
        for part in range(6):
            with av.open(str(ten)) as source:
                track = source.streams.video[0]
                stream = stream or out.add_stream_from_template(track)
                assert track.duration is not None
                for packet in source.demux(track):
                    if packet.pts is None or packet.dts is None:
                        continue
                    packet.pts += part * track.duration
                    packet.dts += part * track.duration
                    packet.stream = stream
                    out.mux(packet)


def read_number(picture: np.ndarray) -> int:
    """The number that a picture carries; the picture is (height, width, 3) RGB."""
    tiles = [picture[4 : _TILE - 4, bit * _TILE + 4 : (bit + 1) * _TILE - 4].mean() for bit in range(_BITS)]
    return sum(1 << bit for bit, tile in enumerate(tiles) if tile > 128)


def wanted(minutes: int) -> list[int]:
    """The numbers of the frames on display at the centres of 64 equal parts."""
    return [int((i + 0.5) * minutes * 60 * RATE / FRAMES) for i in range(FRAMES)]


def videopro(path: Path, numbers: list[int]) -> list[np.ndarray]:
    from videopro.video import FrameStore, Video

    return [frame.image for frame in Video.open(path, store=FrameStore()).sample(FRAMES)]


def decord(path: Path, numbers: list[int]) -> list[np.ndarray]:
    from decord import VideoReader

    return list(VideoReader(str(path)).get_batch(numbers).asnumpy())


def opencv(path: Path, numbers: list[int]) -> list[np.ndarray]:
    import cv2

    capture, pictures = cv2.VideoCapture(str(path)), []
    for number in numbers:
        capture.set(cv2.CAP_PROP_POS_FRAMES, number)
        read, picture = capture.read()
        assert read
        pictures.append(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB))
    capture.release()
    return pictures


def pyav(path: Path, numbers: list[int]) -> list[np.ndarray]:
    import av

    pictures = []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        assert stream.time_base is not None
        for number in numbers:
            target = int(Fraction(number, RATE) / stream.time_base)
            container.seek(target, stream=stream)
            for picture in container.decode(stream):
                if picture.pts is not None and picture.pts >= target:
                    pictures.append(picture.to_ndarray(format="rgb24"))
                    break
    return pictures


def torchcodec(path: Path, numbers: list[int]) -> list[np.ndarray]:
    from torchcodec.decoders import VideoDecoder

    decoder = VideoDecoder(str(path), dimension_order="NHWC", num_ffmpeg_threads=0)
    return list(decoder.get_frames_at(numbers).data.numpy())


CONTENDERS: dict[str, tuple[str, Callable[[Path, list[int]], list[np.ndarray]]]] = {
    "videopro": ("Video.open(...).sample(64)", videopro),
    "decord": ("VideoReader(...).get_batch(numbers)", decord),
    "opencv": ("set(CAP_PROP_POS_FRAMES) and read() a frame", opencv),
    "pyav": ("seek() and decode() a frame, thread_type AUTO", pyav),
    "torchcodec": ("VideoDecoder(...).get_frames_at(numbers), exact", torchcodec),
}
RIVALS = ("decord", "opencv", "pyav")  # the target is set against these; torchcodec is shown if it loads


def floor(path: Path, numbers: list[int]) -> Spent:
    """The time to decode only the necessary packets, on all processors."""
    import av

    from videopro.video.decoding.exact import processors
    from videopro.video.decoding.opening import Deadline
    from videopro.video.decoding.reader import Reader

    runs: list[list[av.Packet[Any]]] = []
    with av.open(str(path)) as container:
        reader = Reader(container, path, Deadline(600))
        assert reader.stream.time_base is not None
        by_key: dict[int, list[int]] = {}
        for number in numbers:
            tick = int(Fraction(number, RATE) / reader.stream.time_base)
            start = reader.start_before(tick, 0)
            assert start is not None
            by_key.setdefault(start.key, []).append(tick)
        for key, ticks in by_key.items():
            start = reader.start_before(key, 0)
            assert start is not None
            run, left = [], set(ticks)
            for packet in reader.packets_from(start):
                if packet.pts in left or not reader.is_needless(packet):
                    run.append(packet)
                left.discard(packet.pts or 0)
                if not left:
                    break
            runs.append(run)
        extradata = reader.context.extradata

    def work() -> None:
        context = av.CodecContext.create("h264", "r")
        context.extradata, context.thread_count = extradata, 1
        while runs:
            for packet in runs.pop():
                context.decode(packet)
            context.decode(None)
            context.flush_buffers()

    threads = [threading.Thread(target=work) for _ in range(processors())]
    with timed() as spent:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return spent


def run_one(name: str, path: str, minutes: int) -> dict[str, object]:
    """Seconds, exact frames and peak memory of one contender; called in a process of its own."""
    numbers = wanted(minutes)
    if name == "floor":
        spent = floor(Path(path), numbers)
        return {"seconds": spent.wall_s, "cpu_s": spent.cpu_s}
    contender = CONTENDERS[name][1]
    if name == "videopro":
        import videopro.video  # noqa: F401
    else:
        __import__({"opencv": "cv2", "pyav": "av"}.get(name, name))
    with timed() as spent:
        pictures = contender(Path(path), numbers)
    right = sum(read_number(p) == n % TEN_MINUTES for p, n in zip(pictures, numbers, strict=True))
    # Not ru_maxrss: it begins with what the parent had when it started this process.
    status = Path("/proc/self/status").read_text().splitlines()
    peak = int(next(line for line in status if line.startswith("VmHWM")).split()[1]) // 1024
    return {"seconds": spent.wall_s, "cpu_s": spent.cpu_s, "exact": right, "peak_mib": peak}


def versions() -> dict[str, str]:
    """The machine, and the versions of what decodes."""
    found = {
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} processors",
    }
    for name in ("av", "decord", "opencv-python-headless", "torchcodec"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
