"""The cues of .srt, .vtt and .ass files and of text tracks: FFmpeg (PyAV) reads them, and what it
would drop or misread is refused before. pysubs2, which writes our files, does not read them: it takes notes
and names of cues in .vtt for speech, and drops the sign and the hundreds of hours of a time.
"""

from __future__ import annotations

import contextlib
import html
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import av
import av.error
from av.subtitles.stream import SubtitleStream
from av.subtitles.subtitle import AssSubtitle

from videopro.errors import SubtitleError

SubtitleKind = Literal["srt", "webvtt", "ass"]

# Characters of a wrong line that a message shows.
_LINE_CHARS = 200

# A row that is meant as a line of times. Bounded: an endless row must not stall a run.
TIMES = re.compile(r"^\s*[-−–]?\d+:\S{0,999}\s{0,99}-{1,9}>\s*[-−–]?\d")
# Times that FFmpeg reads correctly; it turns numbers with more digits into other times, or drops them. It
# loses the sign of a time before the start, which tools that shift subtitles write: see `without_signs`.
_NUMBERS = r"[-−–]?\d{1,9}(?::\d{1,9}){1,2}(?:[.,]\d{0,9})?(?![\w:])"
_CLOCKS = re.compile(rf"^\s*{_NUMBERS}\s*-+>\s*{_NUMBERS}")
_DIALOGUE = re.compile(r"^Dialogue:[^,]*(?:,\s*[-−–]?\d{1,9}:\d{1,9}:\d{1,9}[^\d,]\d{1,9}\s*){2},")
_CLOCK = re.compile(
    r"(?P<sign>[-−–]?)(?:(?P<h>\d+):)?(?P<m>\d+):(?P<s>\d+)(?:(?P<point>[^\d\s])(?P<rest>\d+))?"
)


# Seconds; the cues of a rolling caption touch, but some writers leave this gap.
_TOUCHING = 0.05
# Rows that a rolling caption may repeat.
_MOST_ROWS = 20
_OVERRIDE = re.compile(r"\{\\[^}]*\}")
_OVERRIDE_OR_COMMENT = re.compile(r"\{[^}]*\}")
_DRAWING = re.compile(r"\\p(\d)")
# What is compared is no tag: "a <b and b> c", "1 < i > 2". So a name stands right after the bracket, and one
# of a letter is followed by classes (WebVTT), or by attributes with their values, alone.
_TAG = re.compile(
    r"</?(?:font|i|b|u|s|em|strong|c|v|ruby|rt|lang|span|small|big|p|div)(?:\.[^\s<>.]+)*/?>"
    r"|<(?:font|em|strong|ruby|lang|span|small|big|div)\s[^<>]*>"
    r"|<[ibuscp](?:\s+[\w-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s<>]+))+\s*/?>"
    r"|<(?:\d+:)?\d\d:\d\d[.,]\d{3}>",
    re.IGNORECASE,
)
_VOICE = re.compile(r"<v(?:\.[^\s<>.]+)*\s[^<>]*>")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


@dataclass(frozen=True)
class SubtitleLine:
    """A text shown from `start` to `end` (seconds of the video); newlines separate its rows."""

    start: float
    end: float
    text: str


def read_cues(text: str, path: Path) -> list[SubtitleLine]:
    start = text.lstrip("\ufeff \t\r\n")
    kind: SubtitleKind
    if start.startswith("WEBVTT"):
        kind = "webvtt"
    elif start.startswith("[Script Info]"):
        kind = "ass"
    elif any(TIMES.match(row) for row in text.splitlines()):
        kind = "srt"
    else:
        raise SubtitleError(
            f"{path} is not a .srt, .vtt, .ass or LongVideoBench .json file: it has no times."
        )
    check_times(start, kind, path)
    start, hours = without_signs(start, kind)
    try:
        with av.open(io.BytesIO(start.encode()), mode="r", format=kind) as container:
            cues = [cue for track in container.streams.subtitles for cue in packets(container, track)]
    except av.error.FFmpegError as error:
        raise SubtitleError(
            f"{path} cannot be read as {kind} ({error.strerror}); download or write it again."
        ) from None
    for cue in cues:
        for row in cue.text.splitlines():
            if TIMES.match(row):
                raise no_times(path, row)
    if hours:
        cues = [
            replace(cue, start=round(cue.start - 3600 * hours, 3), end=round(cue.end - 3600 * hours, 3))
            for cue in cues
        ]
    return cues


# ---- lines of times ---------------------------------------------------------------------------------------


def check_times(text: str, kind: SubtitleKind, path: Path) -> None:
    """Refuse a line of times that FFmpeg would skip or read as other times."""
    for row in text.splitlines():
        if kind == "ass":
            wrong = row.startswith("Dialogue:") and not _DIALOGUE.match(row)
        else:
            wrong = bool(TIMES.match(row)) and not _CLOCKS.match(row)
        if wrong:
            raise no_times(path, row)


def no_times(path: Path, row: str) -> SubtitleError:
    return SubtitleError(
        f"{path}: {row.strip()[:_LINE_CHARS]!r} is not a line with times; write it as 00:01:02,500 --> "
        "00:01:04,000 (.srt), 00:01:02.500 --> 00:01:04.000 (.vtt, with an empty line before) or Dialogue: "
        "0,0:01:02.50,0:01:04.00,... (.ass)."
    )


def without_signs(text: str, kind: SubtitleKind) -> tuple[str, int]:
    """The text with every time so many whole hours later that none is negative, and those hours: 0 for a text
    without negative times, which is returned unchanged."""
    times = _DIALOGUE if kind == "ass" else _CLOCKS
    # The last part of a clock counts hundredths in ASS; FFmpeg reads it as a whole number.
    parts = 100 if kind == "ass" else 1000
    rows = text.splitlines(keepends=True)
    matches = [(number, match) for number, row in enumerate(rows) if (match := times.match(row))]

    def count(clock: re.Match[str]) -> int:
        hours, minutes, seconds = (int(clock[name] or 0) for name in ("h", "m", "s"))
        units = (hours * 3600 + minutes * 60 + seconds) * parts + int((clock["rest"] or "0")[:3])
        return -units if clock["sign"] else units

    first = min((count(clock) for _, row in matches for clock in _CLOCK.finditer(row[0])), default=0)
    # Whole hours, so that minutes, seconds and fractions stay as written.
    hours = -(first // (3600 * parts)) if first < 0 else 0
    if not hours:
        return text, 0

    def later(clock: re.Match[str]) -> str:
        seconds, fraction = divmod(count(clock) + hours * 3600 * parts, parts)
        minutes, seconds = divmod(seconds, 60)
        digits = f"{fraction:02}" if kind == "ass" else f"{fraction:03}"
        return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}{clock['point'] or '.'}{digits}"

    for number, match in matches:
        rows[number] = _CLOCK.sub(later, match[0]) + rows[number][match.end() :]
    return "".join(rows), hours


# ---- tracks -----------------------------------------------------------------------------------------------


def packets(container: av.container.InputContainer, track: SubtitleStream) -> Iterator[SubtitleLine]:
    """The cues of a track as FFmpeg returns them: sorted by time."""
    return decoded_cues(container.demux(track), track)


def decoded_cues(packets: Iterable[av.Packet[Any]], track: SubtitleStream) -> Iterator[SubtitleLine]:
    codec = track.codec_context.name
    for packet in packets:
        # PyAV ends with an empty packet, which has no time.
        if packet.pts is None or packet.time_base is None:
            continue
        start = float(packet.pts * packet.time_base)
        end = start + float((packet.duration or 0) * packet.time_base)
        for text in _texts(packet, codec):
            if plain := plain_text(text):
                yield SubtitleLine(start, end, plain)


def _texts(packet: av.Packet[Any], codec: str) -> Iterator[str]:
    """The texts of a packet without what is no HTML. Those of SubRip and WebVTT are read as written:
    FFmpeg takes all between < and > for a tag, and what follows a < without one too."""
    if codec in ("subrip", "srt", "webvtt"):
        text = _unstyled(bytes(packet).decode("utf-8", "replace"), comments=False)
        yield _VOICE.sub("", text) if codec == "webvtt" else text
        return
    for cue in packet.decode():
        if isinstance(cue, AssSubtitle):
            # ReadOrder, Layer, Style, Name, MarginL, MarginR, MarginV, Effect, Text
            yield _unstyled(cue.ass.decode("utf-8", "replace").split(",", 8)[-1], codec in ("ass", "ssa"))


# ---- text -------------------------------------------------------------------------------------------------


def _unstyled(text: str, comments: bool) -> str:
    """ASS text without override codes and drawings; braces without a code are comments in ASS tracks only."""
    parts, drawing, last = [], False, 0
    # Nothing matches after the last closing brace, and trying every opening brace there would be slow.
    closed = text.rfind("}") + 1
    for block in (_OVERRIDE_OR_COMMENT if comments else _OVERRIDE).finditer(text, 0, closed):
        if not drawing:
            parts.append(text[last : block.start()])
        last = block.end()
        if modes := _DRAWING.findall(block[0]):
            drawing = modes[-1] != "0"
    if not drawing:
        parts.append(text[last:])
    return "".join(parts).replace(r"\h", " ").replace(r"\N", "\n").replace(r"\n", "\n")


def plain_text(text: str) -> str:
    """Text without tags and entities; rows are stripped and empty rows left out."""
    text = _TAG.sub("", _BREAK.sub("\n", text))
    # An entity with thousands of digits is not a character.
    with contextlib.suppress(ValueError):
        text = html.unescape(text)
    text = text.replace("\xa0", " ")
    return "\n".join(row for row in (row.strip() for row in text.splitlines()) if row)


def unrolled(cues: Sequence[SubtitleLine]) -> list[SubtitleLine]:
    """The cues, or for rolling captions their rows: each row as one line from the cue in which it is new.

    In rolling captions a cue opens with the last rows of the previous cue. Captions count as rolling if more
    than half of the cues do so; people also repeat themselves ("No!" "No!").
    """
    rows = [cue.text.splitlines() for cue in cues]
    repeated = [0] * len(cues)
    for i in range(1, len(cues)):
        if cues[i].start - cues[i - 1].end <= _TOUCHING:
            shared = min(len(rows[i]), len(rows[i - 1]), _MOST_ROWS)
            repeated[i] = max((n for n in range(1, shared + 1) if rows[i][:n] == rows[i - 1][-n:]), default=0)
    if len(cues) < 3 or sum(n > 0 for n in repeated) <= len(cues) / 2:
        return list(cues)
    lines: list[SubtitleLine] = []
    for cue, cue_rows, n in zip(cues, rows, repeated, strict=True):
        lines += [SubtitleLine(cue.start, cue.end, row) for row in cue_rows[n:]]
        if n == len(cue_rows):  # nothing new: what was on stays on
            lines[-1] = replace(lines[-1], end=max(lines[-1].end, cue.end))
    return lines
