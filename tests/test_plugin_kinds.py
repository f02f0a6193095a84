"""A file of one's own for each kind of plug-in that no example shows, and what a run's key has of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.colours import load_fake
from videopro.backbones import Backbone, expected_model, load_backbone, own_model, owner_of, read_spec
from videopro.backbones.wrappers import Meter
from videopro.benchmarks import Item, Protocol
from videopro.errors import ConfigError
from videopro.methods import MethodContext, PreparedRun, Questions, RunRequest, answer_each, create, prepare
from videopro.methods.base import Method
from videopro.methods.planners import PlanRequest, load_planner
from videopro.modules import ModuleModels, ModuleSettings
from videopro.modules.calls import Frames, module
from videopro.modules.models import read_speech
from videopro.modules.models.encoders import load_encoder
from videopro.question import Question
from videopro.traces import Result, Round

MODEL = """
from tests.support.colours import load_fake
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
    with pytest.raises(ConfigError, match=r"other.mp4: model '.*tiny.py' knows one video"):
        prepared(tmp_path / "other.mp4", model=file)


def test_a_planner(tmp_path: Path) -> None:
    file = written(tmp_path, "short.py", PLANNER)
    (reply,) = load_planner(file, None).write([PlanRequest("plan", "", Question("Which?", ("a", "b")))])
    assert "pass" in reply.text
    with pytest.raises(ConfigError, match="planner 'short' has no variant 'er'; leave it out"):
        load_planner(f"{file}:er", None)
    planned: dict[str, Any] = {"method": "program", "options": {"planner": file}}
    identity = prepared(tmp_path / "none.mp4", **planned).identity
    assert identity["teacher"] == {"planner": "short"}
    assert identity["plugins"].keys() == {"planner short"}
    written(tmp_path, "short.py", PLANNER + "# changed\n")
    assert prepared(tmp_path / "none.mp4", **planned).identity["plugins"] != identity["plugins"]


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
    with pytest.raises(ConfigError, match="unknown encoder 'flat'"):
        load_encoder("flat")


METHOD = """
from dataclasses import dataclass
from videopro.methods.base import Method


class Own(Method):
    name = "own"

    def run_video(self, items, context):
        yield from ()
"""


@pytest.mark.parametrize(
    ("name", "named"),
    [("'native'", "method 'native'"), ("'own'\n    Settings = int", "Own.Settings is no data class")],
)
def test_a_method_that_cannot_be_used_is_one_line(name: str, named: str, tmp_path: Path) -> None:
    file = written(tmp_path, "own.py", METHOD.replace('"own"', name))
    with pytest.raises(ConfigError, match=named):
        create(file, {})


def test_a_method_may_have_no_settings(tmp_path: Path) -> None:
    file = written(tmp_path, "own.py", METHOD)
    assert create(file, {}).name == "own"
    with pytest.raises(ConfigError, match="frames"):
        create(file, {"frames": 3})


def test_a_result_that_no_record_could_have_is_that_questions_error(tmp_path: Path) -> None:
    class Wrong(Method):
        name = "wrong"

        def run_video(self, items: Sequence[Item], context: MethodContext) -> Iterator[tuple[Item, Result]]:
            for item in items:
                yield item, Result((Round("native", ""),), selected=3)

    item = Item("q", tmp_path / "a.mp4", "a", Question("Which?", ("a", "b")))
    context: Any = SimpleNamespace(meter=Meter())
    ((_, result),) = answer_each(Wrong(None), [item], lambda: context)
    assert result.error is not None
    assert "Result.selected is 3, and it has 1 rounds" in result.error.message


def test_a_text_that_is_too_long_for_a_file_belongs_to_no_model() -> None:
    assert owner_of("def execute_command(video, question):" + " " * 5000) is None


def test_a_module_without_its_context_is_refused() -> None:
    def motion(frames: Frames) -> float:
        """How much moves. Returns a number."""
        return float(len(frames))

    with pytest.raises(TypeError, match="put one before 'frames'"):
        module(family="extraction")(motion)
