"""One exception that ends question after question, which nobody foresaw."""

from __future__ import annotations

from videopro.errors.exceptions import ExceptionRecord

FIRST_VIDEOS = 3
"""A run stops when all questions so far, about at least this many videos, ended in one exception, of one
class and from one place."""
VIDEOS_IN_A_ROW = 8
"""Once a question was answered, it stops when all questions in a row about this many videos ended so. If one
video in five is odd, that happens in one of 1,500 runs over 300 videos."""


class Streaks:
    """Whether one exception goes on and on."""

    def __init__(self) -> None:
        self._key: tuple[str, str] | None = None
        self._videos: set[str] = set()
        self._most = FIRST_VIDEOS

    @property
    def videos(self) -> int:
        """About how many videos all latest questions ended in the same exception."""
        return len(self._videos)

    def spare(self) -> None:
        """Count a question that was answered, whatever its program met and caught."""
        self._key, self._most = None, VIDEOS_IN_A_ROW
        self._videos.clear()

    def end(self, exception: ExceptionRecord, video: str) -> bool:
        """Count a question about a video that ended in an exception. Whether that should end the run."""
        if exception.key != self._key:
            self._key = exception.key
            self._videos.clear()
        self._videos.add(video)
        return self.videos >= self._most
