"""Who may be in a team, team files, what keys and traces say of them, and the index of the chunks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support import reason_world as world
from tests.support.lvagent_world import agents, discuss, team_of
from tests.support.method_world import context, item
from tests.support.reason_world import SceneBackbone
from tests.support.tiny_encoders import languagebind_folder
from videopro.backbones import load_backbone
from videopro.errors import ConfigError
from videopro.methods import create
from videopro.methods.agents import Scene
from videopro.methods.lvagent import (
    LibraryMember,
    TeamFile,
    agreement,
    check_weights,
    pseudo_label,
)
from videopro.traces import Cost, Preparation

TEAM = TeamFile(
    benchmark="made",
    split="test",
    domain="family=sign",
    questions=150,
    labelled=140,
    agents=("one", "two"),
    library=(
        LibraryMember(model="one", agreement=0.9),
        LibraryMember(model="two", agreement=0.8),
        LibraryMember(model="three", agreement=0.7),
    ),
    cost=Cost(seconds=12.5, frames=7200, calls=450, tokens_in=9000, tokens_out=450),
)


# ---- settings ----------------------------------------------------------------------------------------------


def test_served_adapters_of_one_model_are_different_agents() -> None:
    names = ["server:q@http://a/v1+looks", "server:q@http://a/v1+words"]
    identity = create("lvagent", {"agents": names}).identity()
    assert identity["agents"] == ["server:q+looks", "server:q+words"]
    assert "http" not in json.dumps(identity)
    assert "team" not in identity
    assert "server:q+looks" not in identity


def test_agents_with_the_same_weights_are_refused() -> None:
    local = {"kind": "qwen", "weights": "1f", "adapter": None, "frames": 16}
    with pytest.raises(ConfigError, match="'self' and 'copy' have the same weights"):
        check_weights({"self": {**local, "model": "a"}, "copy": {**local, "model": "b", "frames": 8}})
    check_weights({"self": {**local, "model": "a"}, "sft": {**local, "model": "a", "adapter": "2e"}})
    served = {"kind": "api", "frames": 16, "pixels": 1}
    check_weights({"one": {**served, "model": "a"}, "two": {**served, "model": "b"}})


def test_the_runs_backbone_by_two_names_is_refused() -> None:
    """Before any question is answered, in the process that loads them."""
    method = create("lvagent", {"agents": ["self", "pocket"]})
    backbone = load_backbone("pocket")
    with pytest.raises(ConfigError, match="'self' and 'pocket' have the same weights"):
        next(method.run_video([item()], context(backbone)))
    other: Any = create("lvagent", {"agents": ["self", "pocket+pocket-sft"]})
    assert list(other.models(backbone)) == ["self", "pocket+pocket-sft"]


# ---- team files --------------------------------------------------------------------------------------------


def test_a_team_file_gives_the_agents_and_what_their_selection_cost(tmp_path: Path) -> None:
    path = tmp_path / "team.json"
    path.write_text(TEAM.model_dump_json())
    models = agents(["Yes", "B"], ["Yes", "B"])
    result = discuss(models, team=path)
    assert result.prepared == (Preparation("selection", TEAM.key, Cost(12.5, {}, 7200, 450, 9000, 450)),)
    # The questions' own cost is that of their own four calls.
    assert result.cost.calls == 4
    assert TEAM.key.startswith("made/family=sign/")
    identity = team_of(models, team=path).identity()
    assert (identity["agents"], identity["selection"]) == (["one", "two"], TEAM.key)
    # Another machine's seconds are no other selection.
    assert TEAM.model_copy(update={"cost": Cost()}).key == TEAM.key
    assert TEAM.model_copy(update={"labelled": 1}).key != TEAM.key


# ---- pseudo-labels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("letters", "label"),
    [("AAB", "A"), ("ABB", "B"), ("AA", "A"), ("AABB", None), ("ABC", None), ("A", None), ("", None)],
)
def test_a_pseudo_label_is_given_more_often_than_any_other_letter(letters: str, label: str | None) -> None:
    assert pseudo_label([*letters, None]) == label


def test_agreement_is_counted_on_the_labelled_questions() -> None:
    found = agreement(
        {
            "x": {"1": "A", "2": "A", "3": "C", "4": None},
            "y": {"1": "A", "2": "B", "3": "D", "4": None},
            "z": {"1": "B", "2": "B", "3": "A", "4": None},
            "w": {"1": "A", "2": "B", "3": None, "4": None},
        }
    )
    # Question 3 is a tie of three, question 4 has no answer.
    assert found.labelled == 2
    assert found.rates == {"x": 0.5, "y": 1.0, "z": 0.5, "w": 1.0}
    assert found.best(3) == ("y", "w", "x")


def test_without_any_pseudo_label_there_is_no_team() -> None:
    with pytest.raises(ConfigError, match="none of 1 questions"):
        agreement({"x": {"1": "A"}, "y": {"1": "B"}})


# ---- the index of the chunks -------------------------------------------------------------------------------


def test_the_chunks_are_indexed_once_and_their_cost_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIDEOPRO_CACHE", str(tmp_path / "cache"))
    encoder = f"languagebind:{languagebind_folder(tmp_path)}"
    options = {"agents": ["a", "b"], "encoder": encoder}

    def prepared() -> Any:
        return cast(Any, create("lvagent", options)).prepare(Scene(context(SceneBackbone()), {}))

    first, second = prepared(), prepared()
    (made,) = first.records
    index, budget = first.content
    assert list(index.clips) == [(10.0 * i, 10.0 * i + 10.0) for i in range(6)]
    assert index.video == world.video().id
    assert (made.kind, made.is_known) == ("index", True)
    assert made.cost.frames == 6 * index.encoder.clip_frames
    assert made.cost.seconds > 0
    # The second run finds it, and reports what the first one paid.
    assert second.records == first.records
    assert budget == SceneBackbone().frames
    # Without an encoder there is nothing to retrieve.
    without: Any = create("lvagent", {**options, "encoder": "none"})
    with pytest.raises(ConfigError, match="leave out encoder=none"):
        without.prepare(Scene(context(SceneBackbone()), {}))
