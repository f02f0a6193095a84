"""The tree of segments, and the memory buffer of frames (sections 3.1 to 3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from videopro.traces import Segment


@dataclass
class Node:
    """A segment of the video."""

    number: int
    """As prompts name it: in the order in which segments were made."""
    name: str
    """Its place in the tree: "3" is the fourth part of the video, "3.0" the first part of that."""
    start: float
    end: float
    score: float | None = None
    """0 to 100; None if the reward model gave none."""
    text: str = ""
    """The reward model's explanation."""
    is_open: bool = True
    """Whether it has not been explored yet."""

    @property
    def record(self) -> Segment:
        """The segment as a trace stores it."""
        parent = self.name.rpartition(".")[0]
        return Segment(self.start, self.end, self.name, parent, self.score, self.text)


class Tree:
    """The segments of one video."""

    def __init__(self, duration: float, shortest: float) -> None:
        """`shortest`: seconds below which a segment is not split further."""
        self.nodes: list[Node] = []
        self._duration = duration
        self._shortest = shortest

    @property
    def candidates(self) -> list[Node]:
        """The segments that may be explored, in order of time."""
        long_enough = [n for n in self.nodes if n.is_open and n.end - n.start >= self._shortest]
        return sorted(long_enough, key=lambda node: (node.start, node.number))

    def split(self, parent: Node | None, count: int) -> list[Node]:
        """Split a segment (None: the whole video) at `count` borders into count + 1 equal parts."""
        start, end, prefix = (0.0, self._duration, "")
        if parent is not None:
            parent.is_open = False
            start, end, prefix = parent.start, parent.end, f"{parent.name}."
        borders = [start + (end - start) * place / (count + 1) for place in range(count + 2)]
        made = [
            Node(len(self.nodes) + place, f"{prefix}{place}", borders[place], borders[place + 1])
            for place in range(count + 1)
        ]
        self.nodes += made
        return made

    def find(self, number: int) -> Node:
        """The segment of this number."""
        return self.nodes[number]


def borders(children: Sequence[Node]) -> list[float]:
    """The moments between sibling segments (s), at which frames are taken."""
    return [child.end for child in children[:-1]]


@dataclass(frozen=True)
class KeptFrame:
    """A moment in the memory buffer."""

    time: float
    relevance: float
    """The higher score of the two segments that it borders; -1 without scores."""
    order: int
    """Its place in the order in which frames were added."""


class MemoryBuffer:
    """A fixed number of moments; those of the lowest relevance are discarded (section 3.2), of equal ones
    that which was added first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: list[KeptFrame] = []
        self._added = 0

    @property
    def times(self) -> list[float]:
        """The kept moments (s), in order of time."""
        return sorted(frame.time for frame in self._kept)

    def add(self, times: Sequence[float], relevances: Sequence[float]) -> list[float]:
        """Add moments. Returns those that are discarded, old or new, in order of time."""
        for time, relevance in zip(times, relevances, strict=True):
            if all(frame.time != time for frame in self._kept):
                self._kept.append(KeptFrame(time, relevance, self._added))
                self._added += 1
        ranked = sorted(self._kept, key=lambda frame: (frame.relevance, frame.order), reverse=True)
        self._kept = ranked[: self._size]
        return sorted(frame.time for frame in ranked[self._size :])


def relevances(children: Sequence[Node]) -> list[float]:
    """The relevance of the frame at each border: the higher score of the two segments beside it."""
    scores = [-1.0 if child.score is None else child.score for child in children]
    return [max(pair) for pair in pairwise(scores)]
