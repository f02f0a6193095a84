"""The paper's own models as a preset, and Whisper where it is on the machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from tests.support import method_world, tiny_models
from tests.support import reason_world as world
from tests.support.adapting import adapted
from tests.support.benchmark_runs import paper_folders
from tests.support.making_videos import make
from tests.support.reason_world import SceneBackbone
from tests.support.sounds import with_tone
from videopro import methods
from videopro.backbones import MODELS, BackboneConfig, load_backbone, read_spec
from videopro.benchmarks import ROBUST, Protocol
from videopro.cli import check_needs, is_here
from videopro.commands import compare
from videopro.commands.ask.command import AskConfig, _options
from videopro.commands.infer_settings import InferConfig, runs_of
from videopro.data_synthesis.run import prepare_synthesis
from videopro.data_synthesis.settings import SynthesisConfig
from videopro.errors import ConfigError
from videopro.methods import create
from videopro.modules import (
    ModuleModels,
    ModuleSettings,
    paper_notes,
    part_needs,
    presets,
)
from videopro.modules.models import transcription
from videopro.video import Video

# By hand, from section 4, the appendix's Fig. 7 and the release.
PAPER = {
    "encoder": "languagebind",
    "text_encoder": "BAAI/bge-m3",
    "ocr": "easyocr:en",
    "detector": "grounding-dino:IDEA-Research/grounding-dino-base",
    "tracker": "detector",
    "speech": "whisper",
}
NO_MODELS: dict[str, Any] = dict.fromkeys(("encoder", "text_encoder", "ocr", "detector", "tracker"), "none")


def parts(settings: ModuleSettings) -> dict[str, str]:
    return {name: getattr(settings, name) for name in PAPER}


def nothing_here(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """An empty cache of the hub, and no network."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("videopro.cli.needs._refusal", lambda name, headers: "the hub cannot be reached")
    return folder


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
    assert create("videopro", {"preset": "paper"}).settings.sampling().temperature == 0.7
    assert create("videopro", {"preset": "paper", "temperature": 0}).settings.sampling().temperature == 0
    assert create("videopro", {}).settings.sampling().temperature == 0


def test_every_other_value_of_the_preset_is_the_default() -> None:
    settings = create("videopro", {"preset": "paper"}).settings
    assert (settings.tau, settings.max_rounds) == (0.75, 1)
    assert (settings.final, settings.fallback, settings.refinement_shows) == ("last", "none", "program")


@pytest.mark.parametrize("name", ["program", "adaptive", "videopro"])
def test_the_preset_shows_64_frames(name: str) -> None:
    paper, given = {"preset": "paper"}, {"frames": 32, "dtype": "bf16"}
    assert adapted(name, paper).backbone == {"frames": 64}
    assert adapted(name, paper, backbone=given).backbone == given
    assert adapted(name).backbone == {}


def test_a_preset_is_the_settings_it_stands_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing_here(monkeypatch, tmp_path)
    identity = create("videopro", {"preset": "paper"}).identity()
    assert "preset" not in identity
    # Without Whisper, videos without subtitles are as they are in a run without it.
    sampled = {"temperature": 0.7}
    assert identity == create("videopro", {**PAPER, "speech": "none", **sampled}).identity()
    assert create("videopro", {}).identity()["speech"] == "none"
    cached(tmp_path, "openai/whisper-small", "config.json", "model.safetensors")
    assert create("videopro", {"preset": "paper"}).identity()["speech"] == "whisper:openai/whisper-small"


def test_asking_with_the_preset_follows_the_papers_rule() -> None:
    asked: dict[str, Any] = {"video": Path("v"), "question": "q", "model": "m", "method": "videopro"}
    assert _options(AskConfig(**asked, options={"preset": "paper"})) == {"preset": "paper"}
    assert _options(AskConfig(**asked)) == {"final": "last-answered", "fallback": "native"}


def test_synthesis_takes_the_preset() -> None:
    given: dict[str, Any] = {"source": "pocket", "teacher": "pocket-teacher", "model": "pocket"}
    config = SynthesisConfig(**given, output=Path("x"), preset="paper", backbone={"dtype": "bf16"})
    assert parts(config) == PAPER
    assert prepare_synthesis(config, load_backbone, tuple).backbone == {"frames": 64, "dtype": "bf16"}
    plain = SynthesisConfig(**given, output=Path("x"))
    assert (plain.speech, prepare_synthesis(plain, load_backbone, tuple).backbone) == ("none", {})
    silent = SynthesisConfig(**given, output=Path("x"), preset="paper", subtitles="none")
    assert silent.speech == "none"


def test_presets_of_agents_and_of_programs_are_told_apart() -> None:
    given = {"benchmark": "pocket", "model": "m", "output": Path("x"), "methods": ("videopro", "vca")}
    each = compare.settings_of_each(compare.CompareConfig(**given, options={"preset": "equal"}))  # type: ignore[arg-type]
    assert (each["videopro"].options, each["vca"].options) == ({}, {"preset": "equal"})
    each = compare.settings_of_each(compare.CompareConfig(**given, options={"preset": "paper"}))  # type: ignore[arg-type]
    assert each["videopro"].options == each["vca"].options == {"preset": "paper"}
    with pytest.raises(ConfigError, match="preset is 'equal'"):
        create("videopro", {"preset": "equal"})
    assert not methods.takes("native", "preset", "paper")


# ---- what cannot be had ------------------------------------------------------------------------------------


def test_parts_that_cannot_be_had_are_named_together(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("easyocr")
    nothing_here(monkeypatch, tmp_path)
    monkeypatch.setattr("easyocr.config.MODULE_PATH", str(tmp_path))
    with pytest.raises(ConfigError) as raised:
        check_needs(part_needs(PAPER))
    for said in (
        "clip encoder languagebind: LanguageBind/LanguageBind_Video_FT is not on this machine",
        "text encoder BAAI/bge-m3: not on this machine",
        "detector grounding-dino:IDEA-Research/grounding-dino-base: not on this machine",
        "without it: --options text_encoder=none",
        "from a folder: --options detector=grounding-dino:FOLDER",
        "the models: the hub cannot be reached",
        "hf download LanguageBind/LanguageBind_Video_FT && hf download BAAI/bge-m3 && hf download IDEA-",
    ):
        assert said in str(raised.value)
    # Those in the cache, and those for which another model is named, are not missed.
    cached(tmp_path, "IDEA-Research/grounding-dino-base", "config.json", "model.safetensors")
    cached(tmp_path, "BAAI/bge-m3", "config.json", "pytorch_model.bin")
    cached(tmp_path, "LanguageBind/LanguageBind_Video_FT", "config.json")
    with pytest.raises(ConfigError) as raised:
        check_needs(part_needs({**PAPER, "ocr": "rapidocr"}))
    assert str(raised.value).startswith("clip encoder languagebind: LanguageBind/LanguageBind_Video_FT")
    assert "\n" not in str(raised.value)
    check_needs(part_needs({**PAPER, "ocr": "none", "encoder": "pocket"}))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ConfigError, match="is not on this machine, and HF_HUB_OFFLINE is set"):
        check_needs(part_needs({**PAPER, "ocr": "none"}))


def test_a_download_that_was_stopped_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing_here(monkeypatch, tmp_path)
    cached(tmp_path, "a/whole", "config.json", "model-1.safetensors", "model-2.safetensors")
    cached(tmp_path, "a/part", "config.json", "model-1.safetensors")
    for name in ("whole", "part"):
        index = {"weight_map": {"x": "model-1.safetensors", "y": "model-2.safetensors"}}
        file = tmp_path / f"models--a--{name}" / "snapshots" / "abc" / "model.safetensors.index.json"
        file.write_text(json.dumps(index))
    assert (is_here("a/whole"), is_here("a/part")) == (True, False)


def test_all_packages_are_one_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing_here(monkeypatch, tmp_path)
    monkeypatch.setattr("videopro.cli.needs.find_spec", lambda name: None)
    given = {"encoder": "pe_video:FOLDER", "text_encoder": "FOLDER", "ocr": "easyocr:en@FOLDER"}
    with pytest.raises(ConfigError) as raised:
        check_needs(part_needs(given))
    for package in ("timm", "sentence_transformers", "easyocr"):
        assert f"needs the package {package}" in str(raised.value)
    assert "to install: pip install 'videopro[encoders,easyocr]'" in str(raised.value)


def test_a_method_names_what_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing_here(monkeypatch, tmp_path)
    real, pocket = read_spec("Qwen/Qwen3-VL-8B-Instruct"), read_spec("pocket")

    def missing(name: str, model: BackboneConfig, **options: Any) -> set[str]:
        return {need.hub for need in adapted(name, options).needs(model) if need.hub}

    parts = {"LanguageBind/LanguageBind_Video_FT", "BAAI/bge-m3", "IDEA-Research/grounding-dino-base"}
    assert missing("videopro", real) == parts
    assert missing("videopro", real, encoder="none", text_encoder="/a/folder") == {
        "IDEA-Research/grounding-dino-base"
    }
    assert missing("videopro", pocket) == set()
    assert missing("videopro", real, answerer="Qwen/Qwen3-VL-2B-Instruct") == {
        *parts,
        "Qwen/Qwen3-VL-2B-Instruct",
    }
    # The pocket model answers inside the programs, with its own modules.
    assert missing("videopro", real, answerer="pocket") == set()
    assert missing("native", real) == set()
    assert missing("dvd", real) == {"BAAI/bge-m3"}
    assert missing("dvd", real, captioner="Qwen/Qwen3-VL-2B-Instruct", text_encoder="none") == {
        "Qwen/Qwen3-VL-2B-Instruct"
    }
    assert missing("videoagent", real) == {"LanguageBind/LanguageBind_Video_FT"}
    assert missing("videoagent", real, selection="uniform") == set()
    assert missing("vca", real) == set()
    # Whether a served model is the pocket model is not known before it is asked.
    assert missing("videopro", read_spec("server:pocket@http://localhost:8000/v1")) == set()
    assert missing("videopro", read_spec("server:q@http://localhost:8000/v1")) == parts


def test_what_differs_is_noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing_here(monkeypatch, tmp_path)
    notes = adapted("videopro", {"preset": "paper", "ocr": "none", "text_encoder": "none"}).notes
    assert any("DEVA" in note for note in notes)
    assert adapted("videopro").notes == ()


def test_what_differs_from_the_paper_is_noted_unless_it_was_chosen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nothing_here(monkeypatch, tmp_path)
    assert ["DEVA" in note for note in paper_notes(PAPER)] == [True, False]
    assert paper_notes({**PAPER, "tracker": "sam3:facebook/sam3", "speech": "whisper:x"}) == []
    (note,) = paper_notes({**PAPER, "tracker": "none", "speech": "none"})
    assert "no video is transcribed" in note
    cached(tmp_path, "openai/whisper-large-v3", "config.json", "model.safetensors")
    assert len(paper_notes(PAPER)) == 1


# ---- Whisper -----------------------------------------------------------------------------------------------


def test_the_best_whisper_of_the_machine_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nothing_here(monkeypatch, tmp_path)
    assert presets.find_whisper() is None
    cached(tmp_path, "openai/whisper-small", "config.json", "model.safetensors")
    assert presets.find_whisper() == "whisper:openai/whisper-small"
    # Only its config was fetched.
    cached(tmp_path, "openai/whisper-large-v3", "config.json")
    assert presets.find_whisper() == "whisper:openai/whisper-small"
    cached(tmp_path, "openai/whisper-large-v3-turbo", "config.json", "model.safetensors")
    assert presets.find_whisper() == "whisper:openai/whisper-large-v3-turbo"


def contexts(tmp_path: Path, *videos: Path) -> list[Any]:
    models = ModuleModels(
        ModuleSettings(**NO_MODELS, speech="whisper"), answering=MODELS["pocket"], root=tmp_path / "kept"
    )
    return [models.context(Video.open(video), SceneBackbone(), None) for video in videos]


def test_a_video_without_subtitles_is_transcribed_where_whisper_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    loud = with_tone(tmp_path / "loud.mkv", starts=(0.0,), seconds=4.0)
    make(tmp_path / "mute.mp4", 8, rate=4)
    monkeypatch.setattr(transcription, "find_whisper", lambda: f"whisper:{tiny_models.whisper()}@en")
    heard, silent = contexts(tmp_path, loud, tmp_path / "mute.mp4")
    assert heard.subtitles is not None
    assert heard.notes == ()
    assert heard.has("subtitles")
    # A video without sound is no failure.
    assert silent.subtitles is None
    assert silent.notes == ("no transcript: the video has no sound",)
    monkeypatch.setattr(transcription, "find_whisper", lambda: None)
    (without,) = contexts(tmp_path, loud)
    assert without.subtitles is None
    assert without.notes == ("no transcript: Whisper is not on this machine",)
    plain = ModuleModels(ModuleSettings(**NO_MODELS), answering=MODELS["pocket"], root=tmp_path / "kept")
    assert plain.context(Video.open(loud), SceneBackbone(), None).notes == ()


def test_its_absence_is_recorded_with_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcription, "find_whisper", lambda: None)
    method = create("program", {**method_world.OPTIONS, "speech": "whisper", "planner": "self"})
    backbone = SceneBackbone(writes=lambda request: world.NATIVE)
    result = method.run(method_world.item(), method_world.context(backbone))
    assert result.error is None
    assert result.notes == ("no subtitles", "no transcript: Whisper is not on this machine")


def test_the_preset_of_benchmarks_transcribes(tmp_path: Path) -> None:
    paper_folders(tmp_path)
    given: dict[str, Any] = {"benchmark": "videopro", "model": "m", "output": Path("x"), "root": tmp_path}
    speech = {
        name: [
            run.options.get("speech") for run in runs_of(InferConfig(**given, method=method, options=options))
        ]
        for name, method, options in (
            ("videopro", "videopro", {}),
            ("program", "program", {"tau": 1}),
            ("native", "native", {}),
            ("native with lines", "native", {"subtitles": "all"}),
            ("agent", "dvd", {}),
            ("vca", "vca", {}),
            ("named", "videopro", {"speech": "whisper:openai/whisper-small"}),
            ("silent", "videopro", {"subtitles": "none"}),
        )
    }
    assert speech == {
        "videopro": ["whisper"] * 4,
        "program": ["whisper"] * 4,
        # The paper's baseline answers from frames alone.
        "native": [None] * 4,
        "native with lines": ["whisper"] * 4,
        "agent": ["whisper"] * 4,
        "vca": ["whisper"] * 4,
        "named": ["whisper:openai/whisper-small"] * 4,
        "silent": [None] * 4,
    }
    # And reads what is listed, where its own settings leave that out.
    shown = {"native": None, "vca": "listed", "videoagent": "listed", "dvd": None, "lvagent": None}
    for method, rule in shown.items():
        assert [run.options.get("subtitles") for run in runs_of(InferConfig(**given, method=method))] == [
            rule
        ] * 4
    (single,) = runs_of(InferConfig(**{**given, "benchmark": "lvbench"}, method="videopro"))
    assert single.options == {}


def test_a_protocol_without_subtitles_has_no_transcripts() -> None:
    def follow(protocol: Protocol, options: dict[str, Any]) -> Any:
        options = dict(adapted("videopro", options, protocol=protocol).options)
        # Settled for every run (tests/modules/search/test_indexing.py).
        del options["encoder_dtype"]
        return options

    without = Protocol(ROBUST, subtitles="none")
    assert follow(without, {}) == {"speech": "none"}
    # What is asked for is done.
    assert follow(without, {"speech": "whisper"}) == {"speech": "whisper"}
    assert follow(without, {"preset": "paper"}) == {"preset": "paper", "speech": "none"}
    assert follow(without, {"speech": "whisper:x"}) == {"speech": "whisper:x"}
    assert follow(Protocol(ROBUST), {"preset": "paper"}) == {"preset": "paper"}
    settings = create("videopro", follow(without, {"preset": "paper"})).settings
    assert (settings.speech, settings.ocr) == ("none", "easyocr:en")
