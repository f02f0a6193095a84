"""The method `vca`."""

from __future__ import annotations

from functools import partial
from typing import Any

from videopro.methods.agents import AgentMethod, AgentRun, Prepared, Scene, Session
from videopro.methods.vca.agent import ScoreFrames, VcaRun
from videopro.methods.vca.rewards import frame_similarity
from videopro.methods.vca.settings import VcaSettings


class VcaMethod(AgentMethod):
    """VCA, sections 3.1 to 3.3: one model explores and scores."""

    name = "vca"
    Settings = VcaSettings
    settings: VcaSettings
    roles = ("llm",)
    seeing_role = "llm"
    answers_open_questions = True

    def identity(self) -> dict[str, Any]:
        facts = super().identity()
        if self.needs_evidence():
            facts["oracle"] = "evidence"
        return facts

    def needs_evidence(self) -> bool:
        return self.settings.reward == "evidence"

    def encoders(self) -> dict[str, str]:
        return {"encoder": self.settings.encoder} if self.settings.reward == "image" else {}

    def prepare(self, scene: Scene) -> Prepared:
        if self.settings.reward != "image":
            return Prepared()
        encoder = self.encoder(scene, self.settings.encoder, "reward=image needs an encoder")
        return Prepared(partial(frame_similarity, encoder))

    def start(self, session: Session, prepared: Prepared) -> AgentRun:
        if self.needs_evidence():
            known = "" if session.evidence else ", and this question has none"
            session.note(f"oracle: segments are scored by the annotated evidence{known}")
        score: ScoreFrames | None = prepared.content
        return VcaRun(session, prepared, self.settings, score)
