"""Which of a file's subtitle tracks is read: the one with all speech.

In addition to a full track, videos have tracks of a few lines: forced ones (what is said in another language,
what signs say), signs and songs, comments of the makers. Many are the file's default, or its first. They are
read only where there is no full track, or where they are named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import av
from av.stream import Disposition
from av.subtitles.stream import SubtitleStream

from videopro.errors import SubtitleError

# ISO 639-1 and ISO 639-2 (T, then B where it differs) of the languages that videos have subtitles in.
# Matroska has the B codes, MP4 the T codes, and people write those of two letters.
_CODES = """
af afr|am amh|ar ara|az aze|be bel|bg bul|bn ben|bs bos|ca cat|cs ces cze|cy cym wel|da dan|de deu ger
el ell gre|en eng|es spa|et est|eu eus baq|fa fas per|fi fin|fil fil|fr fra fre|ga gle|gl glg|gu guj|he heb iw
hi hin|hr hrv|hu hun|hy hye arm|id ind in|is isl ice|it ita|ja jpn|ka kat geo|kk kaz|km khm|kn kan|ko kor
ky kir|lo lao|lt lit|lv lav|mk mkd mac|ml mal|mn mon|mr mar|ms msa may|my mya bur|nb nob no nor|ne nep
nl nld dut|nn nno|pa pan|pl pol|ps pus|pt por|ro ron rum|ru rus|si sin|sk slk slo|sl slv|so som|sq sqi alb
sr srp|sv swe|sw swa|ta tam|te tel|th tha|tl tgl|tr tur|uk ukr|ur urd|uz uzb|vi vie|zh zho chi cmn|zu zul
"""
_OF_CODE = {
    code: codes.split()[0]
    for line in _CODES.split("\n")
    for codes in line.split("|")
    for code in codes.split()
}


def language_of(tag: str) -> str:
    """The language of a tag such as "ger", "de" or "de-AT": its code of two letters where it has one, else
    the tag's first part in lower case. Empty for a tag that says nothing, such as "und"."""
    code = tag.strip().lower().replace("_", "-").split("-")[0]
    return "" if code in ("und", "unk", "mis", "zxx") else _OF_CODE.get(code, code)


def is_language(tag: str) -> bool:
    """Whether a tag is one of the languages listed here."""
    return tag.lower().replace("_", "-").split("-")[0] in _OF_CODE


# If another track has this many times its lines, a track does not say all that is said.
_FULLER = 5
_PARTIAL_FLAGS = Disposition.forced | Disposition.comment | Disposition.lyrics | Disposition.karaoke
# What titles call tracks that say only a part: forced, signs and songs, comments.
_PARTIAL = re.compile(
    r"\b(?:(?<!non[- ])(?<!not )forced|forc[ée]e?s?|forzad[oa]s?|forzat[oi]|for[çc]ad[oa]s?|erzwungen\w*"
    r"|signs?|songs?|lyrics|karaoke|(?:audio ?)?comment(?:ary|aries|aires?|arios?)|(?:audio)?kommentare?"
    r"|commento|trivia)\b|強制|强制",
    re.IGNORECASE,
)
_FULL = re.compile(r"\b(?:full|complete|dialogues?|dialogs?)\b", re.IGNORECASE)
_HEARING = re.compile(r"\b(?:sdh|cc|hi|hearing[- ]impaired|hard of hearing|hoh)\b", re.IGNORECASE)


@dataclass(frozen=True)
class SubtitleTrack:
    """The header fields of a subtitle track."""

    codec: str
    language: str
    """The tag as the file has it, such as "ger"; empty without one."""
    title: str
    is_text: bool
    """False for pictures (DVD, Blu-ray)."""
    is_default: bool = False
    is_partial: bool = False
    """Whether it is marked, or titled, as forced, signs and songs, or commentary."""
    is_for_the_deaf: bool = False
    """Whether it describes sounds too."""

    @classmethod
    def of(cls, stream: SubtitleStream) -> SubtitleTrack:
        """The facts of a stream."""
        context, flags = stream.codec_context, stream.disposition
        title = stream.metadata.get("title") or _handler(stream)
        return cls(
            codec=context.name if context is not None else "unknown",
            language=stream.language or "",
            title=title,
            is_text=context is not None and bool(context.codec.text_sub),
            is_default=bool(flags & Disposition.default),
            is_partial=bool(flags & _PARTIAL_FLAGS) or says_a_part(title),
            is_for_the_deaf=bool(flags & Disposition.hearing_impaired) or bool(_HEARING.search(title)),
        )

    def __str__(self) -> str:
        marks = [f'"{self.title}"'] if self.title else []
        marks += ["partial"] if self.is_partial else []
        marks += ["default"] if self.is_default else []
        return ", ".join([f"{self.codec} ({self.language or 'no language'})", *marks])


def _handler(stream: SubtitleStream) -> str:
    """The title of a track in MP4, which has it as the name of a handler; "" for the name that writers give
    to every track."""
    name = stream.metadata.get("handler_name", "").strip("\0 ")
    return "" if re.search(r"handler|^text$|^subtitles?$|media", name, re.IGNORECASE) else name


def says_a_part(name: str) -> bool:
    """Whether a title, or part of a file name, marks a track as partial."""
    return bool(_PARTIAL.search(name)) and not _FULL.search(name)


def track_order(
    tracks: Sequence[SubtitleTrack], *, named: str | None = None, lines: Sequence[int] | None = None
) -> list[int]:
    """The numbers of the text tracks that may be read, the best one first; empty if none may.

    `named`: a track's number (from 0), the code of a language ("de", "ger" and "deu" are the same), a title,
    or words of one; None: any. Of several, a full track comes before a partial one, then one in the language
    of the default track, then the default, then one without sounds, then the first. `lines`: how many each
    track has; one with none, or with far fewer than another full one, is partial.
    """
    texts = [number for number in _named(tracks, named) if tracks[number].is_text]
    fullest = max((lines[i] for i in texts if not tracks[i].is_partial), default=0) if lines else 0
    defaults = [number for number in texts if tracks[number].is_default]
    # The language of the default track is the one that the file's maker meant to be read.
    first = tracks[(defaults or texts)[0]] if texts else None

    def rank(number: int) -> tuple[bool, bool, bool, bool, bool, int]:
        track = tracks[number]
        is_empty = lines is not None and lines[number] == 0
        is_partial = track.is_partial or (lines is not None and lines[number] * _FULLER < fullest)
        is_other = first is not None and language_of(track.language) != language_of(first.language)
        return is_empty, is_partial, is_other, not track.is_default, track.is_for_the_deaf, number

    return sorted(texts, key=rank)


def _named(tracks: Sequence[SubtitleTrack], named: str | None) -> list[int]:
    everything = list(range(len(tracks)))
    if named is None:
        return everything
    query = named.strip().lower()
    if query.isdecimal():
        return [number for number in everything if number == int(query)]
    language, titles = language_of(query), [track.title.strip().lower() for track in tracks]
    begins = re.compile(rf"(?<!\w){re.escape(query)}")
    ways = (
        [i for i in everything if titles[i] == query],
        [i for i in everything if tracks[i].language.lower() == query],
        [i for i in everything if language and language_of(tracks[i].language) == language],
        [i for i in everything if query and begins.search(titles[i])],
    )
    return next((matches for matches in ways if matches), [])


def choose_tracks(tracks: Sequence[SubtitleTrack], where: str, named: str | None) -> list[int]:
    """The text tracks that may be read, by number, the best one first. Raises SubtitleError, with the tracks
    that there are, if there is none."""
    if not tracks:
        raise SubtitleError(f"{where} has no subtitle track; pass a subtitle file, or run without subtitles.")
    table = "; ".join(f"{number}: {track}" for number, track in enumerate(tracks))
    if named is not None and not _named(tracks, named):
        raise SubtitleError(
            f"{where} has no subtitle track {named!r}; it has {table}. Set --subtitle-track to one of these "
            "numbers, a language or a title."
        )
    order = track_order(tracks, named=named)
    if not order:
        raise SubtitleError(
            f"{where}: its subtitles are images, not text ({table}); pass a text subtitle file."
        )
    return order


def lines_of(packets: Sequence[av.Packet[Any]]) -> int:
    """How many of a text track's packets say something: MP4 fills pauses with empty ones (two bytes)."""
    return sum(packet.size > (2 if _is_mov_text(packet) else 0) for packet in packets)


def _is_mov_text(packet: av.Packet[Any]) -> bool:
    context = packet.stream.codec_context
    return context is not None and context.name == "mov_text"
