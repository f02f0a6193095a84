"""The settings of Deep Video Discovery, with the paper's values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from videopro.cli import did_you_mean, option
from videopro.errors import ConfigError
from videopro.methods.agents import ROLE_HELP, AgentSettings

SEARCH_TOOLS = ("global_browse", "clip_search", "frame_inspect")


@dataclass(frozen=True)
class DvdSettings(AgentSettings):
    """Settings of Deep Video Discovery. With preset "equal", `inspect_frames` and `browse_frames` are the
    number of frames that the VQA model takes."""

    llm: str = option("self", f"model that reasons and calls tools: {ROLE_HELP}", answers=True)
    captioner: str = option("self", f"model that captions the clips: {ROLE_HELP}", answers=True)
    vqa: str = option("self", f"model that answers about frames, for the tools: {ROLE_HELP}", answers=True)
    clip_seconds: float = option(5.0, "seconds per clip (public code: 10)", answers=True)
    fps: float = option(
        2.0, "frames per second of the database and of inspections", client="less", answers=True
    )
    registry: Literal["progressive", "parallel", "none"] = option(
        "progressive",
        "subject registry: progressive (each clip's prompt has the registry so far), parallel (clips in "
        "parallel, merged by one request, as in the public code), or none (one-sentence captions only)",
        answers=True,
    )
    segmentation: Literal["uniform", "transcript"] = option(
        "uniform",
        "clip boundaries: uniform, or moved to the nearest pause between subtitle lines",
        answers=True,
    )
    text_encoder: str = option(
        "auto", "encoder of captions for clip_search: a sentence-transformers name; none: BM25", answers=True
    )
    tools: tuple[str, ...] = option(
        SEARCH_TOOLS, f"tools besides answer: {', '.join(SEARCH_TOOLS)} (Table 5)", answers=True
    )
    resolution: Literal["model", "720p"] = option(
        "model",
        "frame size: model (each model's), or 720p (the paper's: up to 1280 x 720 pixels, for every role)",
        answers=True,
    )
    max_tool_steps: int = option(15, "N: maximum steps before a forced answer", client="less", answers=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("clip_seconds", "fps", "max_tool_steps"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"dvd: {name} is {getattr(self, name)}; it must be above 0")
        for tool in self.tools:
            if tool not in SEARCH_TOOLS:
                raise ConfigError(f"dvd: unknown tool {tool!r}; {did_you_mean(tool, SEARCH_TOOLS)}")
        if len({*self.tools}) < len(self.tools):
            raise ConfigError(f"dvd: tools is {', '.join(self.tools)}; name each tool once")
