"""What is left of a source's questions after each filter, in the order in which they are applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from videopro.benchmarks import Item


@dataclass(frozen=True)
class FilterStep:
    """One filter: what it removed and what it left."""

    name: str
    removed: int
    """Questions."""
    questions: int
    """Left after it."""
    videos: int
    """Left after it: those with a question left."""
    because: Mapping[str, int] = field(default_factory=dict)
    """The removed questions by a closer reason, where the filter has several."""


class Filters:
    """The questions that are left of a source, and the steps that led to them."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = list(items)
        self.steps = [FilterStep("questions of the source", 0, len(items), _videos(items))]

    def remove(self, name: str, reason: Callable[[Item], str | bool | None]) -> None:
        """Remove the questions for which `reason` is true, or a text: the closer reason. A filter that
        removes none is a step too: that it found nothing is worth knowing."""
        reasons = [(item, reason(item)) for item in self.items]
        self.items = [item for item, reason in reasons if not reason]
        because = Counter(reason for _, reason in reasons if isinstance(reason, str))
        removed = len(reasons) - len(self.items)
        self.steps.append(
            FilterStep(name, removed, len(self.items), _videos(self.items), dict(sorted(because.items())))
        )

    def removed(self) -> dict[str, int]:
        """Removed questions by filter, without filters that removed none."""
        counts: Counter[str] = Counter()
        for step in self.steps:
            counts[step.name] += step.removed
        return {name: count for name, count in sorted(counts.items()) if count}

    def summary(self) -> str:
        """The removed questions in one line."""
        counts = ", ".join(f"{name}: {count:,}" for name, count in self.removed().items())
        return f"left out of {self.steps[0].questions:,}: {counts or 'none'}"


def _videos(items: Iterable[Item]) -> int:
    return len({item.video_key for item in items})
