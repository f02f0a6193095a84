"""The tree of segments, and the memory buffer of frames (sections 3.1 to 3.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from videopro.traces import Segment


@dataclass
class Node:
    """A segment of the video."""

    number: int
    """As prompts name it: its place in `Tree.nodes`, in the order in which segments were made."""
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
    def parent(self) -> str:
        """The name of the segment that it is a part of; empty: the whole video."""
        return self.name.rpartition(".")[0]

    @property
    def record(self) -> Segment:
        """The segment as a trace stores it."""
        return Segment(self.start, self.end, self.name, self.parent, self.score, self.text)


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

    def even_borders(self, parent: Node | None, count: int) -> list[float]:
        """The `count` moments (s) that split a segment (None: the whole video) into equal parts."""
        start, end = self._span(parent)
        return [start + (end - start) * index / (count + 1) for index in range(1, count + 1)]

    def split(self, parent: Node | None, borders: Sequence[float]) -> list[Node]:
        """Split a segment (None: the whole video) at n moments inside it (s, ascending) into n + 1 parts."""
        start, end = self._span(parent)
        prefix = ""
        if parent is not None:
            parent.is_open = False
            prefix = f"{parent.name}."
        children = [
            Node(len(self.nodes) + index, f"{prefix}{index}", first, last)
            for index, (first, last) in enumerate(pairwise([start, *borders, end]))
        ]
        self.nodes += children
        return children

    def relevance_at(self, time: float) -> float:
        """The relevance of a frame at a border (s): the highest of the open segments next to it, so that
        the scores of an explored segment give way to those of its parts. A part without a score counts as
        the smallest segment around it that has one; -1 if none has."""
        named = {node.name: node for node in self.nodes}

        def relevance(node: Node) -> float:
            if node.score is not None:
                return node.score
            return relevance(named[node.parent]) if node.parent else -1.0

        beside = [node for node in self.nodes if node.is_open and node.start <= time <= node.end]
        return max(relevance(node) for node in beside)

    def _span(self, node: Node | None) -> tuple[float, float]:
        return (0.0, self._duration) if node is None else (node.start, node.end)


def borders(children: Sequence[Node]) -> list[float]:
    """The moments between sibling segments (s), at which frames are taken."""
    return [child.end for child in children[:-1]]


class MemoryBuffer:
    """A fixed number of moments; those of the lowest relevance are discarded (section 3.2), of equal ones
    that which was added first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._moments: list[float] = []
        """In the order in which they were added."""

    @property
    def times(self) -> list[float]:
        """The kept moments (s), in order of time."""
        return sorted(self._moments)

    def update(self, times: Sequence[float], relevance: Callable[[float], float]) -> list[float]:
        """Add moments, and discard those of the lowest current relevance. Returns the discarded ones,
        old or new, in order of time."""
        self._moments += [time for time in dict.fromkeys(times) if time not in self._moments]
        # Stable: among equals, the order of adding stays.
        ranked = sorted(self._moments, key=relevance)
        discarded = ranked[: max(0, len(ranked) - self.size)]
        self._moments = [time for time in self._moments if time not in discarded]
        return sorted(discarded)
