"""Action and reflection: who agrees, who leaves, what the others are told, and which answer counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.lvagent_world import agents, discuss, kinds, steps
from tests.support.scripted_model import ScriptedModel
from videopro.errors import BackboneError
from videopro.methods.lvagent import phase_seconds
from videopro.traces import FORCED, Cost, Execution, Result, Round, Step


def turn(letter: str) -> list[str]:
    """Perception of the whole video, and an answer."""
    return ["Yes", letter]


def test_agents_that_agree_end_the_discussion_at_once() -> None:
    result = discuss(agents(turn("B"), turn("B")))
    assert kinds(result) == [
        (0, "whole", "one"),
        (0, "answer", "one"),
        (0, "whole", "two"),
        (0, "answer", "two"),
    ]
    assert result.final is not None
    assert (result.final.letter, result.final.confidence) == ("B", 0.9)


def test_the_agent_of_the_lowest_sum_leaves_and_the_others_see_the_history() -> None:
    models = agents(
        [*turn("B"), "I saw red.", {"1": 9, "2": 3, "3": 7}, *turn("B")],
        [*turn("D"), "It was\nall grey.", {"1": 5, "2": 9, "3": 5}],
        [*turn("A"), "Blue, at the end.", {"1": 8, "2": 1, "3": 8}, *turn("B")],
    )
    result = discuss(models)
    assert result.final is not None
    assert result.final.letter == "B"
    reflection = [
        (step.kind, step.model) for step in result.steps if step.kind in ("reason", "score", "leave")
    ]
    assert reflection == [
        *(("reason", name) for name in ("one", "two", "three")),
        *(("score", name) for name in ("one", "two", "three")),
        ("leave", ""),
    ]
    (leave,) = steps(result, "leave")
    assert leave.args["scores"] == {"1": 22, "2": 13, "3": 20}
    assert leave.result == "two"
    assert kinds(result)[-4:] == [
        (1, "whole", "one"),
        (1, "answer", "one"),
        (1, "whole", "three"),
        (1, "answer", "three"),
    ]
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


def test_of_two_agents_the_better_one_decides_without_another_look() -> None:
    models = agents([*turn("A"), "blue", {"1": 2, "2": 6}], [*turn("B"), "red", {"1": 4, "2": 8}])
    result = discuss(models)
    assert result.final is not None
    assert result.final.letter == "B"
    assert result.steps[-1].kind == "leave"
    assert result.steps[-1].result == "one"


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
    assert result.final is not None
    assert result.final.letter == "B"


def test_in_the_last_round_the_majority_decides_without_reflection() -> None:
    result = discuss(agents(turn("A"), turn("B"), turn("B")), max_rounds=1)
    assert not steps(result, "reason")
    assert result.final is not None
    assert result.final.letter == "B"


def test_without_majority_and_scores_the_first_agent_decides() -> None:
    result = discuss(agents(turn("C"), turn("B")), max_rounds=1)
    assert result.final is not None
    assert result.final.letter == "C"


# ---- replies that cannot be used ---------------------------------------------------------------------------


def test_malformed_scores_are_repaired_once() -> None:
    models = agents(
        [*turn("A"), "a", {"1": 11, "2": 3}, {"1": 2, "2": 9}], [*turn("B"), "b", {"1": 3, "2": 8}]
    )
    result = discuss(models)
    score = steps(result, "score")[0]
    assert [json.loads(rejected) for rejected in score.rejected] == [{"1": 11, "2": 3}]
    assert "less than or equal to 10" in score.faults[0]
    assert not score.is_unparsed
    assert steps(result, "leave")[0].args["scores"] == {"1": 5, "2": 17}


def test_an_agent_whose_scores_cannot_be_read_has_no_say() -> None:
    models = agents(
        [*turn("A"), "a", "one is best", "still one"],
        [*turn("B"), "b", {"1": 2, "2": 9}],
    )
    result = discuss(models)
    assert steps(result, "score")[0].is_unparsed
    (leave,) = steps(result, "leave")
    assert (leave.args["scores"], leave.result) == ({"1": 2, "2": 9}, "one")
    assert result.final is not None
    assert result.final.letter == "B"


def test_without_any_scores_nobody_leaves_and_none_are_made_up() -> None:
    bad = ["no", "no"]
    models = agents([*turn("A"), "a", *bad, *turn("B")], [*turn("B"), "b", *bad, *turn("B")])
    result = discuss(models)
    (leave,) = steps(result, "leave")
    assert (leave.args["scores"], leave.result) == ({}, "")
    assert "no scores could be parsed: nobody left the discussion" in result.notes
    assert result.steps[-1].prompt.startswith("The answers before:\n1: A. blue, a\n2: B. red, b\n")
    assert result.final is not None
    assert result.final.letter == "B"


def test_an_agent_without_a_letter_agrees_with_nobody() -> None:
    models = agents([*turn("hm"), "I cannot tell", {"1": 1, "2": 9}], [*turn("B"), "b", {"1": 1, "2": 9}])
    result = discuss(models)
    assert "Your answer was no option" in steps(result, "reason")[0].prompt
    assert "1: no option, I cannot tell\n2: B. red, b" in steps(result, "score")[0].prompt
    assert result.final is not None
    assert result.final.letter == "B"


def test_where_no_agent_gives_a_letter_there_is_no_answer() -> None:
    result = discuss(agents(turn("hm"), turn("")), max_rounds=1)
    assert result.final is not None
    assert (result.final.letter, result.final.raw) == (None, "hm")
    execution = result.rounds[0].execution
    assert execution is not None
    assert execution.status == "empty"


def test_the_fallback_asks_the_first_agent() -> None:
    result = discuss(agents([*turn("hm"), "B"], turn("hm")), max_rounds=1, fallback="native")
    assert result.steps[-1].model == "one"
    assert result.final is not None
    assert result.final.letter == "B"


def test_a_failed_request_keeps_what_was_said_before() -> None:
    result = discuss(agents(turn("A"), ["Yes", BackboneError("gone")]))
    assert result.error is not None
    assert [step.kind for step in result.steps] == ["whole", "answer", "whole"]


# ---- budgets and times -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("most", "script", "letter", "count"),
    [
        # Before any reply to the question: the first agent answers at once.
        (1, ["Yes", "C"], "C", 2),
        # One agent has answered: nobody is asked.
        (3, ["Yes", "A"], "A", 3),
    ],
)
def test_a_spent_budget_ends_in_what_is_known(most: int, script: list[str], letter: str, count: int) -> None:
    result = discuss(agents(script, turn("B")), max_steps=most)
    assert result.final is not None
    assert (result.final.letter, len(result.steps)) == (letter, count)
    assert f"the budget of {most} steps is spent: {FORCED}" in result.notes


def test_a_budget_spent_in_reflection_ends_by_the_votes() -> None:
    result = discuss(agents([*turn("A"), "a"], turn("B"), turn("B")), max_steps=7)
    assert steps(result, "reason")[-1].model == "one"
    assert result.final is not None
    assert result.final.letter == "B"


def test_the_seconds_of_the_phases_add_up_to_those_of_the_question() -> None:
    kinds = {
        "whole": 1.0,
        "key": 2.0,
        "retrieve": 1.0,
        "answer": 3.0,
        "reason": 4.0,
        "score": 8.0,
        "leave": 1.0,
    }
    taken = tuple(Step(kind, cost=Cost(seconds=seconds)) for kind, seconds in kinds.items())
    # Ten seconds of the twenty were its own; other questions were in flight.
    result = Result((Round("agent", "", execution=Execution("ok", steps=taken)),), cost=Cost(seconds=10.0))
    assert phase_seconds(result) == {"perception": 2.0, "action": 1.5, "reflection": 6.5}

    models = agents([*turn("A"), "a", {"1": 2, "2": 9}], [*turn("B"), "b", {"1": 2, "2": 9}])
    real = discuss(models)
    assert sum(phase_seconds(real).values()) == pytest.approx(real.cost.seconds)
    assert all(value > 0 for value in phase_seconds(real).values())


def test_a_fallback_is_no_phase() -> None:
    result = discuss(agents([*turn("hm"), "B"], turn("hm")), max_rounds=1, fallback="native")
    assert sum(phase_seconds(result).values()) < result.cost.seconds


def test_every_agent_is_asked_as_often_as_its_script_says() -> None:
    """Scripts fail when they are too short; this one sees that none of them is too long."""
    models: dict[str, ScriptedModel] = agents(
        [*turn("A"), "a", {"1": 2, "2": 9}], [*turn("B"), "b", {"1": 2, "2": 9}]
    )
    discuss(models)
    assert [len(model.requests) for model in models.values()] == [4, 4]
