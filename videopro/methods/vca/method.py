"""The method `vca`."""

from __future__ import annotations

from functools import partial

from videopro.methods.agents import AgentMethod, AgentRun, Equipment, Prepared, Scene, Session
from videopro.methods.vca.agent import ScoreFrames, VcaRun, frame_similarity
from videopro.methods.vca.settings import VcaSettings


class VcaMethod(AgentMethod):
    """VCA, sections 3.1 to 3.3: one model explores and scores."""

    name = "vca"
    Settings = VcaSettings
    settings: VcaSettings
    answers_open_questions = True

    def equipment(self) -> Equipment:
        settings = self.settings
        return Equipment(
            {"llm": settings.llm},
            seeing="llm",
            encoders={"encoder": settings.encoder} if settings.reward == "image" else {},
            evidence=settings.reward == "evidence",
        )

    def prepare(self, scene: Scene) -> Prepared:
        if self.settings.reward != "image":
            return Prepared()
        encoder = self.encoder(scene, self.settings.encoder, "reward=image needs an encoder")
        return Prepared(partial(frame_similarity, encoder))

    def start(self, session: Session, prepared: Prepared) -> AgentRun:
        if self.settings.reward == "evidence":
            note = "" if session.evidence else ", and this question has none"
            session.note(f"oracle: segments are scored by the annotated evidence{note}")
        score: ScoreFrames | None = prepared.content
        return VcaRun(session, prepared, self.settings, score)
