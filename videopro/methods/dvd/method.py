"""The method `dvd`."""

from __future__ import annotations

from videopro.cli import cache_root
from videopro.methods.agents import AgentMethod, AgentRun, Equipment, Prepared, Scene, Session
from videopro.methods.dvd.agent import DvdRun
from videopro.methods.dvd.database import CAPTIONER, DatabaseBuilder
from videopro.methods.dvd.settings import DvdSettings
from videopro.modules import ModuleSettings

PIXELS_720P = 1280 * 720


class DvdMethod(AgentMethod):
    """Deep Video Discovery: a database of the video, and an agent that searches in it with tools."""

    name = "dvd"
    Settings = DvdSettings
    settings: DvdSettings
    answers_open_questions = True

    def __init__(self, settings: DvdSettings) -> None:
        super().__init__(settings)
        self.pixels = PIXELS_720P if settings.resolution == "720p" else None

    def equipment(self) -> Equipment:
        settings = self.settings
        roles = {"llm": settings.llm, CAPTIONER: settings.captioner, "vqa": settings.vqa}
        return Equipment(roles, seeing="vqa", encoders={"text_encoder": settings.text_encoder})

    def prepare(self, scene: Scene) -> Prepared:
        encoders = self.module_models(scene, ModuleSettings(text_encoder=self.settings.text_encoder))
        builder = DatabaseBuilder(
            scene.context.video,
            scene.models[CAPTIONER],
            self.settings,
            scene.subtitles,
            cache_root() / "databases",
            encoders.text_encoder(),
            scene.context.seed,
        )
        database = builder.build()
        return Prepared(database, (database.preparation,))

    def start(self, session: Session, prepared: Prepared) -> AgentRun:
        return DvdRun(session, prepared, self.settings)
