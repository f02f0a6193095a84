"""The search-centric tools (section 3.2.1), and `answer`. A mistake in a call becomes an observation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from videopro.methods.agents import Session, Tool
from videopro.methods.dvd import prompts
from videopro.methods.dvd.database import Database
from videopro.methods.dvd.settings import DvdSettings
from videopro.traces import Segment
from videopro.video import uniform_times

VQA = "vqa"


class ToolMistake(ValueError):
    """A call that cannot be carried out; the message tells the model why."""


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class GlobalBrowse(_Arguments):
    query: str = Field(min_length=1, description="what to look for in the whole video")


class ClipSearch(_Arguments):
    query: str = Field(min_length=1, description="what a clip should show or say")
    top_k: int | None = Field(None, ge=1, description="how many clips (optional)")


class FrameInspect(_Arguments):
    question: str = Field(min_length=1, description="what to find out from the frames")
    time_ranges: list[tuple[float, float]] = Field(min_length=1, description="[[start, end], ...] in seconds")


class GiveAnswer(_Arguments):
    text: str = Field(min_length=1, description="the answer; for options, the letter")


ANSWER = Tool("answer", "Give the final answer and end the search.", GiveAnswer)
_TOOLS: Mapping[str, Tool] = {
    "global_browse": Tool(
        "global_browse",
        "See who and what appears in the whole video, and the events that bear on a query.",
        GlobalBrowse,
    ),
    "clip_search": Tool(
        "clip_search", "Find the clips whose captions fit a query best, with times.", ClipSearch
    ),
    "frame_inspect": Tool(
        "frame_inspect", "Ask a question about the frames within ranges of time.", FrameInspect
    ),
    "answer": ANSWER,
}


def offered(settings: DvdSettings) -> list[Tool]:
    """The tools of a run."""
    return [_TOOLS[name] for name in (*settings.tools, "answer")]


@dataclass(frozen=True)
class Toolbox:
    """The tools at work for one question."""

    session: Session
    database: Database
    settings: DvdSettings

    def call(self, name: str, arguments: Any, round: int) -> str:
        """Carry out a call of a search tool, record it, and return the observation. Raises ToolMistake,
        BudgetSpent, BackboneError, VideoError."""
        checked = self.checked(name, arguments)
        carry_out: dict[str, Callable[[Any, int], str]] = {
            "global_browse": self._browse,
            "clip_search": self._search,
            "frame_inspect": self._inspect,
        }
        return carry_out[name](checked, round)

    def checked(self, name: str, arguments: Any) -> BaseModel:
        """The arguments as the tool's schema reads them. Raises ToolMistake for an unknown tool or
        arguments that do not fit."""
        tools = {tool.name: tool for tool in offered(self.settings)}
        if name not in tools:
            raise ToolMistake(f"there is no tool {name!r}; the tools are {', '.join(tools)}")
        try:
            return tools[name].arguments.model_validate(arguments)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "arguments"
            raise ToolMistake(f"{name}: {place}: {first['msg']}") from None

    def _browse(self, call: GlobalBrowse, round: int) -> str:
        session = self.session
        times = uniform_times(0.0, session.video.duration, self._most(self.settings.browse_frames))
        frames = session.frames(times, VQA)
        seen = session.tell(
            "global_browse",
            VQA,
            prompts.events(call.query, session.video.duration),
            frames=frames,
            round=round,
            args=call.model_dump(),
        )
        subjects = self.database.registry.describe() or "none noted"
        return f"Subjects:\n{subjects}\n\nEvents:\n{seen}"

    def _search(self, call: ClipSearch, round: int) -> str:
        self.session.budget.check()
        top_k = call.top_k or self.settings.top_k
        found = self.database.search.rank(call.query)[:top_k]
        clips = [(self.database.clips[number], score) for number, score in found]
        listed = "\n".join(f"{clip.start:.1f}-{clip.end:.1f} s: {clip.text}" for clip, _ in clips)
        self.session.tool(
            "clip_search",
            args={"query": call.query, "top_k": top_k},
            result=listed or "no caption fits",
            segments=[
                Segment(clip.start, clip.end, str(clip.clip), score=round_score(score), text=clip.text)
                for clip, score in clips
            ],
            round=round,
        )
        return listed or "no caption fits"

    def _inspect(self, call: FrameInspect, round: int) -> str:
        session, duration = self.session, self.session.video.duration
        ranges = [(max(0.0, start), min(end, duration)) for start, end in call.time_ranges]
        if any(start >= end for start, end in ranges):
            raise ToolMistake(
                f"frame_inspect: every range must begin before it ends, within 0 and {duration:.1f} s"
            )
        frames = session.frames(
            inspected_times(ranges, self.settings.fps, self._most(self.settings.inspect_frames)), VQA
        )
        return session.tell(
            "frame_inspect",
            VQA,
            prompts.inspect(call.question),
            frames=frames,
            round=round,
            args=call.model_dump(),
            segments=tuple(Segment(start, end) for start, end in ranges),
        )

    def _most(self, paper: int) -> int:
        return self.session.models[VQA].frames if self.settings.preset == "equal" else paper


def inspected_times(ranges: Sequence[tuple[float, float]], fps: float, most: int) -> list[float]:
    """Times (s) at `fps` frames per second within the ranges, at least one in each; spread evenly over all of
    them if there would be more than `most`."""
    times = sorted(
        {
            time
            for start, end in ranges
            for time in uniform_times(start, end, max(1, round((end - start) * fps)))
        }
    )
    if len(times) <= most:
        return times
    return [times[(2 * place + 1) * len(times) // (2 * most)] for place in range(most)]


def round_score(score: float) -> float:
    """A similarity as a trace stores it."""
    return round(score, 4)
