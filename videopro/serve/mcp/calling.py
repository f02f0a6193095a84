"""Calls of a film's tools, as the tools of the server make them: what is wrong is an error, and frames are
named in several ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from videopro.errors import ConfigError
from videopro.modules import ModuleError
from videopro.tools import VideoTools


def call_whole(tools: VideoTools, name: str, **arguments: Any) -> dict[str, Any]:
    """The reply of a tool. Raises ModuleError."""
    reply = tools.call(name, **arguments)
    if "error" in reply:
        raise ModuleError(reply["error"]["message"].removeprefix(f"{name}(): "))
    return reply


def call(tools: VideoTools, name: str, **arguments: Any) -> Any:
    """The result of a tool. Raises ModuleError."""
    return call_whole(tools, name, **arguments)["result"]


def part_of(tools: VideoTools, start: float | None, end: float | None) -> Any:
    """A part of the film, as the tools take it."""
    if start is None and end is None:
        return "video"
    return [start or 0.0, tools.context.video.duration if end is None else end]


def not_empty(times: Sequence[float]) -> Sequence[float]:
    """The times. Raises ConfigError if there are none."""
    if not times:
        raise ConfigError("give times in seconds, such as times=[12.5]")
    return times


def frames_of(
    tools: VideoTools,
    times: Sequence[float],
    start: float | None,
    end: float | None,
    count: int,
    box: list[float] | None,
) -> list[Any]:
    """The frames that a call is about, by their times or ids."""
    frames: list[Any] = list(times)
    if not frames:
        last = tools.context.video.duration if end is None else end
        spread = call(tools, "trim_frames", start=start or 0.0, end=last, num_frames=count)
        frames = [frame["id"] for frame in spread]
    if box is not None:
        frames = [call(tools, "crop", frame=frame, box=box)["id"] for frame in frames]
    return frames
