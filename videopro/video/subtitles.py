"""Subtitles as lines with their times, from subtitle files and from tracks inside video files.

FFmpeg (through PyAV) reads SubRip, WebVTT and ASS, in files and in tracks alike; LongVideoBench's two JSON
shapes are read here. Every time is in seconds from the start of the video.
"""

from __future__ import annotations

import json
import math
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import av
import av.error
import chardet

from videopro.errors import SubtitleError, VideoError
from videopro.storage import encodable, parse_json
from videopro.video.decoding import Deadline, content_id, open_container, probe_video
from videopro.video.finding import SubtitleFiles, names_of
from videopro.video.subtitle_cues import SubtitleLine, decoded_cues, plain_text, read_cues, unrolled
from videopro.video.subtitle_tracks import SubtitleTrack, choose_tracks, lines_of, track_order

# Seconds; LongVideoBench widens the window of a shorter line to this.
_SHORTEST_WINDOW = 1.0
# Bytes; a day of speech has about one MiB.
_LARGEST = 256 << 20
# Characters of a wrong line that a message shows.
_LINE_CHARS = 200

# Byte order marks. That of UTF-32 begins with that of UTF-16, so it comes first.
_BYTE_ORDER_MARKS = (
    *((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32")),
    *((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")),
)
_CLOCK = re.compile(r"([-−–]?)(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d*)?)")


LineRule = Literal[
    "none",
    "frames",
    "frames_until",
    "frames_inside",
    "frames_widened",
    "interleaved",
    "interleaved_overlapping",
    "all",
]
"""The subtitle lines that a direct question shows, and where (`videopro.methods.native.shown_lines`)."""


@dataclass(frozen=True)
class Subtitles:
    """The lines of a video, sorted by start and then end, and where they come from."""

    lines: tuple[SubtitleLine, ...]
    source: str
    is_transcribed: bool = False
    """Whether a model transcribed them, perhaps with errors."""
    id: str = field(default="", compare=False)
    """Hash of the content: of the file that they are from (`content_id`), or of a transcript's lines."""

    def between(self, start: float, end: float) -> tuple[SubtitleLine, ...]:
        """The lines shown at some time in [start, end) seconds; a line without length is shown at its
        start."""
        return tuple(
            line for line in self.lines if line.start < end and (line.end > start or line.start >= start)
        )

    def at(self, time: float) -> tuple[SubtitleLine, ...]:
        """The lines shown at `time` seconds: start <= time < end."""
        return tuple(line for line in self.lines if line.start <= time < line.end or line.start == time)

    def visible_at(self, times: Sequence[float]) -> tuple[SubtitleLine, ...]:
        """The lines that LongVideoBench's protocol shows with frames sampled at `times` (seconds).

        A line counts if a frame lies strictly inside its window; a window under 1 s is first widened to 1 s
        round its middle (longvideobench_dataset.py of longvideobench/LongVideoBench).
        """
        return tuple(line for line in self.lines if _covers(line, times))

    def text(self) -> str:
        """The text of every line, separated by newlines."""
        return "\n".join(line.text for line in self.lines)


def load_subtitles(
    path: str | Path, *, duration: float | None = None, start_offset: float = 0.0, track: str | None = None
) -> Subtitles:
    """Read a subtitle file (.srt, .vtt, .ass or LongVideoBench's .json, recognised by content, or
    Video-MME-v2's .jsonl of words), or the text track of a video file that `embedded_subtitles` selects;
    `track` is for those.

    `start_offset` (seconds) is where the video begins on the file's clock; it is subtracted from every time.
    Lines that then end by 0 or, with `duration` (seconds), begin at the end or later are left out; others are
    cut to the video. A LongVideoBench line without an end lasts until the end of the video, so it needs
    `duration`. Rolling captions (YouTube's automatic ones repeat each row in the next cue) are returned with
    every row once. UTF-8, UTF-16 and UTF-32 are recognised by their byte order marks, other encodings are
    detected.

    Raises SubtitleError for a file that is missing, empty, undecodable or malformed. A file of a known format
    without any line is valid: nothing is said.
    """
    path = Path(path)
    if is_container(path):
        state = path.stat()
        embedded = _remembered_track(path, state.st_size, state.st_mtime_ns, track)
        lines = [
            replace(line, start=line.start - start_offset, end=line.end - start_offset)
            for line in embedded.lines
        ]
        return Subtitles(_cut(lines, duration), embedded.source, id=content_id(path))
    text = _decode(_read(path), path)
    if path.suffix.lower() == ".jsonl":
        return Subtitles(_cut(_sentences(text, path, start_offset), duration), str(path))
    if not text.strip():
        raise SubtitleError(
            f"{path} is empty; download it again, or leave it out if the video has no speech."
        )
    # An ASS file begins with a bracket too.
    if text.lstrip()[0] in "[{" and not text.lstrip().startswith("[Script Info]"):
        lines = list(_longvideobench(text, path, duration, start_offset))
    else:
        cues = unrolled(read_cues(text, path))
        lines = [SubtitleLine(line.start - start_offset, line.end - start_offset, line.text) for line in cues]
    return Subtitles(_cut(lines, duration), str(path), id=content_id(path))


def embedded_subtitles(
    video_path: str | Path, *, track: str | None = None, timeout: float = 120.0
) -> Subtitles:
    """Read a text track inside a video file (mov_text, SubRip, ASS, WebVTT).

    `track` is its number among the file's subtitle tracks (from 0), its language ("de", "ger" or "deu") or
    its title. Of several text tracks, one that says all is read, not a forced one, signs and songs, or a
    comment (`videopro.video.subtitle_tracks`); of several such tracks the default one, else the first. Times
    count from the start of the video, as those of frames do. `timeout` (seconds) bounds opening and reading.

    Raises SubtitleError, which lists the tracks, if there is no such track or it holds images (DVD, Blu-ray)
    instead of text, and VideoError if the file cannot be read as a video.
    """
    path = Path(video_path)
    probe = probe_video(path, timeout)
    deadline = Deadline(timeout)
    with open_container(path, deadline) as container:
        streams = container.streams.subtitles
        tracks = [SubtitleTrack.of(stream) for stream in streams]
        allowed = choose_tracks(tracks, str(path), track)
        # All that may be chosen, because which track is full shows only in the number of its lines.
        packets = _read_tracks(container, {streams[number].index for number in allowed}, path, deadline)
        counts = [lines_of(packets.get(stream.index, ())) for stream in streams]
        number = track_order(tracks, named=track, lines=counts)[0]
        cues = []
        for cue in decoded_cues(packets.get(streams[number].index, ()), streams[number]):
            deadline.check(path)
            cues.append(cue)
    origin = float(probe.origin)
    lines = [SubtitleLine(line.start - origin, line.end - origin, line.text) for line in unrolled(cues)]
    return Subtitles(_cut(lines, probe.duration), f"{path}, subtitle track {number}")


def _read_tracks(
    container: av.container.InputContainer, indices: Collection[int], path: Path, deadline: Deadline
) -> dict[int, list[av.Packet[Any]]]:
    """The packets of these streams, in one pass over the file, by the stream's index."""
    for stream in container.streams:
        if stream.index not in indices:
            stream.discard = av.stream.Discard.all
    packets: dict[int, list[av.Packet[Any]]] = {}
    for packet in container.demux([container.streams[index] for index in sorted(indices)]):
        deadline.check(path)
        packets.setdefault(packet.stream.index, []).append(packet)
    return packets


def has_embedded_subtitles(video_path: str | Path, *, timeout: float = 30.0) -> bool:
    """Whether an MP4, Matroska or AVI file has a text track for `embedded_subtitles`. Reads only the file's
    header, within `timeout` seconds. False for a file that cannot be read: opening the video reports that."""
    path = Path(video_path)
    if not is_container(path):
        return False
    try:
        with open_container(path, Deadline(timeout)) as container:
            tracks = [SubtitleTrack.of(stream) for stream in container.streams.subtitles]
    except VideoError:
        return False
    return any(track.is_text for track in tracks)


def subtitles_of(video: Path) -> Path | None:
    """The file of a video's subtitles: its own if it contains some, else one next to it (video.srt,
    video.en.srt); None if there are none. Raises SubtitleError if several files next to it may be meant."""
    if has_embedded_subtitles(video):
        return video
    return SubtitleFiles(video.parent.iterdir()).find(*names_of(video.stem))


@lru_cache(maxsize=8)
def _remembered_track(path: Path, size: int, changed: int, track: str | None) -> Subtitles:
    """Cached, because reading a track reads the whole file, for each question about the video."""
    return embedded_subtitles(path, track=track)


def is_container(path: Path) -> bool:
    """Whether a file begins like MP4, Matroska or AVI, whose subtitles are tracks."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(12)
    except (OSError, ValueError):
        return False
    return head[4:8] == b"ftyp" or head[:4] in (b"\x1a\x45\xdf\xa3", b"RIFF")


def _covers(line: SubtitleLine, times: Sequence[float]) -> bool:
    start, end = line.start, line.end
    if end - start < _SHORTEST_WINDOW:
        middle = (start + end) / 2
        start, end = middle - _SHORTEST_WINDOW / 2, middle + _SHORTEST_WINDOW / 2
    return any(start < time < end for time in times)


def _cut(lines: Iterable[SubtitleLine], duration: float | None) -> tuple[SubtitleLine, ...]:
    """The lines within the video, cut to its duration and sorted."""
    last = float("inf") if duration is None else duration
    cut = [
        SubtitleLine(max(line.start, 0.0), min(max(line.end, line.start), last), line.text)
        for line in lines
        if line.start < last and (line.end > 0 or line.start == 0)
    ]
    return tuple(sorted(cut, key=lambda line: (line.start, line.end)))


# ---- files ------------------------------------------------------------------------------------------------


def _read(path: Path) -> bytes:
    try:
        state = path.stat()
        # Reading a pipe or device could block forever.
        if stat.S_ISREG(state.st_mode) and state.st_size > _LARGEST:
            raise SubtitleError(
                f"{path} has {state.st_size >> 20} MiB, too large for subtitles; pass a subtitle file."
            )
        if not stat.S_ISREG(state.st_mode):
            raise SubtitleError(f"{path} cannot be read (not a file); it must be a readable file.")
        return path.read_bytes()
    except FileNotFoundError:
        raise SubtitleError(f"No subtitles at {path}; check the path, or run without subtitles.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise SubtitleError(f"{path} cannot be read ({reason}); it must be a readable file.") from None


def _decode(data: bytes, path: Path) -> str:
    encoding = next((name for mark, name in _BYTE_ORDER_MARKS if data.startswith(mark)), "utf-8")
    text = _decoded(data, encoding)
    if text is None and encoding == "utf-8":  # damaged, or an old encoding, or UTF-16 without its mark
        patched = data.decode("utf-8", "replace")
        bad = patched.count("�")
        # Mostly valid sequences are UTF-8 with some damage. Another encoding has hardly any valid ones.
        if 0 < bad < sum(character > "\x7f" for character in patched) - bad:
            raise SubtitleError(f"{path} is UTF-8 with {bad} invalid bytes; download or save it again.")
        detected = chardet.detect(
            data, encoding_era=chardet.EncodingEra.MODERN_WEB, prefer_superset=True, max_bytes=len(data)
        )
        text = _decoded(data, detected["encoding"]) if detected["encoding"] else None
    if text is None:
        raise SubtitleError(
            f"{path} is not text in any known encoding; save it as UTF-8, or download it again."
        )
    return text


def _decoded(data: bytes, encoding: str) -> str | None:
    """The text, or None if the bytes are not text in this encoding."""
    try:
        text = data.decode(encoding)
    except (UnicodeError, LookupError):
        return None
    return None if "\0" in text else encodable(text)


def _longvideobench(
    text: str, path: Path, duration: float | None, start_offset: float
) -> Iterator[SubtitleLine]:
    try:
        records = parse_json(text.lstrip("\ufeff"))
    except ValueError as error:
        raise SubtitleError(f"{path} is invalid JSON ({error}); download it again.") from None
    if not isinstance(records, list):
        raise SubtitleError(f"{path} is not a list of lines in LongVideoBench's format.")
    for number, record in enumerate(records):
        try:
            if "timestamp" in record:
                (start, end), line_text = record["timestamp"], record["text"]
            else:
                start, end, line_text = record["start"], record["end"], record["line"]
            begins = _seconds(start) - start_offset
            if end is not None:
                ends = _seconds(end) - start_offset
            elif duration is not None:
                # The official loader subtracts start_offset from this end too, which puts it before the
                # start.
                ends = duration
            else:
                raise SubtitleError(f"{path}: line {number} has no end; pass the duration of the video.")
            if plain := plain_text(line_text):
                yield SubtitleLine(begins, ends, plain)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SubtitleError(
                f"{path}: line {number} is not in LongVideoBench's format ({type(error).__name__}: "
                f"{str(error)[:_LINE_CHARS]}); it needs start, end and line, or timestamp and text: "
                f"{json.dumps(record)[:_LINE_CHARS]}"
            ) from None


def _sentences(text: str, path: Path, start_offset: float) -> list[SubtitleLine]:
    """The words of Video-MME-v2's file as its authors join them: a line ends at a pause of half a second, and
    after . ! or ? at one of a tenth (group_subtitle_segments of evaluation/test_video_mme_v2.py)."""
    lines: list[SubtitleLine] = []
    for number, row in enumerate(text.splitlines(), start=1):
        if not row.strip():
            continue
        try:
            record = parse_json(row)
            word = str(record["text"])
            start, end = (_seconds(record[name]) - start_offset for name in ("start_time", "end_time"))
        except (KeyError, TypeError, ValueError) as error:
            raise SubtitleError(
                f"{path}: line {number} is not a word with text, start_time and end_time ({error}): "
                f"{row[:_LINE_CHARS]}"
            ) from None
        pause = start - lines[-1].end if lines else math.inf
        if pause > 0.5 or (pause > 0.1 and lines[-1].text.rstrip().endswith((".", "!", "?"))):
            lines.append(SubtitleLine(start, end, word))
        else:
            lines[-1] = SubtitleLine(lines[-1].start, end, f"{lines[-1].text} {word}")
    return lines


def _seconds(clock: object) -> float:
    """Parse seconds from a number or "H:M:S.f". Raises ValueError for anything else."""
    if isinstance(clock, int | float) and not isinstance(clock, bool):
        return float(clock)
    match = _CLOCK.fullmatch(clock.strip()) if isinstance(clock, str) else None
    sign, *parts = match.groups("0") if match else ("", 0, 0, math.nan)
    hours, minutes, seconds = map(float, parts)
    time = (hours * 3600 + minutes * 60 + seconds) * (-1 if sign else 1)
    if not math.isfinite(time):
        raise ValueError(f"{str(clock)[:_LINE_CHARS]!r} is not a time")
    return time
