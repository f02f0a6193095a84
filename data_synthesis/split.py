"""Which videos' questions become supervision (sft.jsonl) and which become prompts (grpo.jsonl).

A planner that GRPO asks about questions that it was fine-tuned on is right already and has nothing to gain,
and questions about one video share what it shows. So the two sets share no video.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

Side = Literal["sft", "grpo"]


def drawn(video: str, salt: str) -> float:
    """A number in 0..1 for a video's key: the same in every source, order and version."""
    digest = hashlib.sha256(f"{salt}\0{video}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


@dataclass(frozen=True)
class VideoSplit:
    """The side of each video. It depends on the video's key, the seed and the share alone: neither a larger
    limit nor another filter moves a video to the other side."""

    sft_share: float | None
    """The share of the videos whose rows are for SFT; None: every video gives rows of both kinds."""
    seed: int

    def serves(self, video_key: str, side: Side) -> bool:
        """Whether a video gives rows of this side."""
        if self.sft_share is None:
            return True
        is_sft = drawn(video_key, f"{self.seed} sft") < self.sft_share
        return is_sft == (side == "sft")


UNDIVIDED = VideoSplit(None, 0)
"""Every video gives rows of both kinds."""
