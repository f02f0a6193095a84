"""The list of failures at the end of a command: which videos, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

_MOST_LINES = 10
_MOST_VIDEOS = 5
"""On a line."""
_MOST_IDS = 3
"""Of a video."""
_LONGEST_ID = 40


def failure_lines(failures: Iterable[tuple[str, str, str]], all_in: str = "") -> list[str]:
    """A line for each reason, the most frequent first: `  a.mp4 (q1, q2), b.mp4 (q7): no such file`.

    `failures`: of each, the video, the id of its question or row ("" for a video itself), and the reason.
    `all_in`: the file that has all of them, named if some are left out.
    """
    by_reason: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for video, name, reason in failures:
        # An error of a video begins with its name, which the line has.
        by_reason[reason.removeprefix(f"{video}: ")][video].append(name[:_LONGEST_ID])
    counts = {reason: sum(map(len, videos.values())) for reason, videos in by_reason.items()}
    reasons = sorted(by_reason, key=lambda reason: -counts[reason])
    lines = [f"  {_videos(by_reason[reason])}: {reason}" for reason in reasons[:_MOST_LINES]]
    if more := sum(counts[reason] for reason in reasons[_MOST_LINES:]):
        lines.append(f"  and {more} more" + (f"; all are in {all_in}" if all_in else ""))
    elif all_in and any(len(videos) > _MOST_VIDEOS for videos in by_reason.values()):
        lines.append(f"  all are in {all_in}")
    return lines


def _videos(videos: dict[str, list[str]]) -> str:
    ids = {video: first_of([*dict.fromkeys(names)], _MOST_IDS) for video, names in videos.items()}
    return first_of([f"{video} ({named})" if named else video for video, named in ids.items()])


def first_of(names: Sequence[str], most: int = _MOST_VIDEOS, between: str = ", ") -> str:
    """The first `most` of these names, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def first_line(error: Exception) -> str:
    """The first line of an error's text, or the name of its class if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
