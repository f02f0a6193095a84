"""The backbone as its own planner: it sees the video and writes with its adapter on, if it has one.

Knows the backbone's interface.
"""

from __future__ import annotations

from collections.abc import Sequence

from videopro.backbones.base import Backbone, GenerateRequest
from videopro.planners.base import Planner, PlannerReply, PlanRequest


class BackbonePlanner(Planner):
    """A backbone that writes programs about the video that it looks at (section 3.4)."""

    name = "self"
    sees_video = True

    def __init__(
        self,
        backbone: Backbone,
        *,
        is_fine_tuned: bool,
        temperature: float = 0.7,
        top_p: float = 1.0,
        max_new_tokens: int = 1024,
    ) -> None:
        """`backbone` in the state in which it is to write: an adapter is on from the start. `temperature`:
        0.7
        as in section 4; 0 is greedy."""
        self.is_fine_tuned = is_fine_tuned
        self._backbone = backbone
        self._temperature = temperature
        self._top_p = top_p
        self._longest = max_new_tokens

    def identity(self) -> dict[str, object]:
        return {
            "planner": "self",
            "temperature": self._temperature,
            "top_p": self._top_p,
            "max_new_tokens": self._longest,
        }

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        # Each draws with its own seed, so that a reply does not depend on which others are asked for with it.
        replies = self._backbone.generate_batch(
            [GenerateRequest(one.visual, one.prompt, one.seed) for one in requests],
            max_new_tokens=self._longest,
            temperature=self._temperature,
            top_p=self._top_p,
        )
        return [
            PlannerReply(
                reply.text,
                reply.tokens_in,
                len(reply.token_ids),
                1,
                # A program that was cut off fails; that it was is worth knowing.
                {"cut off": f"after {self._longest} tokens"} if reply.finish == "length" else {},
            )
            for reply in replies
        ]
