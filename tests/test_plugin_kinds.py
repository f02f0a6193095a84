"""Plug-ins by name, by entry point and by file: what is found, what is said of what is not, and what the
run's key has of them; and a file of one's own for each kind that no example shows."""

import re
import sys
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
from videopro.plugins import Registry, Used, check_same, is_file, used_plugins
from videopro.question import Question
from videopro.traces import Result, Round


class Fruit:
    """What the registry of these tests holds."""

    def __init__(self, name: str) -> None:
        self.name = name


APPLE = Fruit("apple")
HEAD = f"from {__name__} import APPLE, Fruit\n"


@pytest.fixture
def fruits() -> Registry[Fruit]:
    ours: dict[str, str | Fruit] = {"pear": Fruit("pear"), "apple": f"{__name__}:APPLE"}
    return Registry(
        "fruit", lambda value: type(value).__name__ == "Fruit", ours, what="a Fruit", more_names=("bowl",)
    )


def install(site: Path, name: str, version: str, module: str, *entries: str) -> None:
    """A package as pip installs it: one module, and entry points of the group of these tests."""
    about = site / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    (about / "entry_points.txt").write_text("[videopro.fruits]\n" + "\n".join(entries) + "\n")
    (site / f"{name.replace('-', '_')}.py").write_text(module)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where packages are installed for one test."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    (tmp_path / "site").mkdir()
    yield tmp_path / "site"
    for name in [name for name in sys.modules if name.startswith("fruit_")]:
        del sys.modules[name]


def test_ours_are_found_by_name(fruits: Registry[Fruit]) -> None:
    assert list(fruits) == ["pear", "apple"]
    assert fruits["apple"] is APPLE
    assert ("apple" in fruits, "plum" in fruits, "x/plum.py" in fruits) == (True, False, True)
    assert fruits.find("pear").version == ""
    with pytest.raises(ConfigError, match=r"^unknown fruit 'aple'; did you mean 'apple'\?"):
        fruits["aple"]


def test_an_installed_one_and_its_version(fruits: Registry[Fruit], site: Path) -> None:
    install(site, "fruit-basket", "2.1", HEAD + "FIG = Fruit('fig')\n", "fig = fruit_basket:FIG")
    assert list(fruits) == ["pear", "apple", "fig"]
    assert fruits.ours() == ("pear", "apple")
    plugin = fruits.find("fig")
    assert (plugin.value.name, plugin.address, plugin.file) == ("fig", "fig", site / "fruit_basket.py")
    package, digest = plugin.version.split()
    assert (package, len(digest)) == ("2.1", 16)


def test_what_is_broken_stops_only_who_uses_it(fruits: Registry[Fruit], site: Path) -> None:
    install(site, "fruit-rot", "1.0", "import no_such_library\n", "fig = fruit_rot:FIG")
    assert fruits["apple"] is APPLE
    assert [each.name for each in fruits.working()] == ["pear", "apple"]
    (message,) = fruits.broken()
    assert message.startswith("fruit 'fig' of package fruit-rot (fruit_rot:FIG) cannot be loaded")
    with pytest.raises(ConfigError, match=re.escape(message)):
        fruits["fig"]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("pear = fruit_two:FIG", r"'pear' is in several packages \(videopro, fruit-two\)"),
        ("bowl = fruit_two:FIG", r"'bowl' is in several packages \(videopro, fruit-two\)"),
        ("fig = fruit_two:NUMBER", r"\(fruit_two:NUMBER\) is int 7"),
        ("plum = fruit_two:FIG", r"\(fruit_two:FIG\) has the name 'fig'"),
        ("plum = fruit_two:NONE", r"\(fruit_two:NONE\) cannot be loaded \(AttributeError: "),
    ],
)
def test_an_entry_point_that_is_none(fruits: Registry[Fruit], site: Path, entry: str, expected: str) -> None:
    install(site, "fruit-two", "1.0", HEAD + "FIG, NUMBER = Fruit('fig'), 7\n", entry)
    with pytest.raises(ConfigError, match=expected):
        fruits[entry.partition(" ")[0]]


def test_one_in_a_file(fruits: Registry[Fruit], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "garden.py"
    file.write_text(HEAD.replace("APPLE, ", "") + "FIG = Fruit('fig')\n")
    monkeypatch.chdir(tmp_path)
    plugin = fruits.find("garden.py")
    # Another process may run elsewhere.
    assert (plugin.name, plugin.address, plugin.value.name) == ("fig", str(file), "fig")
    assert fruits["garden.py@fig"] is fruits["garden.py@FIG"] is plugin.value
    file.write_text(file.read_text() + "PLUM = Fruit('plum')\n")
    with pytest.raises(ConfigError, match=r"garden.py: defines several \(fig, plum\); add @NAME to the file"):
        fruits["garden.py"]
    assert fruits["garden.py@plum"].name == "plum"
    assert fruits.find("garden.py@plum").version != plugin.version
    with pytest.raises(ConfigError, match=r"garden.py: defines no fruit 'kiwi', but fig, plum"):
        fruits["garden.py@kiwi"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, r"fruit '.*none.py' cannot be read \(No such file or directory\); pass a .py file"),
        ("x = 1", r"none.py: defines no fruit; a fruit is a Fruit$"),
        ("x = (", r"none.py, line 1: '\(' was never closed; fix the file$"),
        ("x = 1\n1 / 0", r"none.py, line 2: ZeroDivisionError: division by zero; fix the file$"),
        ("raise SystemExit(3)", r"none.py, line 1: SystemExit: 3; fix the file$"),
    ],
)
def test_a_file_that_is_none(
    fruits: Registry[Fruit], tmp_path: Path, content: str | None, expected: str
) -> None:
    if content is not None:
        (tmp_path / "none.py").write_text(content)
    with pytest.raises(ConfigError, match=expected) as raised:
        fruits[str(tmp_path / "none.py")]
    assert "\n" not in str(raised.value)


def test_which_names_are_files() -> None:
    assert [is_file(name) for name in ("a.py", "b/a.py@c", "a.python", "owner/name", "a@b.py@")] == [
        *(True, True, False, False, False)
    ]


def test_a_worker_has_the_same(fruits: Registry[Fruit], tmp_path: Path) -> None:
    file = tmp_path / "garden.py"
    file.write_text(HEAD.replace("APPLE, ", "") + "FIG = Fruit('fig')\n")
    used = used_plugins([("fruit", "pear"), ("fruit", str(file)), ("fruit", str(file))])
    assert [(each.kind, each.name, each.address) for each in used] == [("fruit", "fig", str(file))]
    check_same(used, "worker on node7")
    file.write_text(file.read_text() + "# other\n")
    with pytest.raises(ConfigError, match=r"^worker on node7: fruit .*garden.py differs from the command's"):
        check_same(used, "worker on node7")
    file.unlink()
    with pytest.raises(ConfigError, match=r"^worker on node7: fruit .* cannot be read"):
        check_same(used, "worker on node7")
    missing: Any = Used("fruit", "fig", "fig", "1.0 abc")
    with pytest.raises(ConfigError, match=r"^worker on node7: unknown fruit 'fig'"):
        check_same([missing], "worker on node7")


# ---- each kind -----------------------------------------------------------------------------------------

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
    [("'native'", "method 'native'"), ("'own'\n    Settings = int", "Own.Settings is not a dataclass")],
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
    assert "Result.selected is 3, but the result has 1 rounds" in result.error.message


def test_a_text_that_is_too_long_for_a_file_belongs_to_no_model() -> None:
    assert owner_of("def execute_command(video, question):" + " " * 5000) is None


def test_a_module_without_its_context_is_refused() -> None:
    def motion(frames: Frames) -> float:
        """How much moves. Returns a number."""
        return float(len(frames))

    with pytest.raises(TypeError, match="put one before 'frames'"):
        module(family="extraction")(motion)
