"""Perception: a glance, the whole video or the chunks that fit, subtitles, and how many frames are shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import reason_world as world
from tests.support.lvagent_world import BUDGET, agents, discuss, steps
from tests.support.method_world import item
from tests.support.reason_world import colour_of
from tests.support.scripted_model import ScriptedModel
from videopro.methods.lvagent import agent
from videopro.methods.lvagent.agent import randomly, times_at
from videopro.traces import FORCED
from videopro.video import uniform_times

SRT = """1
00:00:00,000 --> 00:00:59,000
It goes on and on.

2
00:00:12,000 --> 00:00:13,000
The old king laughs.
"""


def colours(model: ScriptedModel, request: int) -> list[str]:
    return [colour_of(frame) for frame in model.requests[request].frames]


def looking(*keys: str, **settings: Any) -> tuple[Any, ScriptedModel]:
    """The result where the first agent looks for `key`, and its model."""
    models = agents(["No", *keys, "B"], ["Yes", "B"])
    return discuss(models, **settings), models["one"]


def test_the_whole_video_is_shown_evenly() -> None:
    models = agents(["Yes", "B"], ["Yes", "B"])
    result = discuss(models)
    glance, look = models["one"].requests
    assert (len(glance.frames), len(look.frames)) == (4, 16)
    # Two frames a second: the one on display began at most half a second before.
    for frame, time in zip(look.frames, uniform_times(0.0, 60.0, 16), strict=True):
        assert frame.time == int(2 * time) / 2
    assert "Is all of it needed" in glance.prompt
    assert result.notes == ("no subtitles",)


def test_glances_are_random_but_the_same_in_every_run() -> None:
    def glance(seed_of: str) -> list[list[float]]:
        models = agents(["Yes", "B"], ["Yes", "B"])
        discuss(models, **({"frames": 3} if seed_of == "other settings" else {}))
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
        (0.0, 10.0, "0", 0.1),
        (10.0, 20.0, "1", 1.0),
        (20.0, 30.0, "2", 0.1),
        (30.0, 40.0, "3", 1.0),
        (40.0, 50.0, "4", 0.1),
        (50.0, 60.0, "5", 0.1),
    ]


def test_where_none_is_above_it_the_best_one_is_shown() -> None:
    result, model = looking("red", threshold=1.0)
    assert steps(result, "retrieve")[0].result == "1"
    assert set(colours(model, 2)) == {"red"}


def test_the_best_one_alone_can_be_asked_for() -> None:
    result, model = looking("a blue thing or a red one", threshold=1.0)
    assert steps(result, "retrieve")[0].result == "1"
    assert set(colours(model, 2)) == {"red"}


def test_the_key_is_cut_to_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "KEY_WORDS", 2)
    result, model = looking("some red thing")
    assert "at most 2 words" in model.requests[1].prompt
    assert steps(result, "retrieve")[0].args["key"] == "some red"
    assert len(model.requests[1].frames) == 4


def test_an_agent_that_names_nothing_sees_the_whole_video() -> None:
    result, model = looking(" ")
    assert not steps(result, "retrieve")
    assert len(set(colours(model, 2))) == 4
    assert "one named nothing to look for: it saw the whole video" in result.notes


def test_neither_yes_nor_no_is_the_whole_video() -> None:
    models = agents(["perhaps", "B"], ["Yes", "B"])
    result = discuss(models)
    assert "one said neither Yes nor No: it saw the whole video" in result.notes
    assert steps(result, "whole")[0].parsed == {"letter": None, "confidence": 0.0}
    assert len(models["one"].requests[1].frames) == 16


def test_subtitle_lines_at_the_frames_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "lines.srt"
    path.write_text(SRT)
    models = agents(["No", "red", "B"], ["Yes", "B"])
    result = discuss(models, item(subtitles=path))
    assert "no subtitles" not in result.notes
    for step in result.steps:
        if step.frames:
            assert "It goes on and on." in step.prompt
    # Ten of the sixteen frames lie in 10 to 20 s apart by 0.625 s: one is strictly inside the king's second.
    assert "The old king laughs." in models["one"].requests[2].prompt
    silent = discuss(agents(["Yes", "B"], ["Yes", "B"]), item(subtitles=path), subtitles="none")
    assert all("It goes on" not in step.prompt for step in silent.steps)
    assert silent.notes == ()


def test_the_equal_preset_shows_as_many_frames_as_the_backbone() -> None:
    models = agents(["Yes", "B"], ["No", "red", "B"])
    discuss(models, preset="equal")
    assert len(models["one"].requests[1].frames) == BUDGET
    assert len(models["two"].requests[2].frames) == BUDGET
    assert len(models["one"].requests[0].frames) == 4


def test_an_agent_that_takes_fewer_frames_is_shown_those() -> None:
    models = agents(["Yes", "B"], ["Yes", "B"])
    models["two"].frames = 6
    result = discuss(models)
    assert len(models["two"].requests[1].frames) == 6
    assert "at most 6 frames a call: the maximum of two" in result.notes


def test_frames_beyond_the_budget_are_left_out() -> None:
    models = agents(["Yes", "B"], ["Yes"])
    result = discuss(models, max_frames=10)
    # Four of the glance and six more; then none is left for the other agent's glance.
    assert len(models["one"].requests[1].frames) == 6
    assert result.frames_seen == 10
    assert f"the budget of 10 frames is spent: {FORCED}" in result.notes
    assert result.final.letter == "B"


# ---- times -------------------------------------------------------------------------------------------------


def test_times_lie_in_the_spans_in_proportion_to_their_lengths() -> None:
    import numpy as np

    spans = [(10.0, 12.0), (50.0, 56.0)]
    assert times_at(spans, [1.0, 3.0, 5.0, 7.0]) == [11.0, 51.0, 53.0, 55.0]
    drawn = randomly(np.random.default_rng(0), spans, 4000)
    assert drawn == sorted(drawn)
    inside = [sum(start <= time <= end for time in drawn) for start, end in spans]
    assert sum(inside) == 4000
    # A quarter of the length; 4000 draws have a standard deviation of 27.
    assert abs(inside[0] - 1000) < 150


def test_the_scenes_are_what_the_tests_say() -> None:
    assert world.SCENES == ("grey", "red", "grey", "blue", "grey", "green")
