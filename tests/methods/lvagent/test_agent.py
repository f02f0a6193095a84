"""Perception: a glance, the whole video or the chunks that fit, subtitles, and how many frames are shown."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tests.support import scenes as world
from tests.support.agents import ScriptedModel, agents, discuss, steps, team_of
from tests.support.scenes import SceneBackbone, colour_of, context, item
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
    phase_seconds,
    pseudo_label,
)
from videopro.methods.lvagent.agent import randomly, times_at
from videopro.traces import Cost, Execution, Preparation, Result, Round, Step
from videopro.video import uniform_times


def colours(model: ScriptedModel, request: int) -> list[str]:
    return [colour_of(frame) for frame in model.requests[request].frames]


def looking(*keys: str, **settings: Any) -> tuple[Any, ScriptedModel]:
    """The result where the first agent looks for `key`, and its model."""
    models = agents(["No", *keys, "B"], ["Yes", "B"])
    return discuss(models, **settings), models["one"]


def test_glances_are_random_but_the_same_in_every_run() -> None:
    def glance(seed_of: str) -> list[list[float]]:
        models = agents(["Yes", "B"], ["Yes", "B"])
        other: dict[str, Any] = {"frames": 3} if seed_of == "other settings" else {}
        discuss(models, **other)
        return [[frame.time for frame in model.requests[0].frames] for model in models.values()]

    first, second = glance("one"), glance("other settings")
    assert first == second
    # Each agent draws its own.
    assert first[0] != first[1]
    assert first[0] == sorted(first[0])


def test_the_chunks_above_the_threshold_are_shown() -> None:
    result, model = looking("a blue thing or a red one")
    assert set(colours(model, 2)) == {"red", "blue"}
    assert len(model.requests[2].frames) == 16
    (retrieve,) = steps(result, "retrieve")
    assert retrieve.args == {"agent": "one", "key": "a blue thing or a red one"}
    assert retrieve.result == "1, 3"
    assert [(s.start, s.end, s.name, s.score) for s in retrieve.segments] == [
        (10.0 * i, 10.0 * i + 10, str(i), 1.0 if i in (1, 3) else 0.1) for i in range(6)
    ]


def test_where_none_is_above_it_the_best_one_is_shown() -> None:
    result, model = looking("a blue thing or a red one", threshold=1.0)
    assert steps(result, "retrieve")[0].result == "1"
    assert set(colours(model, 2)) == {"red"}


def test_an_agent_that_names_nothing_sees_the_whole_video() -> None:
    result, model = looking(" ")
    assert not steps(result, "retrieve")
    assert len(set(colours(model, 2))) == 4
    assert "one named nothing to look for: used the whole video" in result.notes


def test_neither_yes_nor_no_is_the_whole_video() -> None:
    models = agents(["perhaps", "B"], ["Yes", "B"])
    result = discuss(models)
    assert "one said neither Yes nor No: used the whole video" in result.notes
    assert steps(result, "whole")[0].parsed == {"letter": None, "confidence": 0.0}
    # Evenly: of two frames a second, the one on display began at most half a second before.
    shown = [frame.time for frame in models["one"].requests[1].frames]
    assert shown == [int(2 * time) / 2 for time in uniform_times(0.0, 60.0, 16)]


def test_times_lie_in_the_spans_in_proportion_to_their_lengths() -> None:
    spans = [(10.0, 12.0), (50.0, 56.0)]
    assert times_at(spans, [1.0, 3.0, 5.0, 7.0]) == [11.0, 51.0, 53.0, 55.0]
    drawn = randomly(np.random.default_rng(0), spans, 4000)
    assert drawn == sorted(drawn)
    inside = [sum(start <= time <= end for time in drawn) for start, end in spans]
    assert sum(inside) == 4000
    # A quarter of the length; 4000 draws have a standard deviation of 27.
    assert abs(inside[0] - 1000) < 150


def turn(letter: str) -> list[str]:
    """Perception of the whole video, and an answer."""
    return ["Yes", letter]


def said(steps: Sequence[Step]) -> str:
    """What was done by whom."""
    return ", ".join(f"{step.kind} {step.model}" for step in steps)


def test_the_agent_of_the_lowest_sum_leaves_and_the_others_see_the_history() -> None:
    models = agents(
        [*turn("B"), "I saw red.", {"1": 9, "2": 3, "3": 7}, *turn("B")],
        [*turn("D"), "It was\nall grey.", {"1": 5, "2": 9, "3": 5}],
        [*turn("A"), "Blue, at the end.", {"1": 8, "2": 1, "3": 8}, *turn("B")],
    )
    result = discuss(models)
    assert result.final.letter == "B"
    assert said(steps(result, "reason", "score", "leave")) == (
        "reason one, reason two, reason three, score one, score two, score three, leave "
    )
    (leave,) = steps(result, "leave")
    assert leave.args["scores"] == {"1": 22, "2": 13, "3": 20}
    assert leave.result == "two"
    assert said(result.steps[-4:]) == "whole one, answer one, whole three, answer three"
    assert {step.round for step in result.steps[-4:]} == {1}
    history = (
        "The answers before:\n1: B. red, I saw red., score 22\n3: A. blue, Blue, at the end., score 20\n"
        "2: D. grey, It was all grey., left out\n"
    )
    for step in result.steps[-4:]:
        assert step.prompt.startswith(history)
    # Scores are given without frames, reasons with those of the answer.
    assert [len(step.frames) for step in steps(result, "score")] == [0, 0, 0]
    answers = steps(result, "answer")
    assert steps(result, "reason")[0].frames == answers[0].frames
    assert (
        "1: B. red, I saw red.\n2: D. grey, It was all grey.\n3: A. blue" in steps(result, "score")[1].prompt
    )


@pytest.mark.parametrize("scores", [{"1": 5, "2": 5, "3": 5}, {"1": 6, "2": 4, "3": 4}])
def test_of_equal_sums_the_later_agent_leaves(scores: dict[str, int]) -> None:
    scripts: list[list[Any]] = [[*turn(letter), "so", scores] for letter in "ABC"]
    scripts[0] += turn("B")
    scripts[1] += turn("B")
    result = discuss(agents(*scripts))
    assert [step.result for step in steps(result, "leave")] == ["three"]


def test_four_agents_without_agreement_end_by_the_scores_after_three_rounds() -> None:
    first = {"1": 4, "2": 9, "3": 8, "4": 1}
    second = {"1": 4, "2": 9, "3": 2}
    models = agents(
        [*turn("A"), "a", first, *turn("A"), "a", second, *turn("A")],
        [*turn("B"), "b", first, *turn("B"), "b", second, *turn("B")],
        [*turn("C"), "c", first, *turn("C"), "c", second],
        [*turn("D"), "d", first],
    )
    result = discuss(models)
    assert [(step.round, step.result) for step in steps(result, "leave")] == [(0, "four"), (1, "three")]
    assert max(step.round for step in result.steps) == 2
    # One vote each: 27 for B in the last reflection, 12 for A.
    assert result.final.letter == "B"


@pytest.mark.parametrize(("letters", "decided"), [("ABB", "B"), ("CB", "C")])
def test_in_the_last_round_the_majority_or_else_the_first_decides_without_reflection(
    letters: str, decided: str
) -> None:
    result = discuss(agents(*map(turn, letters)), max_rounds=1)
    assert not steps(result, "reason")
    assert result.final.letter == decided


def test_an_agent_whose_scores_cannot_be_read_has_no_say() -> None:
    result = discuss(
        agents([*turn("A"), "a", "one is best", "still one"], [*turn("B"), "b", {"1": 2, "2": 9}])
    )
    assert steps(result, "score")[0].is_unparsed
    (leave,) = steps(result, "leave")
    assert (leave.args["scores"], leave.result) == ({"1": 2, "2": 9}, "one")
    assert result.final.letter == "B"


def test_without_any_scores_nobody_leaves_and_none_are_made_up() -> None:
    bad = ["no", "no"]
    models = agents([*turn("A"), "a", *bad, *turn("B")], [*turn("B"), "b", *bad, *turn("B")])
    result = discuss(models)
    (leave,) = steps(result, "leave")
    assert (leave.args["scores"], leave.result) == ({}, "")
    assert "no scores could be parsed, so no agent left the discussion" in result.notes
    assert result.steps[-1].prompt.startswith("The answers before:\n1: A. blue, a\n2: B. red, b\n")
    assert result.final.letter == "B"


def test_an_agent_without_a_letter_agrees_with_nobody() -> None:
    models = agents([*turn("hm"), "I cannot tell", {"1": 1, "2": 9}], [*turn("B"), "b", {"1": 1, "2": 9}])
    result = discuss(models)
    assert "Your answer was no option" in steps(result, "reason")[0].prompt
    assert "1: no option, I cannot tell\n2: B. red, b" in steps(result, "score")[0].prompt
    assert result.final.letter == "B"


def test_where_no_agent_gives_a_letter_there_is_no_answer_unless_the_first_is_asked_directly() -> None:
    result = discuss(agents(turn("hm"), turn("")), max_rounds=1)
    assert (result.final.letter, result.final.raw) == (None, "hm")
    assert result.rounds[0].execution.status == "empty"
    result = discuss(agents([*turn("hm"), "B"], turn("hm")), max_rounds=1, fallback="native")
    assert (result.steps[-1].model, result.final.letter) == ("one", "B")
    # The direct look is no phase.
    assert sum(phase_seconds(result).values()) < result.cost.seconds


def test_a_budget_spent_in_reflection_ends_by_the_votes() -> None:
    result = discuss(agents([*turn("A"), "a"], turn("B"), turn("B")), max_steps=7)
    assert steps(result, "reason")[-1].model == "one"
    assert result.final.letter == "B"


def test_the_seconds_of_the_phases_add_up_to_those_of_the_question() -> None:
    named = ("whole", "key", "retrieve", "answer", "reason", "score", "leave")
    seconds = (1.0, 2.0, 1.0, 3.0, 4.0, 8.0, 1.0)
    taken = tuple(Step(kind, cost=Cost(each)) for kind, each in zip(named, seconds, strict=True))
    # Ten seconds of the twenty were its own; other questions were in flight.
    result = Result((Round("agent", "", execution=Execution("ok", steps=taken)),), cost=Cost(seconds=10.0))
    assert phase_seconds(result) == {"perception": 2.0, "action": 1.5, "reflection": 6.5}

    models = agents([*turn("A"), "a", {"1": 2, "2": 9}], [*turn("B"), "b", {"1": 2, "2": 9}])
    real = discuss(models)
    assert sum(phase_seconds(real).values()) == pytest.approx(real.cost.seconds)
    assert all(value > 0 for value in phase_seconds(real).values())


TEAM = TeamFile(
    benchmark="made",
    split="test",
    domain="family=sign",
    questions=150,
    labelled=140,
    agents=("one", "two"),
    library=tuple(LibraryMember(model=name, agreement=0.9) for name in ("one", "two", "three")),
    cost=Cost(seconds=12.5, frames=7200, calls=450, tokens_in=9000, tokens_out=450),
)


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
    backbone: Any = load_backbone("pocket")
    with pytest.raises(ConfigError, match="'self' and 'pocket' have the same weights"):
        next(method.run_video([item()], context(backbone)))
    other: Any = create("lvagent", {"agents": ["self", "pocket+pocket-sft"]})
    assert list(other.models(backbone)) == ["self", "pocket+pocket-sft"]


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


def test_the_chunks_are_indexed_once_and_their_cost_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
