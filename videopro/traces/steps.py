"""What a call of a program or a step of an agent did, what it looked at, what it cost: parts of a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeAlias

from pydantic import Field

FrameRef: TypeAlias = Annotated[tuple[float, ...], Field(min_length=1)]
"""(time in s, height, width), or for a crop (time, height, width, x0, y0, x1, y1) with the box in 0..1. For a
frame that stands in for a damaged one, the time in s that was asked for follows as the last number."""


@dataclass(frozen=True)
class Cost:
    """The cost of an answer. Costs that several questions share are split evenly among them, so that they add
    up to the run's cost; frames and calls can therefore be fractional."""

    seconds: float = 0.0
    """Wall time, including all stages."""
    stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds by stage: "decode", "backbone", and stages that a method adds."""
    frames: float = 0.0
    """Decoded frames."""
    calls: float = 0.0
    """Requests to a backbone."""
    tokens_in: float = 0.0
    """Prompt tokens of all calls; a shared prefix counts in each call that uses it."""
    tokens_out: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        stages = dict(self.stages)
        for name, seconds in other.stages.items():
            stages[name] = stages.get(name, 0.0) + seconds
        return Cost(
            self.seconds + other.seconds,
            stages,
            self.frames + other.frames,
            self.calls + other.calls,
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
        )

    def scaled(self, factor: float) -> Cost:
        """The cost with its times multiplied by `factor`."""
        stages = {name: seconds * factor for name, seconds in self.stages.items()}
        return replace(self, seconds=self.seconds * factor, stages=stages)

    def share(self, among: int) -> Cost:
        """One question's share of a cost that `among` questions caused together."""
        return Cost(
            self.seconds / among,
            {name: seconds / among for name, seconds in self.stages.items()},
            self.frames / among,
            self.calls / among,
            self.tokens_in / among,
            self.tokens_out / among,
        )


@dataclass(frozen=True)
class Call:
    """One call of a module or of the backbone."""

    fn: str
    args: Mapping[str, Any]
    result: str
    """The returned value as short text."""
    frames: tuple[FrameRef, ...] = ()
    """The frames that the call looked at."""
    seconds: float = 0.0
    cached: bool = False
    intervals: tuple[tuple[float, ...], ...] = ()
    """(start, end) in seconds of the intervals that a retrieval returned."""
    line: int | None = None
    """The program's line that made the call, from 1; None for a direct answer."""


@dataclass(frozen=True)
class Segment:
    """A part of the video that a step of an agent scored, retrieved or looked into."""

    start: float
    """Seconds."""
    end: float
    name: str = ""
    """As the agent's prompts name it; in a tree, the child "0.3" of segment "0"."""
    parent: str = ""
    """The name of the segment that it was split from; empty: of none."""
    score: float | None = None
    """The score that the step gave it, on the method's own scale."""
    text: str = ""
    """What is known about it: an explanation, a caption, the query that found it."""


@dataclass(frozen=True)
class Step:
    """One step of an agent: a request to one of its models, or a call of one of its tools."""

    kind: str
    """What it was for, in the method's own words: "predict", "reward", "clip_search"."""
    model: str = ""
    """Who replied: a role ("llm", "captioner", "vqa") or the name of an agent; empty for a tool that asks no
    model."""
    round: int = 0
    """The method's round, from 0."""
    prompt: str = ""
    """What the model was sent, without the frames; of a conversation, what this step adds."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of a tool."""
    frames: tuple[FrameRef, ...] = ()
    """The frames that it looked at."""
    raw: str = ""
    """The model's last reply, untouched but for its thoughts."""
    parsed: Mapping[str, Any] | None = None
    """The reply as its schema reads it; None if it has no schema or could not be parsed."""
    rejected: tuple[str, ...] = ()
    """Earlier replies that could not be parsed, each of which the model was asked to repair."""
    faults: tuple[str, ...] = ()
    """Why each of `rejected` could not be parsed, then why `raw` could not, if it could not."""
    result: str = ""
    """What a tool returned to the agent."""
    segments: tuple[Segment, ...] = ()
    is_constrained: bool = False
    """Whether the server constrained the reply to its schema."""
    is_reused: bool = False
    """Whether the reply was made for an earlier question about the video. `cost` is what it cost then, and
    the question's own cost leaves it out."""
    cost: Cost = field(default_factory=Cost)
    """`seconds` is the wall time of this step, also while other questions were in flight."""
    thoughts: str = ""
    """What the model thought before the reply `raw`; of long thoughts the beginning."""
    cut_at: int | None = None
    """The token limit that cut that reply off; None: the model ended it."""

    @property
    def is_unparsed(self) -> bool:
        """Whether the reply could not be parsed, even after a repair."""
        return len(self.faults) > len(self.rejected)


@dataclass(frozen=True)
class Preparation:
    """Something that is made once and serves many questions, such as the index or the database of a video."""

    kind: str
    """ "index", "database", "transcript" or "selection"."""
    key: str
    """Names it: traces with equal keys share it."""
    cost: Cost = field(default_factory=Cost)
    """What making it cost, whichever run made it; no question's own cost contains it."""
    is_known: bool = True
    """Whether that cost was recorded when it was made."""
    audio_seconds: float = 0.0
    """Seconds of sound that a transcript was made of."""
    stand_ins: tuple[tuple[float, float], ...] = ()
    """Frames used in place of damaged ones: (requested time, time of the frame) in s."""


def moment(frame: FrameRef) -> float:
    """The time of a frame in ms precision, which identifies frames."""
    return round(frame[0], 3)


def wanted_time(frame: FrameRef) -> float | None:
    """The requested time (s) of a frame that replaces a damaged one; None for any other."""
    return frame[-1] if len(frame) in (4, 8) else None
