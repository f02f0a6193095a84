"""Makes the trace of a question from its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from videopro.backbones import library_versions
from videopro.benchmarks import ROBUST, Item, Protocol
from videopro.modules import stored_transcript_id
from videopro.question import OFFICIAL_EXTRACTORS, Parser, extract_intervals, extract_letter
from videopro.traces import SCHEMA, Result, Trace, VideoRef
from videopro.video import Video


def video_ref(item: Item, video: Video | None = None) -> VideoRef:
    """The video of a question as its trace names it. `video`: None if it could not be opened."""
    opened = () if video is None else (video.id, video.duration)
    return VideoRef(str(item.video), item.video_key, *opened)


def other_file(trace: Trace, item: Item, content: Callable[[Path], str | None]) -> str | None:
    """The video or subtitle file that changed since the answer; None if both are unchanged, or are not here.
    `content`: the content id of a file, if it can be read."""
    before = trace.video
    current = content(item.video)
    if current is None or not before.id:
        return None
    if current != before.id:
        return str(item.video)
    made = {stored_transcript_id(each.key) for each in trace.prepared if each.kind == "transcript"}
    if before.text_id and made - {None, before.text_id}:
        return f"the transcript of {item.video}"
    if before.subtitles is None:
        return None
    if item.subtitles is None:
        return f"{before.subtitles} (no subtitles are listed now)" if before.subtitles else None
    text = content(item.subtitles)
    return str(item.subtitles) if text not in (None, before.subtitles and before.text_id) else None


def make_trace(
    item: Item,
    result: Result,
    video: VideoRef,
    *,
    run_key: str,
    protocol: Protocol,
    parser: Parser | None = None,
    served: Mapping[str, str] = MappingProxyType({}),
) -> Trace:
    """The record of one question. `parser`: the official one, if it is the benchmark's own. `served`:
    `Backbone.versions`."""
    return Trace(
        **vars(result),
        schema=SCHEMA,
        run_key=run_key,
        question_id=item.id,
        video=video,
        question=item.question.text,
        choices=item.question.choices,
        gold=item.answer,
        reference=item.reference,
        evidence=item.evidence,
        groups=dict(item.groups),
        official=official_letter(result, item, protocol, parser),
        official_intervals=_official_intervals(result, item, protocol, parser),
        member=item.member,
        versions={**library_versions(), **served},
    )


def official_letter(
    result: Result, item: Item, protocol: Protocol, parser: Parser | None = None
) -> str | None:
    """The letter that the benchmark's own scorer reads in the reply; None for an open question."""
    if result.final is None or item.question.is_open:
        return None
    if parser is None:
        parser = extract_letter if protocol.parser == ROBUST else OFFICIAL_EXTRACTORS[protocol.parser]
    letter = parser(result.final.raw, item.question)
    return letter if isinstance(letter, str) else None


def _official_intervals(
    result: Result, item: Item, protocol: Protocol, parser: Parser | None
) -> tuple[tuple[float, ...], ...] | None:
    """The intervals that the benchmark's own scorer reads in the reply; None if it reads none, or does not
    ask for them."""
    if result.final is None or protocol.reply != "intervals":
        return None
    if parser is None and protocol.parser == ROBUST:
        parser = extract_intervals
    intervals = parser(result.final.raw, item.question) if parser is not None else None
    if not intervals or isinstance(intervals, str):
        return None
    return tuple((float(start), float(end)) for start, end in intervals)
