"""Multimodal retrieval: clips by what is seen, subtitle lines by what is said (section 3.2, A.1).

Clips come from the index of 10-second clips, lines from the subtitles.
"""

from __future__ import annotations

from videopro.modules.calls import (
    CallContext,
    ClipHandle,
    Count,
    LineHandle,
    PositiveSeconds,
    Segment,
    Text,
    module,
)
from videopro.modules.errors import NotFoundError


@module(family="retrieval", needs=("index",))
def get_informative_clips(
    call: CallContext,
    video: Segment,
    query: Text,
    top_k: Count = 3,
    total_duration: PositiveSeconds | None = None,
) -> tuple[list[tuple[float, float]], list[ClipHandle]]:
    """Find the clips (10 seconds each) that show what `query` describes; say what is to be seen, in a few
    words. `total_duration` limits the search to the first so many seconds.

    Returns (intervals, clips): the (start, end) in seconds of the top_k best clips in order of time, and the
    clips themselves. Fails if there is none.
    """
    assert call.context.index is not None
    end = video.end if total_duration is None else min(video.end, video.start + total_duration)
    ranked = call.context.index.search(query, top_k, start=video.start, end=end)
    if not ranked:
        raise NotFoundError(
            f"get_informative_clips(): no clip found for the query {query!r} within {video.start:.1f}-"
            f"{end:.1f} s; search the whole video, or take frames with extract_frames"
        )
    clips = []
    # In order of time, as the reference promises, and not by score.
    for number, score in sorted(ranked):
        clip_start, clip_end = call.context.index.clips[number]
        clips.append(
            # Cut to the part that was searched: a clip of the index may reach beyond it.
            call.context.clip(max(clip_start, video.start), min(clip_end, end), round(float(score), 4))
        )
    return [(clip.start, clip.end) for clip in clips], clips


@module(family="retrieval", needs=("subtitles",))
def get_informative_subtitles(
    call: CallContext,
    video: Segment,
    query: Text,
    top_k: Count = 1,
    total_duration: PositiveSeconds | None = None,
) -> list[LineHandle]:
    """Find the subtitle lines that say what `query` is about; use the words that may be spoken.
    `total_duration` limits the search to the first so many seconds.

    Returns the top_k best lines in order of time; a line unpacks as (start, end) in seconds, and line.text is
    what is said. Fails if no line fits.
    """
    assert call.context.search is not None
    end = video.end if total_duration is None else min(video.end, video.start + total_duration)
    lines = call.context.search.lines
    inside = [
        (number, score)
        for number, score in call.context.search.rank(query)
        if lines[number].start < end and lines[number].end > video.start
    ]
    if not inside:
        raise NotFoundError(
            f"get_informative_subtitles(): no subtitle line found for the query {query!r} within "
            f"{video.start:.1f}-{end:.1f} s; use other words, or get_informative_clips for what is seen"
        )
    call.confidence = call.context.lines_confidence
    return [
        LineHandle(
            call.context.video, lines[number].start, lines[number].end, round(score, 4), lines[number].text
        )
        for number, score in sorted(inside[:top_k])
    ]
