"""Counts what readers of replies miss and read wrongly, on the replies in tests/question/labelled.

    python -m perf.replies [--show READER] [--root FOLDER] [--output FILE]

Each reply was labelled by hand with the letter that a careful reader takes from it, or with none. A reader
*misses* a reply if it reads no letter where there is one; it is *wrong* if it reads any other letter than the
labelled one. The table is also written as JSON (perf/replies.json). The halves are fixed: a reply belongs to
the development half if the CRC-32 of its question and text is even. The robust reader was written with the
development half; the other half is for the record.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from perf import ROOT
from perf.command import run_command
from perf.recorded import print_tables
from perf.recording import write_record
from videopro.cli import setting
from videopro.errors import ConfigError
from videopro.question import OFFICIAL_EXTRACTORS, Question, extract_letter

Half = Literal["development", "record"]
READERS: Mapping[str, Callable[[str, Question], str | None]] = {
    "robust": extract_letter,
    **OFFICIAL_EXTRACTORS,
}


@dataclass(frozen=True)
class RepliesSettings:
    """Count what readers of replies miss and read wrongly."""

    show: str | None = field(default=None, metadata=setting("print the replies that this reader gets wrong"))
    root: Path = field(
        default=ROOT / "tests" / "question" / "labelled", metadata=setting("folder of the labelled replies")
    )
    output: Path = field(default=ROOT / "perf" / "replies.json", metadata=setting("file for the results"))


@dataclass(frozen=True)
class LabelledReply:
    """A reply to a question, and the letter that a careful reader takes from it; None for none."""

    question: Question
    reply: str
    letter: str | None
    file: str

    @property
    def half(self) -> Half:
        """The half that it belongs to, by a fixed rule."""
        key = f"{self.question.text}\t{self.reply}".encode()
        return "record" if zlib.crc32(key) % 2 else "development"


def labelled_replies(root: Path, files: str = "*.txt") -> Iterator[LabelledReply]:
    """The replies in the files of a folder, by a glob pattern. Raises ConfigError if there are none."""
    paths = sorted(root.glob(files))
    if not paths:
        raise ConfigError(f"{root}: has no files of labelled replies ({files})")
    for file in paths:
        question: Question | None = None
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("? "):
                text, *choices = line[2:].split(" | ")
                question = Question(text, tuple(choices))
            elif not line.startswith("#"):
                if question is None:
                    raise ConfigError(f"{file}: a reply comes before the first question (? ...)")
                letter, reply = line.split("\t", 1)
                yield LabelledReply(
                    question, reply.replace("\\n", "\n"), None if letter == "-" else letter, file.stem
                )


def errors(
    replies: Sequence[LabelledReply], reader: Callable[[str, Question], str | None]
) -> tuple[list[LabelledReply], list[tuple[LabelledReply, str]]]:
    """The replies that a reader misses, and those that it reads wrongly with what it read."""
    missed: list[LabelledReply] = []
    wrong: list[tuple[LabelledReply, str]] = []
    for labelled in replies:
        read = reader(labelled.reply, labelled.question)
        if read == labelled.letter:
            continue
        if read is None:
            missed.append(labelled)
        else:
            wrong.append((labelled, read))
    return missed, wrong


def counts(replies: Sequence[LabelledReply]) -> dict[str, dict[str, int]]:
    """How many replies each reader misses and reads wrongly."""
    by_reader = {}
    for name, reader in READERS.items():
        missed, wrong = errors(replies, reader)
        by_reader[name] = {"missed": len(missed), "wrong": len(wrong)}
    return by_reader


def compare(settings: RepliesSettings) -> None:
    """Write and print a table of all readers, and print the errors of one. Raises ConfigError for an unknown
    reader."""
    if settings.show is not None and settings.show not in READERS:
        raise ConfigError(f"--show {settings.show}: the readers are {', '.join(READERS)}")
    everything = list(labelled_replies(settings.root))
    record: dict[str, dict[str, object]] = {}
    for half in ("development", "record"):
        replies = [reply for reply in everything if reply.half == half]
        without = sum(reply.letter is None for reply in replies)
        record[half] = {"replies": len(replies), "without a letter": without, "readers": counts(replies)}
    write_record(settings.output, record)
    print_tables("perf/replies.json", record)
    if settings.show is not None:
        missed, wrong = errors(everything, READERS[settings.show])
        for labelled in missed:
            print(f"missed {labelled.letter}\t{labelled.file}\t{labelled.reply!r}")
        for labelled, read in wrong:
            print(f"wrong {read} for {labelled.letter or '-'}\t{labelled.file}\t{labelled.reply!r}")


if __name__ == "__main__":
    run_command(RepliesSettings, compare)
