"""Compares indexing a video by 10-second clips with the paper's release, which cuts the file every 10 s
into mp4 files, then opens and decodes each. The encoder is the same.

    python -m perf.index [--encoder pocket] [--minutes 10] [--work FOLDER] [--rounds 3] [--output FILE]

The file is that of perf/decode.py (640x360 H.264, x264's defaults), or its beginning. Each way runs in its
own process; the time is from opening the file to all embeddings, without imports and loading the encoder. The
release copies packets, so its clips begin at key frames; cutting exactly means re-encoding. Both are
measured: decord reads each clip, as LanguageBind's own preprocessing does, and the encoder scales the frames.
`early_s` is the most that a clip's first frame precedes the clip, in seconds. Writes perf/index.json.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import numpy as np

from perf import ROOT
from perf.child import ChildFailed, call_in_child
from perf.command import run_command
from perf.decoders import RATE, make_ten_minutes, read_number, versions
from perf.recorded import print_tables
from perf.recording import write_record
from perf.timing import timed
from videopro.cli import setting
from videopro.modules.models.encoders import VideoTextEncoder, load_encoder
from videopro.modules.search import build_index, clip_bounds
from videopro.video import Frame, FrameStore, Video


@dataclass(frozen=True)
class IndexSettings:
    """Compare indexing a video by its clips with cutting it into files first, as the release does."""

    encoder: str = field(default="pocket", metadata=setting("as in --encoder of videopro index"))
    minutes: float = field(default=10.0, metadata=setting("length of the file, at most 10"))
    work: Path | None = field(
        default=None, metadata=setting("folder that keeps the file for the next run; unset: a temporary one")
    )
    rounds: int = field(default=3, metadata=setting("rounds; in each, every way runs once"))
    output: Path = field(default=ROOT / "perf" / "index.json", metadata=setting("file for the results"))


def ours(path: Path, encoder: VideoTextEncoder, scratch: Path) -> tuple[np.ndarray, float]:
    first: list[float] = []
    embed = encoder.encode_clips

    def noting(clips: Sequence[Sequence[Frame]]) -> np.ndarray:
        first.extend(clip[0].time for clip in clips)
        return embed(clips)

    with patch.object(encoder, "encode_clips", noting):
        index = build_index(Video.open(path, store=FrameStore()), encoder, root=scratch)
    return index.vectors, max(
        max(0.0, start - time) for (start, _), time in zip(index.clips, first, strict=True)
    )


def cut_by_copy(path: Path, encoder: VideoTextEncoder, scratch: Path) -> tuple[np.ndarray, float]:
    return _cut_and_embed(path, encoder, scratch, _copied)


def cut_by_encoding(path: Path, encoder: VideoTextEncoder, scratch: Path) -> tuple[np.ndarray, float]:
    return _cut_and_embed(path, encoder, scratch, _encoded)


WAYS: dict[str, Callable[[Path, VideoTextEncoder, Path], tuple[np.ndarray, float]]] = {
    "videopro": ours,
    "cut by copying (the release)": cut_by_copy,
    "cut exactly, encoding anew": cut_by_encoding,
}


def _cut_and_embed(
    path: Path,
    encoder: VideoTextEncoder,
    scratch: Path,
    cut: Callable[[Path, tuple[tuple[float, float], ...], Path], Iterator[Path]],
) -> tuple[np.ndarray, float]:
    import decord

    bounds = clip_bounds(Video.open(path).duration)
    rows, worst = [], 0.0
    for (start, _), clip in zip(bounds, cut(path, bounds, scratch), strict=True):
        reader = decord.VideoReader(str(clip))
        numbers = np.linspace(0, len(reader) - 1, encoder.clip_frames).astype(int)
        pictures = reader.get_batch(numbers).asnumpy()
        worst = max(worst, start - read_number(pictures[0]) / RATE)
        rows.append(encoder.encode_clips([[Frame(picture, 0.0) for picture in pictures]]))
    return np.concatenate(rows), worst


def _copied(path: Path, bounds: tuple[tuple[float, float], ...], folder: Path) -> Iterator[Path]:
    """Copies packets from the key frame at or before each bound, as `ffmpeg -ss ... -c copy` does."""
    import av

    for number, (start, end) in enumerate(bounds):
        target = folder / f"{number}.mp4"
        with av.open(str(path)) as source, av.open(str(target), "w") as out:
            track = source.streams.video[0]
            assert track.time_base is not None
            copy = out.add_stream_from_template(track)
            source.seek(int(start / track.time_base), stream=track)
            first = None
            for packet in source.demux(track):
                if packet.pts is None or packet.dts is None:
                    continue
                first = packet.dts if first is None else first
                if packet.dts * track.time_base >= end:
                    break
                packet.pts, packet.dts, packet.stream = packet.pts - first, packet.dts - first, copy
                out.mux(packet)
        yield target


def _encoded(path: Path, bounds: tuple[tuple[float, float], ...], folder: Path) -> Iterator[Path]:
    """Re-encodes every picture of a clip with x264's fastest preset."""
    import av
    from av.video.frame import PictureType

    with av.open(str(path)) as source:
        track = source.streams.video[0]
        track.thread_type = "AUTO"
        pictures = source.decode(track)
        waiting = next(pictures, None)
        for number, (_, end) in enumerate(bounds):
            target = folder / f"{number}.mp4"
            with av.open(str(target), "w") as out:
                stream = out.add_stream("libx264", rate=RATE, options={"preset": "ultrafast", "crf": "18"})
                stream.height, stream.width, stream.pix_fmt = track.height, track.width, "yuv420p"
                stream.codec_context.time_base = Fraction(1, RATE)
                count = 0
                while waiting is not None and waiting.time is not None and waiting.time < end - 1e-6:
                    waiting.pts, waiting.time_base = count, Fraction(1, RATE)
                    waiting.pict_type = PictureType.NONE  # otherwise the source's frame types are forced
                    out.mux(stream.encode(waiting))
                    waiting, count = next(pictures, None), count + 1
                out.mux(stream.encode(None))
            yield target


def run_one(way: str, path: str, spec: str) -> dict[str, object]:
    """Seconds, clips and early frames of one way; called in a process of its own."""
    encoder = load_encoder(spec)
    encoder.encode_clips([[Frame(np.zeros((360, 640, 3), np.uint8), 0.0)] * encoder.clip_frames])
    if way != "videopro":
        import decord  # noqa: F401
    with tempfile.TemporaryDirectory() as scratch, timed() as spent:
        vectors, worst = WAYS[way](Path(path), encoder, Path(scratch))
    return {"seconds": spent.wall_s, "cpu_s": spent.cpu_s, "clips": len(vectors), "early_s": round(worst, 3)}


def cut_first_minutes(ten: Path, minutes: float, path: Path) -> None:
    """Copy the packets of the first minutes to `path`."""
    import av

    with av.open(str(ten)) as source, av.open(str(path), "w") as out:
        track = source.streams.video[0]
        copy = out.add_stream_from_template(track)
        for packet in source.demux(track):
            if packet.dts is not None and packet.pts is not None:
                if packet.dts * (track.time_base or 1) >= minutes * 60:
                    break
                packet.stream = copy
                out.mux(packet)


def compare(settings: IndexSettings) -> None:
    """Make the file, measure, print the table and write it. Raises ChildFailed if a way fails."""
    runs: dict[str, list[dict[str, object]]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as scratch:
        work = settings.work or Path(scratch)
        work.mkdir(parents=True, exist_ok=True)
        ten, path = work / "ten.mp4", work / f"first-{settings.minutes:g}.mp4"
        if not ten.exists():
            print("making the file (about half a minute)", flush=True)
            make_ten_minutes(ten.with_suffix(".part.mp4"))
            ten.with_suffix(".part.mp4").rename(ten)
        cut_first_minutes(ten, settings.minutes, path)
        for _ in range(settings.rounds):
            for name in WAYS:
                try:
                    figures = call_in_child(
                        "perf.index:run_one", name, str(path.absolute()), settings.encoder, timeout=1800
                    )
                except ChildFailed as error:
                    raise ChildFailed(f"{name}: {error}") from error
                runs[name].append(figures)
    rows = {}
    for name, results in runs.items():
        seconds = [float(str(result["seconds"])) for result in results]
        rows[name] = {
            "best_s": round(min(seconds), 3),
            "median_s": round(statistics.median(seconds), 3),
            "median_cpu_s": round(statistics.median(float(str(result["cpu_s"])) for result in results), 3),
            "clips": results[-1]["clips"],
            "early_s": results[-1]["early_s"],
        }
    release = rows["cut by copying (the release)"]["best_s"]
    for row in rows.values():
        row["times_faster_than_release"] = round(float(str(release)) / float(str(row["best_s"])), 2)
    result = {
        "results": rows,
        "minutes": settings.minutes,
        "encoder": settings.encoder,
        "rounds": settings.rounds,
        "versions": versions(),
    }
    write_record(settings.output, result, indent=2)
    print_tables("perf/index.json", result)


if __name__ == "__main__":
    run_command(IndexSettings, compare)
