"""A planner behind an OpenAI-compatible server that sees the video. It is sent as the server backbone sends
it: as one video with its frames' times, or as images after their times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from videopro.backbones import Sampling, load_backbone
from videopro.planners.backbone import BackbonePlanner
from videopro.planners.base import PLAN_SAMPLING, PlannerReply, PlanRequest, sampling_identity
from videopro.planners.served import stopping_run


class ServerPlanner(BackbonePlanner):
    """`server:MODEL@URL`, with a backbone of its own for the video."""

    def __init__(
        self,
        spec: str,
        *,
        is_fine_tuned: bool,
        sampling: Sampling = PLAN_SAMPLING,
        frames: int | None = None,
        pixels: int | None = None,
        api_key_env: str | None = None,
        concurrency: int = 64,
    ) -> None:
        """`frames` and `pixels`: the most frames of a video, and pixels of a frame; None: those of the server
        backbone (64, 50,176), as a server does not tell what its model was trained with. `sampling`: its seed
        is not used, because each request has its own. `api_key_env`: the variable that holds the server's
        key. Raises ConfigError for a malformed spec."""
        settings: dict[str, Any] = {"api_key_env": api_key_env, "concurrency": concurrency}
        served = load_backbone(spec, frames=frames, pixels=pixels, **settings)
        super().__init__(served, is_fine_tuned=is_fine_tuned, sampling=sampling)
        self.name = f"server:{served.name}"
        self.backbone = served

    def identity(self) -> dict[str, object]:
        """The server's model, as its backbone describes it; the address is not part of it."""
        return {
            "planner": "server",
            **self._backbone.identity(),
            **sampling_identity(self._sampling),
        }

    def write(self, requests: Sequence[PlanRequest]) -> list[PlannerReply]:
        """Safe to call from several threads. Raises RunError if the server cannot serve any request."""
        with stopping_run(self.name):
            return super().write(requests)

    def close(self) -> None:
        self._backbone.close()
