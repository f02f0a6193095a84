"""A file of one's own for each kind of plug-in that no example shows, and what a run's key has of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fakes import load_fake
from videopro.backbones import Backbone, expected_model, load_backbone, own_model, read_spec
from videopro.benchmarks import Protocol
from videopro.errors import ConfigError
from videopro.methods import PreparedRun, Questions, RunRequest, prepare
from videopro.methods.planners import PlanRequest, load_planner
from videopro.modules import ModuleModels, ModuleSettings
from videopro.modules.models import read_speech
from videopro.modules.models.encoders import load_encoder
from videopro.question import Question

MODEL = """
from tests.support.fakes import load_fake
from videopro.backbones import OwnModel


class Tiny(OwnModel):
    name = "tiny"
    modules = {"encoder": "none", "detector": "none"}
    summarizes = False
    planner = "writer"

    def load(self, config):
        return load_fake("tiny", salt=str(config.pixels))

    def refusal(self, role, name, video):
        return "" if video.stem == "known" else "knows one video; take another model"


TINY = Tiny()
"""
PLANNER = """
from videopro.methods.planners import Planner, PlannerReply


class Short(Planner):
    name = "short"

    def identity(self):
        return {"planner": "short"}

    def write(self, requests):
        return [PlannerReply("<code>\\npass\\n</code>") for request in requests]
"""
ENCODER = """
from videopro.modules.models.encoders import EncoderKind

FLAT = EncoderKind("flat", lambda source, **options: (source, options["name"]), "FOLDER")
"""
EARS = """
from videopro.modules.models import SpeechRecognizer


class Ears(SpeechRecognizer):
    def __init__(self, name, *, language=None, device=None):
        self.name, self.language = name, language

    def transcribe(self, sound, language=None):
        raise NotImplementedError
"""


def written(folder: Path, name: str, content: str) -> str:
    (folder / name).write_text(content)
    return str(folder / name)


def test_a_model_with_a_backbone_of_its_own(tmp_path: Path) -> None:
    file = written(tmp_path, "tiny.py", MODEL)
    config = read_spec(file, pixels=400)
    assert (config.kind, config.model) == ("own", file)
    backbone: Backbone = load_backbone(file, pixels=400)
    assert "400" in str(backbone.identity())
    own = own_model(file)
    assert own is not None
    assert expected_model(config) == (own, True)
    models = ModuleModels(ModuleSettings(), answering=own)
    assert (models.names["encoder"], models.names["ocr"], models.identity()["summarize"]) == (
        *("none", "rapidocr", False),
    )


def prepared(video: Path, **settings: object) -> PreparedRun:
    given = {"method": "native", "options": {}, "model": "m", "backbone": {}, **settings}
    questions = Questions(Protocol("robust"), videos=[video])
    return prepare(RunRequest(**given, questions=lambda: questions, load=load_fake))  # type: ignore[arg-type]


def test_the_model_says_which_videos_it_knows(tmp_path: Path) -> None:
    file = written(tmp_path, "tiny.py", MODEL)
    for name in ("known.mp4", "other.mp4"):
        (tmp_path / name).touch()
    run = prepared(tmp_path / "known.mp4", model=file)
    assert run.identity["plugins"].keys() == {"backbone tiny"}
    with pytest.raises(
        ConfigError, match=r"other.mp4: model '.*tiny.py' knows one video; take another model"
    ):
        prepared(tmp_path / "other.mp4", model=file)


def test_a_planner(tmp_path: Path) -> None:
    file = written(tmp_path, "short.py", PLANNER)
    (reply,) = load_planner(file, None).write([PlanRequest("plan", "", Question("Which?", ("a", "b")))])
    assert "pass" in reply.text
    with pytest.raises(ConfigError, match="planner 'short' has no variant 'er'; leave it out"):
        load_planner(f"{file}:er", None)
    run = prepared(tmp_path / "none.mp4", method="program", options={"planner": file})
    assert run.identity["teacher"] == {"planner": "short"}
    before = run.identity["plugins"]
    assert before.keys() == {"planner short"}
    written(tmp_path, "short.py", PLANNER + "# changed\n")
    assert prepared(tmp_path / "none.mp4", method="program", options={"planner": file}).identity[
        "plugins"
    ] != (before)


def test_an_encoder_and_a_transcriber(tmp_path: Path) -> None:
    file = written(tmp_path, "flat.py", ENCODER)
    assert load_encoder(f"{file}:OTHER") == ("OTHER", f"{file}:OTHER")  # type: ignore[comparison-overlap]
    ears = written(tmp_path, "ears.py", EARS)
    spec = read_speech(f"{ears}:small@en")
    recognizer = spec.load()
    assert (recognizer.name, recognizer.language) == ("small", "en")  # type: ignore[attr-defined]
    # Transcripts of another version are other ones.
    before = spec.identity()
    written(tmp_path, "ears.py", EARS + "# changed\n")
    assert read_speech(f"{ears}:small@en").identity() != before
    with pytest.raises(
        ConfigError, match=r"unknown encoder 'flat'; known: |unknown encoder 'flat'; did you mean"
    ):
        load_encoder("flat")
