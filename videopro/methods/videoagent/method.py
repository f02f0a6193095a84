"""The method `videoagent`."""

from __future__ import annotations

from dataclasses import dataclass

from videopro.methods.agents import (
    AgentMethod,
    AgentModel,
    AgentRun,
    BackboneModel,
    Equipment,
    Prepared,
    Scene,
    Session,
)
from videopro.methods.videoagent import prompts
from videopro.methods.videoagent.agent import CAPTIONER, LLM, Captions, VideoAgentRun
from videopro.methods.videoagent.settings import VideoAgentSettings
from videopro.modules import is_pocket
from videopro.modules.calls import CallCache
from videopro.modules.search import ClipIndex, prepare_index
from videopro.traces import Preparation, Step


@dataclass(frozen=True)
class Tools:
    """What the questions of a video share."""

    index: ClipIndex | None
    """An embedding a frame; None where nothing is retrieved."""
    captions: Captions | None
    """None where the language model sees the frames."""


class VideoAgentMethod(AgentMethod):
    """VideoAgent, section 3: a language model, a captioner and a retriever."""

    name = "videoagent"
    Settings = VideoAgentSettings
    settings: VideoAgentSettings
    answers_open_questions = True

    def __init__(self, settings: VideoAgentSettings) -> None:
        super().__init__(settings)
        self._captions: CallCache[Step] = CallCache()

    def equipment(self) -> Equipment:
        settings = self.settings
        encoders = {"encoder": settings.encoder} if self._retrieves() else {}
        if settings.captions == "none":
            return Equipment({LLM: settings.llm}, seeing=LLM, encoders=encoders)
        roles = {LLM: settings.llm, CAPTIONER: settings.captioner}
        return Equipment(roles, seeing=CAPTIONER, encoders=encoders)

    def prepare(self, scene: Scene) -> Prepared:
        index, preparations = self._index(scene)
        return Prepared(Tools(index, self._captioning(scene)), preparations)

    def start(self, session: Session, prepared: Prepared) -> AgentRun:
        tools: Tools = prepared.content
        return VideoAgentRun(session, prepared, self.settings, tools.index, tools.captions)

    def _index(self, scene: Scene) -> tuple[ClipIndex | None, tuple[Preparation, ...]]:
        if not self._retrieves():
            return None, ()
        encoder = self.encoder(scene, self.settings.encoder, "frames are found by an encoder")
        seconds = 1.0 / self.settings.fps
        index, indexing = prepare_index(scene.context.video, encoder.for_frames(), clip_seconds=seconds)
        return index, (indexing,)

    def _retrieves(self) -> bool:
        return self.settings.selection != "uniform" and self.settings.max_rounds > 1

    def _captioning(self, scene: Scene) -> Captions | None:
        if self.settings.captions == "none":
            return None
        captioner = scene.models[CAPTIONER]
        length = self.settings.caption_length
        is_detailed = length == "detailed" or (
            length == "auto" and self.settings.captions == "frame" and not _is_pocket(captioner)
        )
        prompt = prompts.caption(is_detailed)
        return Captions(self._captions, scene.context.video.id, captioner.identity(), prompt)


def _is_pocket(model: AgentModel) -> bool:
    return isinstance(model, BackboneModel) and is_pocket(model.backbone)
