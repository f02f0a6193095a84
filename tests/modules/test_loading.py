"""Which models stand behind the modules, when they are loaded, and what of them is a run's identity; the
paper's own models as a preset, and Whisper where it is on the machine."""

import json
import threading
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from tests.support import scenes as world
from tests.support.adapting import adapted
from tests.support.benchmark_runs import paper_folders
from tests.support.scenes import SceneBackbone
from videopro import methods
from videopro.backbones import MODELS, load_backbone, read_spec
from videopro.benchmarks import ROBUST, Protocol
from videopro.cli import check_needs, is_here
from videopro.commands import compare
from videopro.commands.ask.command import AskConfig, _options
from videopro.commands.infer_settings import InferConfig, runs_of
from videopro.data_synthesis.run import prepare_synthesis
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.errors import ConfigError
from videopro.methods import create
from videopro.modules import ModuleSettings, paper_notes, part_needs, presets
from videopro.modules.loading import REAL, ModuleModels

NO_MODELS: dict[str, Any] = dict.fromkeys(("encoder", "text_encoder", "ocr", "detector", "tracker"), "none")


def test_auto_is_the_papers_for_a_real_model_and_pockets_own_for_pocket() -> None:
    given = {"ocr": "easyocr:en", "tracker": "none"}
    settings = ModuleSettings(**given)
    real, pocket = ModuleModels(settings), ModuleModels(settings, answering=MODELS["pocket"])
    assert real.names == {**REAL, **given}
    assert pocket.names == {**MODELS["pocket"].modules, **given}
    assert (real.identity()["summarize"], pocket.identity()["summarize"]) == (True, False)


@pytest.mark.parametrize(("part", "kind"), [("encoder", "languagebind:"), ("ocr", "easyocr:en@")])
def test_other_weights_in_the_same_folder_are_another_run(part: str, kind: str, tmp_path: Path) -> None:
    models = ModuleModels(ModuleSettings(**{part: f"{kind}{tmp_path}"}))
    (tmp_path / "config.json").write_text("{}")
    before = models.identity()
    assert part in before["weights"]  # type: ignore[operator]
    assert models.identity() == before
    (tmp_path / "config.json").write_text("{ }")
    assert models.identity() != before


def test_models_are_loaded_once_and_disabled_ones_are_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def load(spec: str) -> Any:
        loaded.append(spec)
        return world.ColourOcr()

    monkeypatch.setattr("videopro.modules.loading.load_ocr", load)
    settings = ModuleSettings(**{**NO_MODELS, "ocr": "rapidocr", "detector": "backbone"})
    models = ModuleModels(settings, answering=MODELS["pocket"], root=tmp_path)
    backbone = SceneBackbone()
    made = [models.context(world.video(), backbone, None) for _ in range(2)]
    assert loaded == ["rapidocr"]
    assert made[0].ocr is made[1].ocr
    assert made[0].detector is not None
    assert [made[0].index, made[0].tracker, made[0].subtitles, made[0].search] == [None] * 4


def test_settings_are_in_the_runs_identity_unless_they_change_no_answer() -> None:
    def identity(**options: Any) -> dict[str, object]:
        return create("videopro", {"planner": "pocket-teacher", **options}).identity()

    assert identity(max_parallel=2) == identity(max_parallel=5) != identity(tau=0.7)
    assert identity()["teacher"]["faults"] == 1.0  # type: ignore[index]
    json.dumps(identity())


def test_one_video_at_a_time_is_indexed_and_those_that_are_ready_do_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty videos in flight would otherwise be decoded from end to end at once."""
    root = tmp_path / "index"
    root.mkdir()
    building: list[str] = []
    most: list[int] = []
    hold, started = threading.Event(), threading.Event()

    def prepare(video: Any, encoder: Any, root: Path) -> tuple[None, None]:
        if not (root / video).exists():
            building.append(video)
            most.append(len(building))
            started.set()
            hold.wait(20)
            building.remove(video)
        return None, None

    monkeypatch.setattr("videopro.modules.loading.prepare_index", prepare)
    monkeypatch.setattr("videopro.modules.loading.index_path", lambda video, encoder, root: root / video)
    settings = ModuleSettings(**{**NO_MODELS, "encoder": "pocket"})
    models: Any = ModuleModels(settings, answering=MODELS["pocket"], root=tmp_path)
    models.encoder = lambda: object()
    (root / "ready").touch()
    threads = [threading.Thread(target=models.index, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    assert started.wait(20)
    models.index("ready")  # while another is indexed
    assert not hold.is_set()
    hold.set()
    for thread in threads:
        thread.join(20)
    assert most == [1, 1, 1]


# ---- the paper's models -----------------------------------------------------------------------------------

# By hand, from section 4, the appendix's Fig. 7 and the release.
PAPER = {
    "encoder": "languagebind",
    "text_encoder": "BAAI/bge-m3",
    "ocr": "easyocr:en",
    "detector": "grounding-dino:IDEA-Research/grounding-dino-base",
    "tracker": "detector",
    "speech": "whisper",
}


def parts(settings: ModuleSettings) -> dict[str, str]:
    return {name: getattr(settings, name) for name in PAPER}


@pytest.fixture
def nothing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache of the hub, and no network."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("videopro.cli.needs._refusal", lambda name, headers: "the hub cannot be reached")
    return tmp_path


def cached(folder: Path, name: str, *files: str) -> None:
    """A checkpoint in a cache of the hub."""
    where = folder / f"models--{name.replace('/', '--')}"
    (where / "refs").mkdir(parents=True)
    (where / "refs" / "main").write_text("abc")
    (where / "snapshots" / "abc").mkdir(parents=True)
    for file in files:
        (where / "snapshots" / "abc" / file).write_text("{}")


# ---- the preset --------------------------------------------------------------------------------------------


def test_the_preset_names_the_papers_models_and_leaves_what_is_given() -> None:
    assert parts(ModuleSettings(preset="paper")) == PAPER
    given = {"ocr": "rapidocr", "speech": "none"}
    assert parts(ModuleSettings(preset="paper", **given)) == {**PAPER, **given}
    assert parts(ModuleSettings()) == {**dict.fromkeys(PAPER, "auto"), "speech": "none"}


def test_the_preset_samples_as_the_paper_does_and_nothing_else_does() -> None:
    settings = create("videopro", {"preset": "paper"}).settings
    assert (settings.sampling().temperature, settings.tau, settings.max_rounds) == (0.7, 0.75, 1)
    assert (settings.final, settings.fallback, settings.refinement_shows) == ("last", "none", "program")
    assert create("videopro", {"preset": "paper", "temperature": 0}).settings.sampling().temperature == 0
    assert create("videopro", {}).settings.sampling().temperature == 0


@pytest.mark.parametrize("name", ["program", "adaptive", "videopro"])
def test_the_preset_shows_64_frames(name: str) -> None:
    paper, given = {"preset": "paper"}, {"frames": 32, "dtype": "bf16"}
    assert adapted(name, paper).backbone == {"frames": 64}
    assert adapted(name, paper, backbone=given).backbone == given
    assert adapted(name).backbone == {}


def test_a_preset_is_the_settings_it_stands_for(nothing_here: Path) -> None:
    identity = create("videopro", {"preset": "paper"}).identity()
    assert "preset" not in identity
    # Without Whisper, videos without subtitles are as they are in a run without it.
    assert identity == create("videopro", {**PAPER, "speech": "none", "temperature": 0.7}).identity()
    assert create("videopro", {}).identity()["speech"] == "none"
    cached(nothing_here, "openai/whisper-small", "config.json", "model.safetensors")
    assert create("videopro", {"preset": "paper"}).identity()["speech"] == "whisper:openai/whisper-small"


def test_asking_with_the_preset_follows_the_papers_rule() -> None:
    asked: dict[str, Any] = {"video": Path("v"), "question": "q", "model": "m", "method": "videopro"}
    assert _options(AskConfig(**asked, options={"preset": "paper"})) == {"preset": "paper"}
    assert _options(AskConfig(**asked)) == {"final": "last-answered", "fallback": "native"}


def test_synthesis_takes_the_preset() -> None:
    def prepared(**more: Any) -> tuple[SynthesisConfig, Any]:
        given: dict[str, Any] = {"source": "pocket", "teacher": "pocket-teacher", "model": "pocket", **more}
        config = SynthesisConfig(**given, output=Path("x"))
        return config, prepare_synthesis(config, load_backbone, tuple).backbone

    config, backbone = prepared(preset="paper", backbone={"dtype": "bf16"})
    assert (parts(config), backbone) == (PAPER, {"frames": 64, "dtype": "bf16"})
    plain, backbone = prepared()
    assert (plain.speech, backbone) == ("none", {})
    assert prepared(preset="paper", subtitles="none")[0].speech == "none"


def test_presets_of_agents_and_of_programs_are_told_apart() -> None:
    def options(preset: str) -> list[dict[str, Any]]:
        run: dict[str, Any] = {"benchmark": "pocket", "model": "m", "output": Path("x")}
        both = compare.CompareConfig(**run, methods=("videopro", "vca"), options={"preset": preset})
        each = compare.settings_of_each(both)
        return [each[name].options for name in ("videopro", "vca")]

    assert options("equal") == [{}, {"preset": "equal"}]
    assert options("paper") == [{"preset": "paper"}] * 2
    assert not methods.takes("native", "preset", "paper")


# ---- what cannot be had ------------------------------------------------------------------------------------


def test_parts_that_cannot_be_had_are_named_together(
    monkeypatch: pytest.MonkeyPatch, nothing_here: Path
) -> None:
    pytest.importorskip("easyocr")
    monkeypatch.setattr("easyocr.config.MODULE_PATH", str(nothing_here))
    with pytest.raises(ConfigError) as raised:
        check_needs(part_needs(PAPER))
    for said in (
        "clip encoder languagebind: LanguageBind/LanguageBind_Video_FT is not on this machine",
        "without it: --options text_encoder=none",
        "from a folder: --options detector=grounding-dino:FOLDER",
        "the hub cannot be reached",
        "hf download LanguageBind/LanguageBind_Video_FT && hf download BAAI/bge-m3 && hf download IDEA-",
    ):
        assert said in str(raised.value)
    # Those in the cache, and those for which another model is named, are not missed.
    cached(nothing_here, "IDEA-Research/grounding-dino-base", "config.json", "model.safetensors")
    cached(nothing_here, "BAAI/bge-m3", "config.json", "pytorch_model.bin")
    cached(nothing_here, "LanguageBind/LanguageBind_Video_FT", "config.json")
    with pytest.raises(ConfigError, match=r"^clip encoder languagebind: LanguageBind/[^\n]*$"):
        check_needs(part_needs({**PAPER, "ocr": "rapidocr"}))
    check_needs(part_needs({**PAPER, "ocr": "none", "encoder": "pocket"}))
    # All packages are one command.
    monkeypatch.setattr("videopro.cli.needs.find_spec", lambda name: None)
    given = {"encoder": "pe_video:FOLDER", "text_encoder": "FOLDER", "ocr": "easyocr:en@FOLDER"}
    with pytest.raises(ConfigError, match=r"(?s)timm.*sentence_transformers.*easyocr.*easyocr>="):
        check_needs(part_needs(given))


def test_a_download_that_was_stopped_is_missing(nothing_here: Path) -> None:
    cached(nothing_here, "a/whole", "config.json", "model-1.safetensors", "model-2.safetensors")
    cached(nothing_here, "a/part", "config.json", "model-1.safetensors")
    index = {"weight_map": {"x": "model-1.safetensors", "y": "model-2.safetensors"}}
    for name in ("whole", "part"):
        folder = nothing_here / f"models--a--{name}" / "snapshots" / "abc"
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert (is_here("a/whole"), is_here("a/part")) == (True, False)


LANGUAGEBIND, SENTENCES = "LanguageBind/LanguageBind_Video_FT", "BAAI/bge-m3"
DINO, SMALL = "IDEA-Research/grounding-dino-base", "Qwen/Qwen3-VL-2B-Instruct"
PARTS = {LANGUAGEBIND, SENTENCES, DINO}


@pytest.mark.usefixtures("nothing_here")
@pytest.mark.parametrize(
    ("method", "model", "options", "needed"),
    [
        ("videopro", "Qwen/Qwen3-VL-8B-Instruct", {}, PARTS),
        ("videopro", "a/b", {"encoder": "none", "text_encoder": "/a/folder"}, {DINO}),
        ("videopro", "a/b", {"answerer": SMALL}, {*PARTS, SMALL}),
        # The pocket model answers inside the programs, with its own modules.
        ("videopro", "a/b", {"answerer": "pocket"}, set()),
        ("native", "a/b", {}, set()),
        ("dvd", "a/b", {}, {SENTENCES}),
        ("dvd", "a/b", {"captioner": SMALL, "text_encoder": "none"}, {SMALL}),
        ("videoagent", "a/b", {}, {LANGUAGEBIND}),
        ("videoagent", "a/b", {"selection": "uniform"}, set()),
        # Whether a served model is the pocket model is not known before it is asked.
        ("videopro", "server:pocket@http://localhost:8000/v1", {}, set()),
        ("videopro", "server:q@http://localhost:8000/v1", {}, PARTS),
    ],
)
def test_a_method_names_what_it_needs(
    method: str, model: str, options: dict[str, Any], needed: set[str]
) -> None:
    assert {need.hub for need in adapted(method, options).needs(read_spec(model)) if need.hub} == needed


def test_what_differs_from_the_paper_is_noted_unless_it_was_chosen(nothing_here: Path) -> None:
    assert ["DEVA" in note for note in paper_notes(PAPER)] == [True, False]
    assert paper_notes({**PAPER, "tracker": "sam3:facebook/sam3", "speech": "whisper:x"}) == []
    (note,) = paper_notes({**PAPER, "tracker": "none", "speech": "none"})
    assert "no video is transcribed" in note
    cached(nothing_here, "openai/whisper-large-v3", "config.json", "model.safetensors")
    assert len(paper_notes(PAPER)) == 1
    # A method passes them on.
    notes = adapted("videopro", {"preset": "paper", "ocr": "none", "text_encoder": "none"}).notes
    assert any("DEVA" in note for note in notes)
    assert adapted("videopro").notes == ()


# ---- Whisper -----------------------------------------------------------------------------------------------


def test_the_best_whisper_of_the_machine_is_taken(nothing_here: Path) -> None:
    assert presets.find_whisper() is None
    cached(nothing_here, "openai/whisper-small", "config.json", "model.safetensors")
    # Only its config was fetched.
    cached(nothing_here, "openai/whisper-large-v3", "config.json")
    assert presets.find_whisper() == "whisper:openai/whisper-small"
    cached(nothing_here, "openai/whisper-large-v3-turbo", "config.json", "model.safetensors")
    assert presets.find_whisper() == "whisper:openai/whisper-large-v3-turbo"


@pytest.mark.parametrize(
    ("method", "options", "speech", "subtitles"),
    [
        ("videopro", {}, "whisper", None),
        # The paper's baseline answers from frames alone.
        ("native", {"subtitles": "all"}, "whisper", "all"),
        # Agents read what is listed, where their own settings leave that out.
        ("vca", {}, "whisper", "listed"),
        ("videopro", {"speech": "whisper:openai/whisper-small"}, "whisper:openai/whisper-small", None),
        ("videopro", {"subtitles": "none"}, None, "none"),
    ],
)
def test_the_preset_of_benchmarks_transcribes(
    method: str, options: dict[str, Any], speech: str | None, subtitles: str | None, tmp_path: Path
) -> None:
    paper_folders(tmp_path)
    given: dict[str, Any] = {"model": "m", "output": Path("x"), "root": tmp_path, "method": method}
    runs = [run.options for run in runs_of(InferConfig(**given, benchmark="videopro", options=options))]
    assert [(run.get("speech"), run.get("subtitles")) for run in runs] == [(speech, subtitles)] * 4
    (single,) = runs_of(InferConfig(**given, benchmark="lvbench"))
    assert single.options == {}


def test_a_protocol_without_subtitles_has_no_transcripts() -> None:
    def follow(options: dict[str, Any], subtitles: str | None = "none") -> Any:
        protocol = Protocol(ROBUST, **({"subtitles": subtitles} if subtitles else {}))  # type: ignore[arg-type]
        options = dict(adapted("videopro", options, protocol=protocol).options)
        # Settled for every run (tests/modules/search/test_indexing.py).
        del options["encoder_dtype"]
        return options

    assert follow({}) == {"speech": "none"}
    assert follow({"preset": "paper"}) == {"preset": "paper", "speech": "none"}
    # What is asked for is done.
    for asked in ({"speech": "whisper"}, {"speech": "whisper:x"}):
        assert follow(asked) == asked
    assert follow({"preset": "paper"}, None) == {"preset": "paper"}
    settings = create("videopro", follow({"preset": "paper"})).settings
    assert (settings.speech, settings.ocr) == ("none", "easyocr:en")
