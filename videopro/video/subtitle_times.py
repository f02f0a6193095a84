"""The lines of times in .srt, .vtt and .ass files, before FFmpeg reads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

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
        f"{path}: {row.strip()[:_LINE_CHARS]!r} is not a line of times; write it as "
        "00:01:02,500 --> 00:01:04,000 (.srt), 00:01:02.500 --> 00:01:04.000 (.vtt, with an empty line "
        "before) or Dialogue: 0,0:01:02.50,0:01:04.00,... (.ass)."
    )


def without_signs(text: str, kind: SubtitleKind) -> tuple[str, int]:
    """The text with every time so many whole hours later that none is negative, and those hours: 0 for a text
    without negative times, which is returned as it is."""
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
    # Whole hours, so that minutes, seconds and fractions stay as they are written.
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
