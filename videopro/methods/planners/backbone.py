"""The backbone as its own planner: it sees the video, and writes with its adapter on if it has one."""

from __future__ import annotations

from collections.abc import Sequence

from videopro.backbones import Backbone, GenerateRequest, Generation, Sampling, reply_notes
from videopro.errors import unexpected_as
from videopro.methods.planners.planner import (
    PLAN_SAMPLING,
    Planner,
    PlannerReply,
    PlanRequest,
    sampling_identity,
)


class BackbonePlanner(Planner):
    """A backbone that writes programs about the video that it sees (section 3.4)."""

    name = "self"
    sees_video = True

    def __init__(
        self,
        backbone: Backbone,
        *,
        is_fine_tuned: bool,
        sampling: Sampling = PLAN_SAMPLING,
    ) -> None:
        """`backbone` is used as it is: its adapter is not switched on or off. `sampling`: its seed is not
        used, because each request has its own."""
        self.is_fine_tuned = is_fine_tuned
        self._backbone = backbone
        self._sampling = sampling

    def identity(self) -> dict[str, object]:
        return {"planner": "self", **sampling_identity(self._sampling)}

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        # Each request has its own seed, so that a reply does not depend on the others of its batch.
        replies = self._backbone.generate_batch(
            [GenerateRequest(request.visual, request.prompt, request.seed) for request in requests],
            self._sampling,
        )
        with unexpected_as():
            return [self._read(reply) for reply in replies]

    def _read(self, reply: Generation) -> PlannerReply:
        # A program that was cut off fails; the note says why.
        cut_at = self._sampling.max_new_tokens if reply.finish == "length" else None
        return PlannerReply(
            reply.text, reply.tokens_in, reply.tokens_out, 1, reply_notes(reply.thoughts, cut_at)
        )
