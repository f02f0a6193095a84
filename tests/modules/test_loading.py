"""Which models stand behind the modules, when they are loaded, and what of them is a run's identity."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support import scenes as world
from tests.support.scenes import SceneBackbone
from videopro.backbones import MODELS
from videopro.methods import create
from videopro.modules.loading import REAL, ModuleModels, ModuleSettings

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
