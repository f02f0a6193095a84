"""The settings of VCA, with the paper's values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from videopro.cli import option
from videopro.errors import ConfigError
from videopro.methods.agents import ROLE_HELP, AgentSettings

# The paper's buffers: 8 frames for EgoSchema (minutes), 16 for LVBench (an hour).
SHORT_BUFFER, LONG_BUFFER = 8, 16
# Seconds from which a video counts as long: the shortest video of LVBench lasts half an hour.
LONG_VIDEO = 1800.0


@dataclass(frozen=True)
class VcaSettings(AgentSettings):
    """Settings of VCA. With preset "equal", `buffer` is the number of frames that the backbone takes."""

    llm: str = option("self", f"explores and scores: {ROLE_HELP}", answers=True)
    borders: int = option(6, "N: frames that split a segment into N + 1", client="less", answers=True)
    buffer: int | None = option(
        None,
        f"frames in the memory buffer; unset: {SHORT_BUFFER}, and {LONG_BUFFER} from half an hour on",
        answers=True,
    )
    reward: Literal["model", "none", "image", "evidence"] = option(
        "model",
        "who scores segments: model, none, image (similarity of their end frames to the question, "
        "Table 5), or evidence (the annotated intervals: an oracle, Table 6)",
        answers=True,
    )
    tree_search: bool = option(True, "explore segments; off: choose moments directly (Table 3)", answers=True)
    encoder: str = option(
        "auto", "encoder of reward=image: as for the modules (see method videopro)", answers=True
    )
    max_rounds: int = option(
        16,
        "rounds of exploration before a forced answer (the paper has no limit)",
        client="less",
        answers=True,
    )
    temperature: float = option(0.5, "sampling temperature of replies; 0: greedy", client="any", answers=True)
    subtitles: Literal["none", "listed"] = option(
        "none", "subtitle lines at the shown frames: listed, or none (the paper)", client="any", answers=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("borders", "buffer", "max_rounds"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"vca: {name} is {value}; it must be at least 1")
        if self.buffer is not None and self.preset == "equal":
            raise ConfigError(
                f"vca: buffer is {self.buffer}, but preset 'equal' takes the model's frames; leave one out"
            )
        if not self.tree_search and self.reward != "model":
            raise ConfigError(
                f"vca: reward is {self.reward!r} and tree_search is off; without the tree nothing is scored: "
                "leave reward out"
            )

    def buffer_size(self, duration: float) -> int | None:
        """Frames in the buffer for a video of `duration` seconds; None: as many as the model takes."""
        if self.preset == "equal":
            return None
        return self.buffer or (LONG_BUFFER if duration >= LONG_VIDEO else SHORT_BUFFER)
