"""Compares decoders: 64 exact uniform frames from a 10-minute and a 60-minute H.264 file.

    python perf/decode.py [--work FOLDER] [--rounds 3]

Makes the files (x264's defaults: B-frames, a key frame at least every 250 frames; 640x360, 24 frames per
second, moving textured content, no cuts), runs each contender on its documented fast path in its own process,
prints a table and writes perf/decode.json. Every picture carries its number, so that the returned frames can
be checked against the requested ones. The time is from opening the file to 64 RGB arrays in memory, without
imports.

The floor is the time to decode, on all processors, only the packets that the 64 frames need: packets already
in memory, no seeking, conversion or copying.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

FRAMES = 64
HEIGHT, WIDTH, RATE = 360, 640, 24
TEN_MINUTES = 10 * 60 * RATE
_BITS, _TILE = 14, 16
RESULTS = Path(__file__).with_suffix(".json")


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


def floor(path: Path, numbers: list[int]) -> float:
    """Seconds to decode only the necessary packets, on all processors."""
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
    start_time = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start_time


def run_one(name: str, path: Path, minutes: int) -> dict[str, object]:
    """Seconds, exact frames and peak memory of one contender; called in a process of its own."""
    numbers = wanted(minutes)
    if name == "floor":
        return {"seconds": floor(path, numbers)}
    contender = CONTENDERS[name][1]
    if name == "videopro":
        import videopro.video  # noqa: F401
    else:
        __import__({"opencv": "cv2", "pyav": "av"}.get(name, name))
    start = time.perf_counter()
    pictures = contender(path, numbers)
    seconds = time.perf_counter() - start
    right = sum(read_number(p) == n % TEN_MINUTES for p, n in zip(pictures, numbers, strict=True))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"seconds": seconds, "exact": right, "peak_mib": peak}


def in_process(name: str, path: Path, minutes: int) -> dict[str, object] | None:
    """`run_one` in a new process; None if the contender is not installed."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", name, str(path), str(minutes)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode != 0:
        print(f"{name}: not measured ({done.stderr.strip().splitlines()[-1]})", file=sys.stderr)
        return None
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure(files: dict[int, Path], rounds: int) -> dict[str, object]:
    """Measure in rounds, so that a busy moment of the machine does not hit one contender alone."""
    runs: dict[tuple[str, int], list[dict[str, object]]] = {}
    missing: set[str] = set()
    for _ in range(rounds):
        for minutes, path in files.items():
            for name in (*CONTENDERS, "floor"):
                result = None if name in missing else in_process(name, path, minutes)
                if result is None:
                    missing.add(name)
                else:
                    runs.setdefault((name, minutes), []).append(result)
    table: dict[str, object] = {}
    for minutes in files:
        rows: dict[str, dict[str, object]] = {}
        for name in (*CONTENDERS, "floor"):
            results = runs.get((name, minutes))
            if results:
                seconds = [float(str(r["seconds"])) for r in results]
                rows[name] = {
                    "best_s": round(min(seconds), 3),
                    "median_s": round(statistics.median(seconds), 3),
                    **({} if name == "floor" else {k: results[-1][k] for k in ("exact", "peak_mib")}),
                }
        fastest = min(float(str(rows[name]["best_s"])) for name in RIVALS if name in rows)
        for row in rows.values():
            row["of_fastest_rival"] = round(float(str(row["best_s"])) / fastest, 3)
        table[f"{minutes} min"] = rows
    return table


def versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

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


def show(table: dict[str, object]) -> None:
    for length, rows in table.items():
        assert isinstance(rows, dict)
        print(
            f"\n{FRAMES} uniform frames from {length}   best s  median s  of fastest rival  exact  peak MiB"
        )
        for name, row in rows.items():
            exact = f"{row['exact']}/{FRAMES}" if "exact" in row else ""
            print(
                f"  {name:<33}{row['best_s']:>8.2f}{row['median_s']:>10.2f}{row['of_fastest_rival']:>18.2f}"
                f"{exact:>7}{row.get('peak_mib', ''):>10}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--work", type=Path, help="folder that keeps the files for the next run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--make-only", action="store_true", help="make the files in --work and stop")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, path, minutes = options.one
        print(json.dumps(run_one(name, Path(path), int(minutes))))
        return
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        files = {10: work / "ten.mp4", 60: work / "sixty.mp4"}
        if not files[60].exists():
            print("making the files (about a minute)", flush=True)
            make_ten_minutes(files[10])
            make_sixty_minutes(files[10], files[60].with_suffix(".part.mp4"))
            files[60].with_suffix(".part.mp4").rename(files[60])
        if options.make_only:
            return
        table = measure(files, options.rounds)
    show(table)
    ways = {name: way for name, (way, _) in CONTENDERS.items()}
    result = {"results": table, "ways": ways, "versions": versions(), "rounds": options.rounds}
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
