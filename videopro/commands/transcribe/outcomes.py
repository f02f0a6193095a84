"""What became of each video, and the table at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from videopro.cli import TextTable
from videopro.commands.transcribe.subtitle_files import Written
from videopro.modules.models import Transcript

_MOST_ROWS = 20
"""Videos that the table lists one by one."""


@dataclass(frozen=True)
class Outcome:
    """What became of a video."""

    path: Path
    transcript: Transcript | None = None
    problem: str = ""
    """Why there is no transcript; "" if that was printed when it happened."""
    written: Written | None = None

    @property
    def kind(self) -> str:
        if self.transcript is None:
            return "failed"
        if not self.transcript.has_sound:
            return "no sound"
        if not self.transcript.lines:
            return "nothing said"
        return "transcribed" if self.transcript.is_new else "was there"


@dataclass
class Outcomes:
    """What became of all videos so far."""

    with_subtitles: int = 0
    """Videos that were left out, because their subtitles are listed."""
    rows: list[Outcome] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        """One more video."""
        self.rows.append(outcome)

    def failed(self) -> list[Outcome]:
        """The videos without a transcript."""
        return [row for row in self.rows if row.transcript is None]

    def table(self) -> TextTable:
        """The videos, if they are few, and their sums."""
        rows: list[tuple[str, ...]] = []
        if len(self.rows) <= _MOST_ROWS:
            rows = [(row.path.name, row.kind, _language(row), *_figures([row])) for row in self.rows]
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(row.kind for row in self.rows).items())
        languages = Counter(_language(row) for row in self.rows if _language(row))
        in_all = f"{len(self.rows)} video{'s' if len(self.rows) != 1 else ''}"
        spoken = ", ".join(f"{language}: {count}" for language, count in languages.most_common())
        rows.append((in_all, kinds, spoken, *_figures(self.rows)))
        heads = ("video", "", "language", "sound, min", "took, s", "lines")
        return TextTable("", heads, tuple(rows), lefts=frozenset(("", "language")))

    def remarks(self) -> list[str]:
        """What is below the table: what was left out, damaged, written, or failed."""
        remarks = []
        if self.with_subtitles:
            remarks.append(
                f"left out, since subtitles are listed: {self.with_subtitles} "
                "(--subtitles none transcribes them too)"
            )
        for row in self.rows:
            if row.transcript is not None and row.transcript.damaged:
                packets = f"{row.transcript.damaged} packets of its sound"
                remarks.append(f"{row.path.name}: {packets} cannot be decoded; nothing was heard there")
            if row.written is not None:
                remarks.append(str(row.written))
        if failed := self.failed():
            remarks.append(f"without a transcript: {', '.join(row.path.name for row in failed)}")
        return remarks


def _language(row: Outcome) -> str:
    return (row.transcript.language if row.transcript is not None else None) or ""


def _figures(rows: Sequence[Outcome]) -> tuple[str, str, str]:
    """Minutes of sound, the seconds of the command that heard it, and lines."""
    transcripts = [row.transcript for row in rows if row.transcript is not None]
    seconds = [each.seconds for each in transcripts if each.seconds is not None]
    return (
        f"{sum(each.sound_seconds for each in transcripts) / 60:.1f}",
        f"{sum(seconds):.1f}" if seconds else "",
        str(sum(len(each.lines) for each in transcripts)),
    )
