"""The settings of VideoAgent, with the paper's values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from videopro.cli import option
from videopro.errors import ConfigError
from videopro.methods.agents import ROLE_HELP, AgentSettings
from videopro.methods.videoagent.prompts import LEVELS


@dataclass(frozen=True)
class VideoAgentSettings(AgentSettings):
    """Settings of VideoAgent. With preset "equal", a question looks at no more frames than the backbone takes
    in one call, and half of them are the first frames (`first_frames` is not used)."""

    llm: str = option("self", f"predicts, reflects and searches: {ROLE_HELP}", answers=True)
    captioner: str = option("self", f"describes frames or clips: {ROLE_HELP}", answers=True)
    encoder: str = option(
        "auto", "encoder that finds frames: as for the modules (see method videopro)", answers=True
    )
    first_frames: int = option(
        5, "N: uniform frames of the first round (Table 4)", client="less", answers=True
    )
    max_rounds: int = option(3, "T: maximum rounds (Fig. 3)", client="less", answers=True)
    threshold: int = option(3, "C: confidence, 1 to 3, that ends the search", client="less", answers=True)
    fps: float = option(1.0, "frames per second from which frames are chosen", client="less", answers=True)
    captions: Literal["frame", "clip", "none"] = option(
        "frame",
        "what the llm knows: captions of frames (CogAgent), captions of clips around them (LaViLa, "
        "Table 7), or none: it sees the frames",
        answers=True,
    )
    clip_seconds: float = option(1.0, "seconds of a clip that is captioned", answers=True)
    selection: Literal["retrieval", "uniform"] = option(
        "retrieval",
        "where new frames come from: retrieval by the llm's descriptions, or uniform: the middles of the "
        "longest stretches without a frame",
        answers=True,
    )
    segment_selection: bool = option(
        True, "search in the segments that the llm names; off: everywhere (Table 5)", answers=True
    )
    self_evaluation: bool = option(
        True, "stop when the llm is confident; off: always all rounds (Table 5)", answers=True
    )
    subtitles: Literal["none", "listed"] = option(
        "none", "subtitle lines at the seen frames: listed, or none (the paper)", client="any", answers=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("first_frames", "max_rounds"):
            if getattr(self, name) < 1:
                raise ConfigError(f"videoagent: {name} is {getattr(self, name)}; it must be at least 1")
        for name in ("fps", "clip_seconds"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"videoagent: {name} is {getattr(self, name)}; it must be above 0")
        if self.threshold not in LEVELS:
            raise ConfigError(f"videoagent: threshold is {self.threshold}; it must be 1, 2 or 3")
        if self.captions == "none" and self.captioner != "self":
            raise ConfigError(
                f"videoagent: captioner is {self.captioner!r}, but captions is 'none': leave one of them out"
            )
        if self.selection == "uniform" and self.encoder != "auto":
            raise ConfigError(
                f"videoagent: encoder is {self.encoder!r}, but selection is 'uniform', which finds nothing: "
                "leave one of them out"
            )
