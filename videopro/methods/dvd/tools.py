"""The search-centric tools (section 3.2.1), and `answer`. A mistake in a call becomes an observation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError, create_model

from videopro.methods.agents import Session, Tool, ToolCall, spread
from videopro.methods.dvd import prompts
from videopro.methods.dvd.database import Database
from videopro.methods.dvd.settings import DvdSettings
from videopro.storage import InvalidJson, parse_json
from videopro.traces import Segment
from videopro.video import uniform_times

VQA = "vqa"
UNKNOWN_TOOL = "unknown_tool"
"""The kind of a step that calls a tool that there is not."""
FRAMES = 50
"""Of a browse or an inspection, at most (the paper)."""
TOP_K = 16
"""Clips that a search returns, unless the model says how many (the paper)."""
# The names that servers accept.
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolMistake(ValueError):
    """A call that cannot be executed; the message gives the model the reason."""


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class GlobalBrowse(_Arguments):
    query: str = Field(min_length=1, description="what to look for in the whole video")


class ClipSearch(_Arguments):
    query: str = Field(min_length=1, description="what a clip should show or say")
    top_k: int | None = Field(None, ge=1, description="how many clips (optional)")


class FrameInspect(_Arguments):
    question: str = Field(min_length=1, description="what to find out from the frames")
    # Pairs as lists: not every server knows the schema of a tuple.
    time_ranges: list[Annotated[list[float], Field(min_length=2, max_length=2)]] = Field(
        min_length=1, description="[[start, end], ...] in seconds"
    )


class GiveAnswer(_Arguments):
    text: str = Field(min_length=1, description="the answer; for options, the letter")


_TOOLS = (
    Tool(
        "global_browse",
        "See who and what appears in the whole video, and the events that bear on a query.",
        GlobalBrowse,
    ),
    Tool("clip_search", "Find the clips whose captions fit a query best, with times.", ClipSearch),
    Tool("frame_inspect", "Ask a question about the frames within ranges of time.", FrameInspect),
    Tool("answer", "Give the final answer and end the search.", GiveAnswer),
)


def offered(settings: DvdSettings) -> list[Tool]:
    """The tools of a run, in the order of its setting: models read them in that order."""
    named = {tool.name: tool for tool in _TOOLS}
    return [named[name] for name in (*settings.tools, "answer")]


class WrittenCall(BaseModel):
    """A step of the text protocol: a thought, and the call of one tool. Made for each tool by `one_call`."""

    reason: str = ""
    tool: str
    arguments: BaseModel


def one_call(tools: Sequence[Tool]) -> type[RootModel[WrittenCall]]:
    """The schema of a call of any of the tools, with that tool's arguments."""
    each: list[Any] = []
    for tool in tools:
        named: dict[str, Any] = {"tool": (Literal[tool.name], ...), "arguments": (tool.arguments, ...)}
        each.append(create_model(f"Call_{tool.name}", __base__=WrittenCall, **named))
    # A union of one is no union: pydantic takes no discriminator for it.
    any_of: Any = Annotated[reduce(or_, each), Field(discriminator="tool")] if each[1:] else each[0]
    return create_model("Call", __base__=RootModel[any_of])


def sendable(call: ToolCall) -> ToolCall:
    """The call as a conversation repeats it: a server refuses one whose name or arguments are malformed. The
    trace keeps what the model wrote."""
    name = call.name if _NAME.fullmatch(call.name) else UNKNOWN_TOOL
    try:
        is_object = isinstance(parse_json(call.arguments), dict)
    except InvalidJson:
        is_object = False
    return replace(call, name=name, arguments=call.arguments if is_object else "{}")


@dataclass(frozen=True)
class Toolbox:
    """The tools at work for one question."""

    session: Session
    database: Database
    settings: DvdSettings

    def read(self, call: ToolCall) -> BaseModel:
        """The arguments of a call, as the tool's schema reads them. Raises ToolMistake for an unknown tool or
        arguments that do not fit."""
        tools = {tool.name: tool for tool in offered(self.settings)}
        if call.name not in tools:
            raise ToolMistake(f"there is no tool {call.name!r}; the tools are {', '.join(tools)}")
        try:
            arguments = parse_json(call.arguments or "{}")
            return tools[call.name].arguments.model_validate(arguments)
        except InvalidJson as error:
            raise ToolMistake(f"the arguments are not valid JSON: {error}") from None
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            location = ".".join(map(str, first["loc"])) or "arguments"
            raise ToolMistake(f"{location}: {first['msg']}") from None

    def use(self, arguments: BaseModel) -> str:
        """Carry out a call of a search tool, record it, and return the observation. Raises ToolMistake,
        BudgetExceeded, BackboneError, VideoError."""
        if isinstance(arguments, GlobalBrowse):
            return self._browse(arguments)
        if isinstance(arguments, ClipSearch):
            return self._search(arguments)
        assert isinstance(arguments, FrameInspect)
        return self._inspect(arguments)

    def failed(self, call: ToolCall, mistake: ToolMistake) -> str:
        """Record a call that could not be carried out, and return the observation."""
        names = [tool.name for tool in offered(self.settings)]
        # A name that the model made up is in the arguments, not among the kinds of steps.
        kind = call.name if call.name in names else UNKNOWN_TOOL
        observation = f"error: {mistake}"
        self.session.tool(kind, args={"tool": call.name, "arguments": call.arguments}, result=observation)
        return observation

    def _browse(self, call: GlobalBrowse) -> str:
        session = self.session
        times = uniform_times(0.0, session.video.duration, self._most())
        frames = session.frames(times, VQA)
        subjects = f"Subjects:\n{self.database.registry.describe() or 'none noted'}"
        events = session.tell(
            "global_browse",
            VQA,
            prompts.events(call.query, session.video.duration),
            frames=frames,
            args=call.model_dump(mode="json"),
            # The rest of the observation is the reply.
            result=subjects,
        )
        return f"{subjects}\n\nEvents:\n{events}"

    def _search(self, call: ClipSearch) -> str:
        self.session.budget.check()
        top_k = call.top_k or TOP_K
        ranked = self.database.search.best(call.query, top_k)
        lines = "\n".join(f"{clip.start:.1f}-{clip.end:.1f} s: {clip.text}" for clip, _ in ranked)
        observation = lines or "no caption fits"
        self.session.tool(
            "clip_search",
            args={"query": call.query, "top_k": top_k},
            result=observation,
            segments=[
                Segment(clip.start, clip.end, str(clip.clip), score=round(score, 4), text=clip.text)
                for clip, score in ranked
            ],
        )
        return observation

    def _inspect(self, call: FrameInspect) -> str:
        session, duration = self.session, self.session.video.duration
        ranges = [(max(0.0, start), min(end, duration)) for start, end in call.time_ranges]
        if any(start >= end for start, end in ranges):
            raise ToolMistake(f"every range must begin before it ends, within 0 and {duration:.1f} s")
        frames = session.frames(inspected_times(ranges, self.settings.fps, self._most()), VQA)
        return session.tell(
            "frame_inspect",
            VQA,
            prompts.inspect(call.question),
            frames=frames,
            args=call.model_dump(mode="json"),
            segments=tuple(Segment(start, end) for start, end in ranges),
        )

    def _most(self) -> int:
        return self.session.models[VQA].frames if self.settings.preset == "equal" else FRAMES


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
    return spread(times, most)
