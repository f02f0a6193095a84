"""Who answers inside programs: the adapter's base, a merged planner's recorded base, or a named model."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.scenes import NATIVE, OPTIONS, SceneBackbone, context, item
from tests.support.stub_server import StubServer
from videopro.backbones import BackboneConfig, PlannerRecord, folder_fingerprint, load_backbone
from videopro.commands import infer
from videopro.errors import BackboneError, ConfigError, RunError
from videopro.methods import create
from videopro.methods.planners import answerer as answerer_module
from videopro.methods.planners import load_answerer
from videopro.pocket import adapter_dir, model_dir
from videopro.runs import RunFolder
from videopro.train import merge


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[BackboneConfig]:
    """The configs of the models that were loaded; each is a `SceneBackbone`."""
    configs: list[BackboneConfig] = []

    def load(config: BackboneConfig) -> SceneBackbone:
        configs.append(config)
        return SceneBackbone()

    monkeypatch.setattr(answerer_module, "load_backbone", load)
    return configs


def merged(base: str, weights: str) -> SceneBackbone:
    """A planner that records its base, and has no adapter."""
    backbone = SceneBackbone(lambda request: NATIVE)
    backbone.planner = PlannerRecord(base, weights)
    return backbone


def test_a_merged_planner_writes_and_its_base_answers(loaded: list[BackboneConfig]) -> None:
    planner = merged("pocket", folder_fingerprint(model_dir()))
    method = create("adaptive", OPTIONS)
    result: Any = method.run(item(), context(planner))
    assert (len(planner.written), planner.asked) == (1, [])
    assert "Available functions" not in planner.written[0][0].text, "a merged planner knows the short form"
    assert result.final.letter == "D"
    method.run(item(), context(planner))
    (config,) = loaded
    assert (config.model, config.frames) == (str(model_dir()), planner.frames)
    # Unless it is asked to answer by itself.
    create("adaptive", {**OPTIONS, "answer_adapter": "on"}).run(item(), context(planner))
    assert ([adapted for _, adapted in planner.asked], len(loaded)) == ([True], 1)


def test_a_named_model_answers(loaded: list[BackboneConfig]) -> None:
    planner = SceneBackbone(lambda request: NATIVE)
    options = {**OPTIONS, "answerer": "server:m@http://localhost:1/v1", "api_key_env": "KEY"}
    create("adaptive", options).run(item(), context(planner))
    assert planner.asked == []
    (config,) = loaded
    assert (config.kind, config.model, config.api_key_env, config.frames) == ("server", "m", "KEY", 12)
    assert load_answerer(None, planner) is planner


def test_the_planners_own_base_is_not_loaded_twice(loaded: list[BackboneConfig]) -> None:
    planner = SceneBackbone(lambda request: NATIVE)
    planner.name = str(model_dir())
    create("adaptive", {**OPTIONS, "answerer": "pocket"}).run(item(), context(planner))
    assert ([adapted for _, adapted in planner.asked], loaded) == ([False], [])


def test_a_base_with_other_weights_is_refused(tmp_path: Path, loaded: list[BackboneConfig]) -> None:
    base = tmp_path / "base"
    shutil.copytree(model_dir(), base)
    planner = merged(str(base), folder_fingerprint(base))
    load_answerer(None, planner)
    (base / "generation_config.json").write_text("{}")
    with pytest.raises(ConfigError, match="has changed since"):
        load_answerer(None, planner)
    load_answerer(str(base), planner)
    assert len(loaded) == 2


def test_on_and_off_are_words_where_yaml_reads_them_as_true_and_false() -> None:
    for given, word in ((True, "on"), (False, "off"), ("on", "on")):
        assert create("videopro", {"answer_adapter": given}).settings.answer_adapter == word


def test_a_named_answerer_is_in_the_key() -> None:
    before = create("videopro", {}).identity()
    assert before["answerer"] is None
    named = create("videopro", {"answerer": "server:m@http://localhost:8000/v1"}).identity()
    assert named == {**before, "answerer": {"model": "server:m"}}
    pocket = {"model": "pocket", "weights": folder_fingerprint(model_dir())}
    assert create("videopro", {"answerer": "pocket"}).identity()["answerer"] == pocket


def test_a_run_stops_if_its_answerer_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answerer_module, "load_backbone", lambda config: SceneBackbone(gone=True))
    method = create("adaptive", {**OPTIONS, "answerer": "pocket"})
    with pytest.raises(BackboneError, match="Every other request fails too"):
        method.run(item(), context(SceneBackbone(lambda request: NATIVE)))


def test_a_base_that_is_gone_stops_the_run(tmp_path: Path) -> None:
    planner = merged(str(tmp_path / "gone" / "base"), "0" * 16)
    with pytest.raises(RunError, match=r"the answerer inside programs cannot be loaded: .* no such folder"):
        create("adaptive", OPTIONS).run(item(), context(planner))


@pytest.mark.long
def test_merged_pocket_answers_as_its_adapter_does(tmp_path: Path) -> None:
    """The same questions with a merged planner and with its adapter: the same replies and answers, though no
    setting names the base or the prompts of the merged one."""
    output = tmp_path / "merged"
    words = ["--base", "pocket", "--adapter", str(adapter_dir("pocket-sft")), "--output", str(output)]
    assert merge.main(words) == 0
    ids = [f"val_short_000_{kind}" for kind in ("color", "shape", "weather", "narration")]
    shared = ["--benchmark", "pocket", "--split", "val", "--ids", *ids, "--method", "videopro"]
    shared += ["--options", "temperature=0"]
    replies = {}
    for name, words in {
        "merged": ["--model", str(output)],
        "adapter": ["--model", "pocket", "--backbone", "adapter=pocket-sft"],
    }.items():
        run = tmp_path / f"run-{name}"
        assert infer.main([*shared, *words, "--output", str(run)]) == 0
        replies[name] = {
            trace.question_id: ([round.raw for round in trace.rounds], trace.final and trace.final.letter)
            for trace in RunFolder(run).read()
        }
    assert replies["merged"] == replies["adapter"]
    assert len([letter for _, letter in replies["merged"].values() if letter]) == 4


def test_a_served_planner_that_records_its_base_does_not_answer_by_itself(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "videopro.json").write_text('{"planner": {"base": "org/base", "weights": "0f"}}')
    models = [{"id": "merged", "owned_by": "stub", "root": str(tmp_path)}]
    with StubServer(models=models) as stub:
        planner = load_backbone(f"server:merged@{stub.url}")
        with pytest.raises(
            ConfigError, match=r"made from 'org/base'.*--answerer server:NAME@URL if it is served"
        ):
            load_answerer(None, planner)
        named = load_answerer(f"server:merged@{stub.url}", planner)
        assert named is not planner
        named.close()
        planner.close()
